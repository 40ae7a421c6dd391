package lint

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/lint/source"
)

const definitionKind = "CustomResourceDefinition"

// reread calls visit with the kind, metadata and spec of the objects of some kinds in all files, from documents that
// hold one of some words, without the schemas. Unreadable ones are left out, as is the rest of a file after a panic:
// linting the file reports them.
func (r *run) reread(ctx context.Context, words, kinds []string, visit func(*unstructured.Unstructured)) {
	for _, i := range r.sets {
		if i.ignoresOnly {
			continue
		}
		for _, file := range i.all() {
			if ctx.Err() != nil {
				return
			}
			_ = CatchPanic(func() error {
				for c := range (&source.File{Path: file.Path, Content: file.Content}).ReadContaining(words...) {
					for _, o := range c.Objects {
						value, err := o.Value("kind", "metadata", "spec")
						if err == nil && slices.Contains(kinds, o.Kind) && wellFormed(value) {
							visit(&unstructured.Unstructured{Object: value})
						}
					}
				}
				return nil
			})
		}
	}
}

// readWorkloads reads the workloads whose pods budgets count, and their autoscalers, in all files, reduced to the
// number of pods, by namespace.
func (r *run) readWorkloads(ctx context.Context) map[string][]*unstructured.Unstructured {
	workloads := map[string][]*unstructured.Unstructured{}
	kinds := []string{"Deployment", "StatefulSet", "HorizontalPodAutoscaler", "ScaledObject"}
	r.reread(ctx, kinds, kinds, func(full *unstructured.Unstructured) {
		spec, _ := full.Object["spec"].(map[string]any)
		template, _ := spec["template"].(map[string]any)
		workloads[full.GetNamespace()] = append(workloads[full.GetNamespace()], &unstructured.Unstructured{Object: map[string]any{
			"kind": full.GetKind(), "metadata": map[string]any{"name": full.GetName()},
			"spec": map[string]any{
				"replicas": spec["replicas"], "minReplicas": spec["minReplicas"], "scaleTargetRef": spec["scaleTargetRef"],
				"template": map[string]any{"metadata": template["metadata"]},
			},
		}})
	})
	return workloads
}

// runsWorkload reports whether a file has a workload of the catalog that is not scaled to zero.
func (r *run) runsWorkload(ctx context.Context, w catalog.Workload) bool {
	if known, found := r.running.Load(w); found {
		return known.(bool)
	}
	wanted, running := w, false
	var words []string
	if catalog.Generic(w.Image) {
		wanted.Image = ""
	} else {
		words = append(words, w.Image)
	}
	if name, _, _ := strings.Cut(strings.TrimLeft(w.Name, "*"), "*"); catalog.Generic(name) {
		wanted.Name = ""
	} else {
		words = append(words, name)
	}
	r.reread(ctx, words, []string{"Deployment", "StatefulSet", "DaemonSet"}, func(full *unstructured.Unstructured) {
		replicas, set, _ := unstructured.NestedInt64(full.Object, "spec", "replicas")
		containers, _, _ := unstructured.NestedSlice(full.Object, "spec", "template", "spec", "containers")
		var images []string
		for _, container := range containers {
			fields, _ := container.(map[string]any)
			image, _ := fields["image"].(string)
			images = append(images, image)
		}
		running = running || (!set || replicas > 0) && wanted.Matches(full.GetKind(), full.GetNamespace(), full.GetName(), images)
	})
	r.running.Store(w, running)
	return running
}

// ownerByDomain returns the catalog's owner for a finalizer's domain if a file has a running workload of it,
// or "".
func (r *run) ownerByDomain(ctx context.Context, finalizer string) string {
	domain, _, found := strings.Cut(finalizer, "/")
	if !found {
		return ""
	}
	for _, e := range cmp.Or(r.options.Catalog, catalog.Default()).Entries() {
		if strings.HasPrefix(e.Finalizer+e.Prefix, domain+"/") && slices.ContainsFunc(e.Workloads, func(w catalog.Workload) bool {
			return r.runsWorkload(ctx, catalog.Workload{Image: w.Image})
		}) {
			return e.Owner
		}
	}
	return ""
}

// definitionIndex holds the definitions of custom resources in all files of a run, reduced to their plural,
// scope and versions. A kind that files define differently is unknown.
type definitionIndex map[string]map[string]*unstructured.Unstructured // by group and kind

// readDefinitions reads the definitions in all files.
func (r *run) readDefinitions(ctx context.Context) definitionIndex {
	index := definitionIndex{}
	r.reread(ctx, []string{definitionKind}, []string{definitionKind}, index.add)
	return index
}

func (d definitionIndex) add(definition *unstructured.Unstructured) {

	spec, _ := definition.Object["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	group, _ := spec["group"].(string)
	kind, _ := names["kind"].(string)
	plural, _ := names["plural"].(string)
	scope, _ := spec["scope"].(string)
	if group == "" || kind == "" || plural == "" || scope == "" {
		return
	}
	if d[group] == nil {
		d[group] = map[string]*unstructured.Unstructured{}
	}
	if other, ok := d[group][kind]; ok {
		if other == nil || other.GetName() != plural+"."+group || other.Object["spec"].(map[string]any)["scope"] != scope {
			d[group][kind] = nil
		}
		return
	}
	var versions []any
	all, _ := spec["versions"].([]any)
	for _, item := range all {
		if version, ok := item.(map[string]any); ok {
			versions = append(versions, map[string]any{"name": version["name"], "served": version["served"], "storage": version["storage"]})
		}
	}
	d[group][kind] = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": definitionKind, "metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{"group": group, "scope": scope, "names": map[string]any{"kind": kind, "plural": plural}, "versions": versions},
	}}
}

// definitionsInOtherFiles returns the definitions, in other files, of the set's kinds and of the kinds that
// its webhooks match.
func (s *set) definitionsInOtherFiles(objects []*unstructured.Unstructured) (definitions []*unstructured.Unstructured) {
	builtin := cluster.BuiltinGroups()
	groups := map[string]bool{}
	own := map[schema.GroupKind]bool{}
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		if gvk.Kind == definitionKind {
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			own[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	need := func(group string) {
		if group != "*" && !slices.Contains(builtin, group) {
			groups[group] = true
		}
	}
	for _, o := range objects {
		if gvk := o.GroupVersionKind(); !own[gvk.GroupKind()] {
			need(gvk.Group)
		}
		if !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
			continue
		}
		webhooks, _ := o.Object["webhooks"].([]any)
		for _, hook := range webhooks {
			fields, _ := hook.(map[string]any)
			rules, _ := fields["rules"].([]any)
			for _, rule := range rules {
				fields, _ := rule.(map[string]any)
				apiGroups, _, _ := unstructured.NestedStringSlice(fields, "apiGroups")
				for _, group := range apiGroups {
					need(group)
				}
			}
		}
	}
	if len(groups) == 0 {
		return nil
	}
	all := s.run.definitions()
	for group := range groups {
		for kind, o := range all[group] {
			if o != nil && !own[schema.GroupKind{Group: group, Kind: kind}] {
				definitions = append(definitions, o.DeepCopy()) // the facts are built from it
			}
		}
	}
	slices.SortFunc(definitions, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return definitions
}
