package ownership

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// watchSuffix ends variables with the namespaces that an operator watches (WATCH_NAMESPACE of
// github.com/operator-framework/operator-sdk, KEDA_HTTP_OPERATOR_WATCH_NAMESPACE of
// github.com/kedacore/http-add-on); empty or "*" is all. They are never certain: an operator may ignore its
// own (github.com/kubevirt/kubevirt, pkg/virt-operator/resource/generate/components/deployments.go).
const watchSuffix = "WATCH_NAMESPACE"

var watchVariables = []string{
	"WATCHED_NAMESPACE",        // github.com/minio/operator, pkg/controller/controller.go
	"STRIMZI_NAMESPACE",        // github.com/strimzi/strimzi-kafka-operator, ClusterOperatorConfig.java
	"OPERATOR_SCOPE_NAMESPACE", // github.com/rabbitmq/cluster-operator, main.go
	"PGO_TARGET_NAMESPACE",     // github.com/CrunchyData/postgres-operator, cmd/postgres-operator/main.go
	"PGO_TARGET_NAMESPACES",    // the same
}

var watchArguments = []string{
	"watch-namespace",        // github.com/actions/actions-runner-controller, main.go
	"watch-single-namespace", // the same
	"managed-namespace",      // github.com/argoproj/argo-workflows, cmd/workflow-controller/main.go
}

// ownArguments make an operator watch only its own namespace, unless an argument above names one.
var ownArguments = map[string]string{
	"namespaced":           "true",  // github.com/argoproj/argo-workflows and argo-rollouts, main.go
	"watch-all-namespaces": "false", // github.com/fluxcd, main.go of each controller
}

// targetNamespaces is the Operator Lifecycle Manager's annotation of pods (github.com/operator-framework/api,
// pkg/operators/v1/operatorgroup_types.go).
const targetNamespaces = "olm.targetNamespaces"

// maxOutlook bounds the namespaces kept of one workload: more count as all.
const maxOutlook = 64

// maxSettings bounds the settings read: further workloads count as watching all namespaces.
const maxSettings = 100

// Setting is a key of a ConfigMap with the namespaces that a workload watches.
type Setting struct{ Namespace, Name, Key string }

// Settings returns the settings that workloads refer to.
func (p *Part) Settings() (all []Setting) {
	for _, wl := range p.workloadsWhere(func(wl workload) bool { return wl.template != nil }) {
		if len(all) < maxSettings {
			_, settings := outlookOf(wl.namespace, *wl.template, nil)
			all = append(all, settings...)
		}
	}
	return all
}

func (p *Part) TakeSettings(values map[Setting]string) {
	if maps.Equal(values, p.settings) {
		return
	}
	p.settings, p.dirty, p.grantsDirty = values, true, true
	for _, wl := range p.workloadsWhere(func(wl workload) bool { return wl.template != nil }) {
		key, before := types.NamespacedName{Namespace: wl.namespace, Name: wl.name}, wl
		wl.outlook, _ = outlookOf(wl.namespace, *wl.template, values)
		p.workloads[wl.kind][key] = wl
		p.workloadChanged(key, before, wl)
	}
}

// outlookOf returns the watched namespaces, comma-separated, "" for all or unknown.
func outlookOf(namespace string, template corev1.PodTemplateSpec, settings map[Setting]string) (outlook string, refs []Setting) {
	var names []string
	for _, c := range template.Spec.Containers {
		var watches, own []string
		for _, e := range c.Env {
			if !strings.HasSuffix(e.Name, watchSuffix) && !slices.Contains(watchVariables, e.Name) {
				continue
			}
			value := "*" // of a Secret, which is not read
			switch from := e.ValueFrom; {
			case from == nil:
				value = e.Value
			case from.ConfigMapKeyRef != nil:
				at := Setting{namespace, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key}
				if set, exists := settings[at]; exists {
					value = set
				}
				refs = append(refs, at)
			case from.FieldRef == nil:
			case from.FieldRef.FieldPath == "metadata.namespace":
				value = namespace
			case from.FieldRef.FieldPath == "metadata.annotations['"+targetNamespaces+"']":
				value = template.Annotations[targetNamespaces]
			}
			watches = append(watches, value)
		}
		args := slices.Concat(c.Command, c.Args)
		for i, arg := range args {
			name, value, assigned := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			switch only := ownArguments[name]; {
			case !strings.HasPrefix(arg, "-"):
			case slices.Contains(watchArguments, name):
				if !assigned && i+1 < len(args) {
					value = args[i+1]
				}
				watches = append(watches, value)
			case only != "" && (value == only || !assigned && only == "true"):
				own = []string{namespace}
			}
		}
		if len(watches) == 0 {
			watches = own
		}
		for _, list := range watches {
			names = append(names, strings.Split(list, ",")...)
		}
	}
	var lines []string
	for _, name := range names {
		switch name = strings.TrimSpace(name); {
		case strings.ContainsAny(name, "$*"):
			return "", refs // all, or known to the container only
		case name != "":
			lines = append(lines, name)
		}
	}
	slices.Sort(lines)
	if lines = slices.Compact(lines); len(lines) > maxOutlook {
		lines = nil
	}
	return strings.Join(lines, ","), refs
}

// watches is true for cluster-scoped objects ("").
func (wl workload) watches(namespace string) bool {
	return namespace == "" || wl.outlook == "" || slices.Contains(strings.Split(wl.outlook, ","), namespace)
}

// withOutlook marks an owner that watches only other namespaces as uncertain.
func (p *Part) withOutlook(namespace string, j judgement) judgement {
	if j.state != Alive || len(j.workloads) == 0 || slices.ContainsFunc(j.workloads, func(wl workload) bool { return wl.watches(namespace) }) {
		return j
	}
	wl := j.workloads[0]
	j.watches = strings.Split(wl.outlook, ",")
	return j.is(Unknown, false, "%s watches only %s %s, not %s", wl, plural(len(j.watches), "namespace"), strings.Join(j.watches, ", "), namespace)
}
