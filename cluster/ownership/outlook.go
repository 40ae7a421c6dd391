package ownership

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// watchSuffix ends environment variables by which operators are told the namespaces that they
// watch (WATCH_NAMESPACE of github.com/operator-framework/operator-sdk,
// KEDA_HTTP_OPERATOR_WATCH_NAMESPACE of github.com/kedacore/http-add-on), and watchVariables are
// others, with commas between; empty or "*" is all. Who sets one need not read it
// (github.com/kubevirt/kubevirt, pkg/virt-operator/resource/generate/components/deployments.go
// says "not used yet"), so they tell what may be, never what is sure.
const watchSuffix = "WATCH_NAMESPACE"

var watchVariables = []string{
	"WATCHED_NAMESPACE",        // github.com/minio/operator, pkg/controller/controller.go
	"STRIMZI_NAMESPACE",        // github.com/strimzi/strimzi-kafka-operator, ClusterOperatorConfig.java
	"OPERATOR_SCOPE_NAMESPACE", // github.com/rabbitmq/cluster-operator, main.go
	"PGO_TARGET_NAMESPACE",     // github.com/CrunchyData/postgres-operator, cmd/postgres-operator/main.go
	"PGO_TARGET_NAMESPACES",    // the same
}

// watchArguments are the same as command-line arguments.
var watchArguments = []string{
	"watch-namespace",        // github.com/actions/actions-runner-controller, main.go
	"watch-single-namespace", // the same
	"managed-namespace",      // github.com/argoproj/argo-workflows, cmd/workflow-controller/main.go
}

// ownArguments have an operator watch the namespace that it runs in, and no other, unless an
// argument above names one.
var ownArguments = map[string]string{
	"namespaced":           "true",  // github.com/argoproj/argo-workflows and argo-rollouts, main.go
	"watch-all-namespaces": "false", // github.com/fluxcd, main.go of each controller
}

// targetNamespaces is the annotation by which the Operator Lifecycle Manager tells the pods of
// an operator what to watch (github.com/operator-framework/api, pkg/operators/v1/operatorgroup_types.go).
const targetNamespaces = "olm.targetNamespaces"

// maxOutlook bounds the namespaces that are kept of one workload: who watches more is taken to
// watch all.
const maxOutlook = 64

// maxSettings bounds the settings that are read: those of more workloads count as all namespaces.
const maxSettings = 100

// Setting is a key of a ConfigMap by which a workload is told what to watch.
type Setting struct{ Namespace, Name, Key string }

// Settings are those that workloads ask for. It only reads.
func (p *Part) Settings() (found []Setting) {
	for _, key := range slices.Sorted(maps.Keys(p.workloads)) {
		if wl := p.workloads[key]; wl.template != nil && len(found) < maxSettings {
			_, asks := outlookOf(wl.namespace, *wl.template, nil)
			found = append(found, asks...)
		}
	}
	return found
}

// TakeSettings takes in their values, in place of all that were known.
func (p *Part) TakeSettings(values map[Setting]string) {
	if maps.Equal(values, p.settings) {
		return
	}
	p.settings, p.dirty, p.grantsDirty = values, true, true
	for key, wl := range p.workloads {
		if wl.template != nil {
			wl.outlook, _ = outlookOf(wl.namespace, *wl.template, values)
			p.workloads[key] = wl
		}
	}
}

// outlookOf are the namespaces that a workload's pods are told to watch, sorted, with commas
// between; "" is all of them, or what is not known; and the settings that tell it.
func outlookOf(namespace string, template corev1.PodTemplateSpec, settings map[Setting]string) (outlook string, asks []Setting) {
	var told []string
	for _, c := range template.Spec.Containers {
		var watches, own []string
		for _, e := range c.Env {
			if !strings.HasSuffix(e.Name, watchSuffix) && !slices.Contains(watchVariables, e.Name) {
				continue
			}
			value := "*" // of a Secret, which nobody reads
			switch from := e.ValueFrom; {
			case from == nil:
				value = e.Value
			case from.ConfigMapKeyRef != nil:
				at := Setting{namespace, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key}
				if told, known := settings[at]; known {
					value = told
				}
				asks = append(asks, at)
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
			told = append(told, strings.Split(list, ",")...)
		}
	}
	var found []string
	for _, name := range told {
		switch name = strings.TrimSpace(name); {
		case strings.ContainsAny(name, "$*"):
			return "", asks // all, or what only the container knows
		case name != "":
			found = append(found, name)
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) > maxOutlook {
		found = nil
	}
	return strings.Join(found, ","), asks
}

// watches tells whether a workload may watch a namespace; "" is what has none.
func (wl workload) watches(namespace string) bool {
	return namespace == "" || wl.outlook == "" || slices.Contains(strings.Split(wl.outlook, ","), namespace)
}

// withOutlook says that it is not known whether somebody removes it who is told to watch other
// namespaces only.
func (p *Part) withOutlook(namespace string, j judgement) judgement {
	if j.state != Alive || len(j.workloads) == 0 || slices.ContainsFunc(j.workloads, func(wl workload) bool { return wl.watches(namespace) }) {
		return j
	}
	wl := j.workloads[0]
	j.watches = strings.Split(wl.outlook, ",")
	return j.is(Unknown, false, "%s is told to watch %s, not %s", wl, strings.Join(j.watches, ", "), namespace)
}
