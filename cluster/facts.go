package cluster

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/learned"
)

// Facts are the facts for Go code; policies read a document. Of manifests over a snapshot, the manifests count
// first.
type Facts struct {
	world, below *World // below may be nil
	at           *viewed
}

func (f Facts) worlds() []*World {
	if f.below == nil {
		return []*World{f.world}
	}
	return []*World{f.world, f.below}
}

// layer returns what get returns of the first world that has it.
func layer[T any](f Facts, get func(w *World) (T, bool)) (value T, has bool) {
	for _, w := range f.worlds() {
		if value, has = get(w); has {
			break
		}
	}
	return value, has
}

// Now returns the time of the facts, in whole seconds.
func (f Facts) Now() time.Time { return time.Unix(f.at.at, 0).UTC() }

// Unseen returns the unseen resources: of manifests over a snapshot, the snapshot's.
func (f Facts) Unseen() []facts.Hidden {
	return cmp.Or(f.below, f.world).sight.Unseen()
}

// Hides reports whether some of a resource is unseen.
func (f Facts) Hides(resource string) bool {
	return slices.ContainsFunc(f.Unseen(), func(h facts.Hidden) bool { return h.Resource == resource })
}

// Namespace returns a namespace, or the zero value.
func (f Facts) Namespace(name string) facts.Namespace {
	n, _ := layer(f, func(w *World) (facts.Namespace, bool) { return w.refusals.Namespace(name) })
	return n
}

// Definition returns the definition of a resource; false if there is none.
func (f Facts) Definition(resource string) (facts.Definition, bool) {
	return layer(f, func(w *World) (facts.Definition, bool) { return w.refusals.Definition(resource) })
}

// Count returns the number of objects of a resource in a namespace, "" for cluster-scoped ones.
func (f Facts) Count(namespace, resource string) int {
	n, _ := layer(f, func(w *World) (int, bool) {
		r := w.inventory.resources[resource]
		if r == nil {
			return 0, false
		}
		return r.counts[namespace], r.counts[namespace] > 0
	})
	return n
}

// Pods returns the pods of a namespace, "" for all.
func (f Facts) Pods(namespace string) iter.Seq[Pod] {
	return func(yield func(Pod) bool) {
		for _, w := range f.worlds() {
			for pod := range w.nodes.Pods(namespace) {
				_, first := f.world.nodes.Pod(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
				if (w == f.world || !first) && !yield(pod) {
					return
				}
			}
		}
	}
}

// Pod returns a pod, of which only the name is set if there is none.
func (f Facts) Pod(namespace, name string) Pod {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	pod, _ := layer(f, func(w *World) (Pod, bool) { return w.nodes.Pod(key) })
	pod.Namespace, pod.Name = namespace, name
	return pod
}

// LongestGrace returns the longest grace period of the pods that run in a namespace, in seconds.
func (f Facts) LongestGrace(namespace string) (longest int) {
	for _, w := range f.worlds() {
		longest = max(longest, w.nodes.LongestGrace(namespace))
	}
	return longest
}

// Took returns how long owners took to remove a finalizer in a namespace, else in several, if that was seen.
func (f Facts) Took(finalizer, resource, namespace string) (learned.Durations, bool) {
	return layer(f, func(w *World) (learned.Durations, bool) { return w.ownership.Took(finalizer, resource, namespace) })
}

// Stops returns how long the pods of a workload ("Kind/name") took to stop.
func (f Facts) Stops(namespace, workload string) learned.Durations {
	d, _ := layer(f, func(w *World) (learned.Durations, bool) { return w.nodes.Took(namespace, workload) })
	return d
}

// Webhooks returns the keys of all webhooks, TYPE/CONFIGURATION/NAME.
func (f Facts) Webhooks() (keys []string) {
	for _, w := range f.worlds() {
		keys = append(keys, w.refusals.Webhooks()...)
	}
	return keys
}

// Fronts returns the APIServices and fail-closed webhook configurations, with the workloads that must run.
func (f Facts) Fronts() map[facts.Object][]facts.Object {
	fronts := map[facts.Object][]facts.Object{}
	for _, w := range f.worlds() {
		for front, workloads := range w.refusals.Fronts() {
			fronts[front] = append(fronts[front], workloads...)
		}
	}
	return fronts
}

// Controller returns the controller of a finalized object, or the zero value.
func (f Facts) Controller(resource, namespace, name string) facts.Object {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	by, _ := layer(f, func(w *World) (facts.Object, bool) {
		by := w.ownership.Controller(resource, key)
		return by, by.Name != ""
	})
	return by
}

// Held returns the finalized objects of a resource, "" for all, in a namespace.
func (f Facts) Held(namespace, resource string) []Holding {
	held := f.world.ownership.Holdings(namespace, resource)
	if f.below == nil {
		return held
	}
	type kind struct{ finalizer, resource string }
	above := map[kind]bool{}
	for _, h := range held {
		above[kind{h.Finalizer, h.Resource}] = true
	}
	for _, h := range f.below.ownership.Holdings(namespace, resource) {
		if !above[kind{h.Finalizer, h.Resource}] {
			held = append(held, h)
		}
	}
	return held
}

// Holding returns the namespaces with finalized objects; "" for cluster-scoped ones.
func (f Facts) Holding() (namespaces []string) {
	for _, w := range f.worlds() {
		namespaces = append(namespaces, w.ownership.Holding()...)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// Owners returns the owner of each finalizer; "" if it is unknown, or if objects differ.
func (f Facts) Owners() map[string]string { return f.world.ownership.Owners() }

// Blocking returns the finalized dependents, at any depth, that an owner's foreground deletion waits for.
func (f Facts) Blocking(uid string) (all []Holding) {
	for _, w := range f.worlds() {
		for _, b := range w.dependents.Blocking(types.UID(uid)) {
			if h := w.ownership.HoldingOf(b); h.Count > 0 {
				all = append(all, h)
			}
		}
	}
	return all
}

// HoldsUp reports whether anything in a namespace, "" for all, may block some owner's foreground deletion:
// the facts know owners only by UID.
func (f Facts) HoldsUp(namespace string) bool {
	return slices.ContainsFunc(f.worlds(), func(w *World) bool { return w.dependents.HoldsUp(namespace) })
}

// ConditionsRead reports whether status conditions of a namespace's objects were read.
func (f Facts) ConditionsRead(namespace string) bool {
	_, has := layer(f, func(w *World) (any, bool) { return w.conditions(namespace) })
	return has
}

// Conditioned reports whether an object's status conditions were read.
func (f Facts) Conditioned(namespace, resource, name string) bool {
	_, has := layer(f, func(w *World) (any, bool) { return w.conditions(namespace, resource, name) })
	return has
}

func (w *World) conditions(path ...string) (any, bool) {
	section := facts.Lookup(w.doc, append([]string{"conditions"}, path...)...)
	return section, section != nil
}

// Describe fills in an object's record: recorded says that the facts have records of its resource, and exists
// that they have this one.
func (f Facts) Describe(resource string, object map[string]any) (recorded, exists bool) {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	path, recorded := map[string][]string{
		"namespaces": {"namespaces", name}, "nodes": {"nodes", name}, "pods": {"pods", namespace, name},
		"customresourcedefinitions.apiextensions.k8s.io": {"crds", name},
	}[resource]
	record, exists := facts.Lookup(f.at.doc, path...).(map[string]any)
	if !recorded || !exists {
		return recorded, false
	}
	for _, key := range []string{"deletionTimestamp", "finalizers", "labels", "annotations"} {
		if value, set := record[key]; set && value != "" {
			metadata[key] = value
		}
	}
	switch resource {
	case "namespaces":
		finalizers, _ := record["specFinalizers"].([]any)
		object["spec"] = map[string]any{"finalizers": slices.Clone(finalizers)}
		object["status"] = map[string]any{"phase": record["phase"], "conditions": conditionsOf(record)}
	case "pods":
		spec := map[string]any{"nodeName": record["node"]}
		if grace, set := record["gracePeriodSeconds"]; set {
			spec["terminationGracePeriodSeconds"] = grace
			if metadata["deletionTimestamp"] != nil {
				metadata["deletionGracePeriodSeconds"] = grace
			}
		}
		object["spec"], object["status"] = spec, map[string]any{"phase": record["phase"]}
	}
	return true, true
}

func conditionsOf(record map[string]any) []any {
	byType, _ := record["conditions"].(map[string]any)
	conditions := []any{}
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		record, _ := byType[name].(map[string]any)
		condition := maps.Clone(record)
		condition["type"] = name
		conditions = append(conditions, condition)
	}
	return conditions
}
