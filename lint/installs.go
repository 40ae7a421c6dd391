package lint

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/lint/files"
)

// install is software that the set installs, whose manifests are elsewhere.
type install struct {
	by, namespace string
	names         []string // of charts, or of OLM's packages
	object        *files.Object
}

func installOf(sub *subject) install {
	text := func(path ...string) string {
		field, _, _ := unstructured.NestedString(sub.object.Object, append([]string{"spec"}, path...)...)
		return field
	}
	i := install{by: sub.Kind + " " + sub.object.GetName(), namespace: cmp.Or(text("targetNamespace"), sub.object.GetNamespace()), object: sub.Object}
	switch sub.object.GroupVersionKind().GroupKind().String() {
	case "HelmRelease.helm.toolkit.fluxcd.io":
		i.names = []string{text("chart", "spec", "chart"), text("chartRef", "name")}
	case "HelmChart.helm.cattle.io":
		i.names = []string{text("chart")}
	case "Subscription.operators.coreos.com":
		i.names = []string{text("name")}
	case "Application.argoproj.io":
		if !slices.ContainsFunc(sub.object.GetFinalizers(), isArgoFinalizer) {
			break
		}
		i.names, i.namespace = []string{text("source", "chart")}, text("destination", "namespace")
		for _, source := range cluster.Items(sub.object.Object, "spec", "sources") {
			chart, _ := source["chart"].(string)
			i.names = append(i.names, chart)
		}
	}
	return i
}

// installed returns the workloads of the catalog that the set installs beside custom resources of theirs. OLM
// leaves its own unless their namespace is deleted.
func (e *evaluator) installed(subjects []*subject) (workloads []*subject) {
	var installs []install
	var objects []*unstructured.Unstructured
	namespaces := map[string]bool{}
	for _, sub := range subjects {
		objects = append(objects, sub.object)
		if sub.Kind == "Namespace" {
			namespaces[sub.object.GetName()] = true
		}
	}
	for _, sub := range subjects {
		if i := installOf(sub); sub.Kind != "Subscription" || namespaces[i.namespace] {
			installs = append(installs, i)
		}
	}
	if charts, namespace := e.Charts(); len(charts) > 0 && len(subjects) > 0 {
		installs = append(installs, install{"a chart that it depends on", namespace, charts, subjects[0].Object})
	}
	installs = slices.DeleteFunc(installs, func(i install) bool { return strings.Join(i.names, "") == "" })
	if len(installs) == 0 {
		return nil
	}
	resources, present := cluster.Resources(objects), map[string]bool{}
	for _, sub := range subjects {
		present[resources[sub.object.GroupVersionKind()].String()] = !isGitOps(sub.Object)
	}
	for _, entry := range cmp.Or(e.run.options.Catalog, catalog.Default()).Entries() {
		if entry.Component != catalog.InCluster || !slices.ContainsFunc(entry.On, func(on string) bool { return present[on] }) {
			continue
		}
		for _, w := range entry.Workloads {
			at := slices.IndexFunc(installs, func(i install) bool {
				return slices.ContainsFunc(i.names, func(name string) bool { return w.InstalledBy(path.Base(name), entry.Owner) })
			})
			name := cmp.Or(w.Name, w.Image)
			if at < 0 || strings.Contains(name, "*") || slices.ContainsFunc(workloads, func(sub *subject) bool { return sub.object.GetName() == name }) {
				continue
			}
			object := deployed(cmp.Or(w.Kind, "Deployment"), installs[at].namespace, name, cmp.Or(w.Image, name))
			workloads = append(workloads, &subject{Object: installs[at].object, object: object, implied: true, installedBy: installs[at].by})
		}
	}
	return workloads
}

// deployed returns a workload that runs image.
func deployed(kind, namespace, name, image string) *unstructured.Unstructured {
	labels := map[string]any{"app.kubernetes.io/name": name}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{map[string]any{"name": "controller", "image": image}}}},
		},
	}}
}
