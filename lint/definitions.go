package lint

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/lint/source"
)

// definitionIndex holds the definitions of custom resources in all files of a run, reduced to their plural,
// scope and versions. A kind that files define differently is unknown.
type definitionIndex map[string]map[string]*unstructured.Unstructured // by group and kind

// readDefinitions reads the definitions in all files.
func (r *run) readDefinitions(ctx context.Context) definitionIndex {
	index := definitionIndex{}
	for _, value := range r.reread(ctx, r.fileIndex().definitions, definitionKind, definitionKind) {
		index.add(value)
	}
	return index
}

// workloads returns the workloads that budgets count in a namespace, and their autoscalers, in all files,
// reduced to the number of pods. They are read once per namespace.
func (r *run) workloads(ctx context.Context, namespace string) []*unstructured.Unstructured {
	read, _ := r.workloadCache.LoadOrStore(namespace, sync.OnceValue(func() []*unstructured.Unstructured { return r.readWorkloads(ctx, namespace) }))
	return read.(func() []*unstructured.Unstructured)()
}

func (r *run) readWorkloads(ctx context.Context, namespace string) (workloads []*unstructured.Unstructured) {
	for _, value := range r.reread(ctx, r.fileIndex().workloads, namespace, workloadKinds...) {
		full := unstructured.Unstructured{Object: value}
		if !wellFormed(value) || full.GetNamespace() != namespace {
			continue
		}
		spec, _ := value["spec"].(map[string]any)
		template, _ := spec["template"].(map[string]any)
		workloads = append(workloads, &unstructured.Unstructured{Object: map[string]any{
			"kind": full.GetKind(), "metadata": map[string]any{"name": full.GetName()},
			"spec": map[string]any{
				"replicas": spec["replicas"], "minReplicas": spec["minReplicas"], "scaleTargetRef": spec["scaleTargetRef"],
				"template": map[string]any{"metadata": template["metadata"]},
			},
		}})
	}
	return workloads
}

// ownerByDomain returns the catalog's owner for a finalizer's domain if a file has a running workload of it,
// or "".
func (r *run) ownerByDomain(ctx context.Context, finalizer string) string {
	domain, _, found := strings.Cut(finalizer, "/")
	if !found {
		return ""
	}
	read, _ := r.ownerCache.LoadOrStore(domain, sync.OnceValue(func() string {
		catalogue := cmp.Or(r.options.Catalog, catalog.Default())
		for _, e := range catalogue.Entries() {
			if entryDomain, _, found := strings.Cut(e.Finalizer+e.Prefix, "/"); found && entryDomain == domain && slices.ContainsFunc(e.Workloads, func(w catalog.Workload) bool {
				return r.runsWorkload(ctx, catalog.Workload{Image: w.Image}, func(*source.File) bool { return false })
			}) {
				return e.Owner
			}
		}
		return ""
	}))
	return read.(func() string)()
}

// runsInOtherFiles returns whether a file outside of the set runs a workload of the catalog.
func (s *set) runsInOtherFiles(ctx context.Context) func(catalog.Workload) bool {
	results := map[catalog.Workload]bool{}
	return func(w catalog.Workload) bool {
		if _, found := results[w]; !found {
			results[w] = s.run.runsWorkload(ctx, w, func(file *source.File) bool {
				return slices.Contains(s.files, file) || s.build != nil && slices.Contains(s.build.sources, realPath(file.Path))
			})
		}
		return results[w]
	}
}

// runsWorkload reports whether a file, but for some, has a workload of the catalog that is not scaled to zero.
func (r *run) runsWorkload(ctx context.Context, w catalog.Workload, except func(*source.File) bool) bool {
	var files []*source.File
	for _, i := range r.sets {
		files = append(files, slices.DeleteFunc(i.all(), except)...)
	}
	if catalog.Generic(w.Image) {
		w.Image = ""
	}
	name, _, _ := strings.Cut(strings.TrimLeft(w.Name, "*"), "*")
	return slices.ContainsFunc([]string{w.Image, name}, func(word string) bool {
		return !catalog.Generic(word) && slices.ContainsFunc(r.reread(ctx, files, word, "Deployment", "StatefulSet", "DaemonSet"), func(value map[string]any) bool {
			full := unstructured.Unstructured{Object: value}
			replicas, set, _ := unstructured.NestedInt64(value, "spec", "replicas")
			items, _, _ := unstructured.NestedSlice(value, "spec", "template", "spec", "containers")
			var images []string
			for _, item := range items {
				container, _ := item.(map[string]any)
				image, _ := container["image"].(string)
				images = append(images, image)
			}
			return wellFormed(value) && (!set || replicas > 0) && w.Matches(full.GetKind(), full.GetNamespace(), full.GetName(), images)
		})
	})
}

const definitionKind = "CustomResourceDefinition"

// workloadKinds determine the number of pods.
var workloadKinds = []string{"Deployment", "StatefulSet", "HorizontalPodAutoscaler", "ScaledObject"}

// fileIndex are the files with objects that are read again: all files are searched once, without splitting
// them, and most have none.
type fileIndex struct{ definitions, workloads []*source.File }

func (r *run) indexFiles(ctx context.Context) (index fileIndex) {
	words := append([]string{definitionKind}, workloadKinds...)
	buffer := make([]byte, 32<<10)
	for _, i := range r.sets {
		if i.ignoresOnly || ctx.Err() != nil {
			continue
		}
		for _, file := range i.all() {
			matches := file.Contains(buffer, words...)
			if matches[0] {
				index.definitions = append(index.definitions, file)
			}
			if slices.Contains(matches[1:], true) {
				index.workloads = append(index.workloads, file)
			}
		}
	}
	return index
}

// reread reads the kind, metadata and spec of objects of some kinds again, without the schemas, from
// documents that hold a word. A panic yields nothing: linting the file reports it.
func (r *run) reread(ctx context.Context, files []*source.File, word string, kinds ...string) (values []map[string]any) {
	buffer := make([]byte, 32<<10)
	for _, file := range files {
		if ctx.Err() == nil && file.Contains(buffer, word)[0] {
			_ = CatchPanic(func() error { values = append(values, readKinds(kinds, word, file)...); return nil })
		}
	}
	return values
}

// readKinds returns the objects of some kinds in a file's documents that hold a word. Unreadable ones are left
// out: linting the file reports them.
func readKinds(kinds []string, word string, file *source.File) (values []map[string]any) {
	reader := &source.File{Name: file.Name, Path: file.Path, Content: file.Content}
	for c := range reader.ReadContaining(word) {
		for _, o := range c.Objects {
			if !slices.Contains(kinds, o.Kind) {
				continue
			}
			if value, err := o.Value("kind", "metadata", "spec"); err == nil {
				values = append(values, value)
			}
		}
	}
	return values
}

func (d definitionIndex) add(value map[string]any) {
	if !wellFormed(value) {
		return
	}
	modernize(value)
	spec, _ := value["spec"].(map[string]any)
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
