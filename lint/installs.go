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
	*files.Object // that installs it
	by            string
	names         []string // of charts, or of OLM's packages
	namespace     string
	stays         bool // if only by is deleted
}

func installOf(sub *subject) install {
	text := func(path ...string) string {
		field, _, _ := unstructured.NestedString(sub.object.Object, append([]string{"spec"}, path...)...)
		return field
	}
	group, _, _ := strings.Cut(sub.APIVersion, "/")
	i := install{Object: sub.Object, by: sub.Kind + " " + sub.object.GetName(), namespace: sub.object.GetNamespace()}
	switch group + "/" + sub.Kind {
	case "helm.toolkit.fluxcd.io/HelmRelease":
		i.names = []string{text("chart", "spec", "chart"), text("chartRef", "name")}
		i.namespace = cmp.Or(text("targetNamespace"), i.namespace)
	case "helm.cattle.io/HelmChart":
		i.names = []string{text("chart")}
		i.namespace = cmp.Or(text("targetNamespace"), i.namespace)
	case "argoproj.io/Application":
		if slices.ContainsFunc(sub.object.GetFinalizers(), isArgoFinalizer) {
			i.names = []string{text("source", "chart")}
			for _, source := range cluster.Items(sub.object.Object, "spec", "sources") {
				chart, _ := source["chart"].(string)
				i.names = append(i.names, chart)
			}
		}
		i.namespace = text("destination", "namespace")
	case "operators.coreos.com/Subscription":
		i.names, i.stays = []string{text("name")}, true
	}
	return i
}

// installed returns the workloads of the catalog that the set installs beside custom resources of theirs.
func (e *evaluator) installed(subjects []*subject) (workloads []*subject) {
	if len(subjects) == 0 {
		return nil
	}
	var installs []install
	var objects []*unstructured.Unstructured
	for _, sub := range subjects {
		installs = append(installs, installOf(sub))
		objects = append(objects, sub.object)
	}
	charts, namespace := e.Charts()
	installs = append(installs, install{Object: subjects[0].Object, by: "a chart that it depends on", names: charts, namespace: namespace})
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
			i := installs[at]
			object := deployed(cmp.Or(w.Kind, "Deployment"), i.namespace, name, cmp.Or(w.Image, name))
			workloads = append(workloads, &subject{Object: i.Object, object: object, implied: true, installedBy: i.by, stays: i.stays})
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
