package lint

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/lint/files"
)

const definitionKind = "CustomResourceDefinition"

// reread visits the kind, metadata and spec of objects in all files. Linting reports unreadable documents and
// panics.
func (r *run) reread(ctx context.Context, matches func(text []byte) bool, kinds []string, visit func(*unstructured.Unstructured)) {
	var buffer bytes.Buffer
	for _, s := range r.input.Sets {
		if s.IgnoresOnly {
			continue
		}
		for _, file := range s.Files() {
			if ctx.Err() != nil {
				return
			}
			_ = CatchPanic(func() error {
				for c := range (&files.File{Path: file.Path, Content: file.Content, Buffer: &buffer}).ReadMatching(matches) {
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

// readWorkloads returns workloads that budgets count, and their autoscalers, by namespace.
func (r *run) readWorkloads(ctx context.Context) map[string][]*unstructured.Unstructured {
	workloads := map[string][]*unstructured.Unstructured{}
	kinds := []string{"Deployment", "StatefulSet", "HorizontalPodAutoscaler", "ScaledObject"}
	aKind := files.ContainsAny(kinds...)
	matches := func(text []byte) bool { return bytes.Contains(text, []byte("namespace")) && aKind(text) } // others have none
	r.reread(ctx, matches, kinds, func(full *unstructured.Unstructured) {
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

// runsWorkload reports whether a file has the workload, not scaled to zero.
func (r *run) runsWorkload(ctx context.Context, w catalog.Workload) bool {
	if cached, ok := r.running.Load(w); ok {
		return cached.(bool)
	}
	workload, running := w, false
	var words []string
	if catalog.Generic(w.Image) {
		workload.Image = ""
	} else {
		words = append(words, w.Image)
	}
	if name, _, _ := strings.Cut(strings.TrimLeft(w.Name, "*"), "*"); catalog.Generic(name) {
		workload.Name = ""
	} else {
		words = append(words, name)
	}
	r.reread(ctx, files.ContainsAny(words...), []string{"Deployment", "StatefulSet", "DaemonSet"}, func(full *unstructured.Unstructured) {
		replicas, set, _ := unstructured.NestedInt64(full.Object, "spec", "replicas")
		var images []string
		for _, container := range cluster.Items(full.Object, "spec", "template", "spec", "containers") {
			image, _ := container["image"].(string)
			images = append(images, image)
		}
		running = running || (!set || replicas > 0) && workload.Matches(full.GetKind(), full.GetNamespace(), full.GetName(), images)
	})
	r.running.Store(w, running)
	return running
}

// ownerOf returns no owner for a misspelt finalizer, and for an unknown one its domain's project, if a file
// runs that.
func (r *run) ownerOf(ctx context.Context, finalizer, resource, owner string) string {
	domain, _, ok := strings.Cut(finalizer, "/")
	switch {
	case r.misspelling(finalizer, resource) != "":
		return ""
	case owner != "" || !ok:
		return owner
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

type definition struct {
	*unstructured.Unstructured
	ambiguous bool // files define its kind differently
}

func (r *run) readDefinitions(ctx context.Context) map[string]map[string]*definition {
	all := map[string]map[string]*definition{}
	r.reread(ctx, files.ContainsAny(definitionKind), []string{definitionKind}, func(full *unstructured.Unstructured) {
		text := func(path ...string) string {
			field, _, _ := unstructured.NestedString(full.Object, append([]string{"spec"}, path...)...)
			return field
		}
		group, kind, plural, scope := text("group"), text("names", "kind"), text("names", "plural"), text("scope")
		if group == "" || kind == "" || plural == "" || scope == "" {
			return
		}
		if all[group] == nil {
			all[group] = map[string]*definition{}
		}
		name := plural + "." + group
		if other := all[group][kind]; other != nil {
			otherScope, _, _ := unstructured.NestedString(other.Object, "spec", "scope")
			other.ambiguous = other.ambiguous || other.GetName() != name || otherScope != scope
			return
		}
		var versions []any
		for _, version := range cluster.Items(full.Object, "spec", "versions") {
			versions = append(versions, map[string]any{"name": version["name"], "served": version["served"], "storage": version["storage"]})
		}
		all[group][kind] = &definition{Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": definitionKind, "metadata": map[string]any{"name": name},
			"spec": map[string]any{"group": group, "scope": scope, "names": map[string]any{"kind": kind, "plural": plural}, "versions": versions},
		}}}
	})
	return all
}

func (r *run) definitionsInOtherFiles(objects []*unstructured.Unstructured) (definitions []*unstructured.Unstructured) {
	own := cluster.Defined(objects, "spec", "scope")
	groups := map[string]bool{}
	for _, o := range objects {
		kind := o.GroupVersionKind().GroupKind()
		if _, defined := own[kind]; !defined {
			groups[kind.Group] = true
		}
		if !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
			continue
		}
		for _, hook := range cluster.Items(o.Object, "webhooks") {
			for _, rule := range cluster.Items(hook, "rules") {
				named, _, _ := unstructured.NestedStringSlice(rule, "apiGroups")
				for _, group := range named {
					groups[group] = true
				}
			}
		}
	}
	maps.DeleteFunc(groups, func(group string, _ bool) bool {
		return group == "*" || slices.Contains(cluster.BuiltinGroups(), group)
	})
	if len(groups) == 0 {
		return nil
	}
	all := r.definitions()
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		for kind, d := range all[group] {
			if _, defined := own[schema.GroupKind{Group: group, Kind: kind}]; !defined && !d.ambiguous {
				definitions = append(definitions, d.DeepCopy()) // the facts are built from it
			}
		}
	}
	slices.SortFunc(definitions, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return definitions
}
