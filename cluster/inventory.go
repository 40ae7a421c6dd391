package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

type inventory struct {
	doc       facts.Document
	touched   func(resource, namespace string)
	resources map[string]*resource // by "plural.group"
	order     []*resource          // by name; nil if it must be rebuilt
}

type resource struct {
	Resource
	// generation is the newest listing's.
	generation int
	listing    bool
	counts     map[string]int // by namespace
	total      int
	recount    map[string]int // while listing
	kept       facts.Directories[keptObject]
	// named says that kept holds all objects of the last whole listing, naming that such a listing runs.
	named, naming bool
}

type keptObject struct {
	name       string
	generation int
}

func (k keptObject) Named() string { return k.name }

func newInventory(doc facts.Document) inventory {
	doc["counts"] = map[string]any{}
	return inventory{doc: doc, resources: map[string]*resource{}}
}

func (i *inventory) sorted() []*resource {
	if i.order == nil {
		for _, r := range i.resources {
			i.order = append(i.order, r)
		}
		slices.SortFunc(i.order, func(a, b *resource) int { return cmp.Compare(a.String(), b.String()) })
	}
	return i.order
}

func (i *inventory) total(resource string) int {
	if r := i.resources[resource]; r != nil {
		return r.total
	}
	return 0
}

func (i *inventory) begin(res Resource) {
	r, ok := i.resources[res.String()]
	if !ok {
		r = &resource{counts: map[string]int{}, kept: facts.Directories[keptObject]{}}
		i.resources[res.String()] = r
		i.order = nil
	}
	r.Resource = res
	r.generation++
	r.listing = true
	r.recount = map[string]int{}
}

func (i *inventory) end(r *resource) {
	r.listing = false
	for namespace := range r.counts {
		if _, still := r.recount[namespace]; !still {
			i.set(r, namespace, 0)
		}
	}
	for namespace, n := range r.recount {
		i.set(r, namespace, n)
	}
	r.recount = nil
}

// count stays at 0 or above; during a listing, the change is for its end.
func (i *inventory) count(r *resource, namespace string, change int) {
	if r.listing {
		r.recount[namespace] = max(0, r.recount[namespace]+change)
		return
	}
	i.set(r, namespace, r.counts[namespace]+change)
}

func (i *inventory) set(r *resource, namespace string, n int) {
	i.touched(r.String(), namespace)
	r.total += max(0, n) - r.counts[namespace]
	if n <= 0 {
		delete(r.counts, namespace)
		i.doc.Prune("counts", namespace, r.String())
		return
	}
	r.counts[namespace] = n
	i.doc.Put(n, "counts", namespace, r.String())
}

// Begin starts a listing of a resource: objects that it does not show before End are removed.
func (w *World) Begin(res Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inventory.begin(res)
	w.inventory.resources[res.String()].naming = w.references.KeepsAll(res.String())
}

// End ends the listing, and shows the resource.
func (w *World) End(res Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.inventory.resources[res.String()]
	if !ok || !r.listing {
		return
	}
	w.inventory.end(r)
	r.named = r.naming
	for _, key := range r.kept.Keys(func(k keptObject) bool { return k.generation != r.generation }) {
		w.forget(r, key)
	}
	w.sight.Show(res)
	w.resight()
}

// Apply adds or updates an object; added is true in a listing, and for an ADDED event.
func (w *World) Apply(res Resource, obj runtime.Object, added bool) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	w.options.Arrived(res, m)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.apply(res, obj, added)
}

func (w *World) apply(res Resource, obj runtime.Object, added bool) error {
	m, err := meta.Accessor(obj)
	r := w.inventory.resources[res.String()]
	if err != nil || r == nil {
		return err // dropped meanwhile
	}
	key := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
	keeps := false
	if res != eventsResource { // evidence, not content
		if kept := r.kept.At(key); added && (kept == nil || kept.generation != r.generation) {
			w.inventory.count(r, key.Namespace, 1)
		}
		keeps = w.ownership.Keep(r.String(), key, m, specFinalizers(obj))
		keeps = w.dependents.Keep(r.String(), key, m) || keeps
		keeps = w.references.Keep(r.String(), key, obj) || keeps
	}
	keeps = w.keep(r.String(), key, obj) || keeps
	if keeps {
		r.kept.Put(key.Namespace, keptObject{key.Name, r.generation})
	} else {
		r.kept.Delete(key)
	}
	return nil
}

func (w *World) Remove(res Resource, obj runtime.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remove(res, obj)
}

func (w *World) remove(res Resource, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	r := w.inventory.resources[res.String()]
	if err != nil || r == nil {
		return err
	}
	key := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
	if res != eventsResource {
		w.inventory.count(r, key.Namespace, -1)
	}
	if r.kept.At(key) != nil {
		if r.String() == "pods" {
			w.nodes.RecordDeletion(key, w.now())
		}
		w.ownership.Gone(r.String(), key)
		w.forget(r, key)
	}
	return nil
}

// Drop removes a resource that is no longer served.
func (w *World) Drop(res Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.inventory.resources[res.String()]
	if r == nil {
		return
	}
	for namespace := range r.counts {
		w.inventory.set(r, namespace, 0)
	}
	for _, key := range r.kept.Keys(func(keptObject) bool { return true }) {
		w.forget(r, key)
	}
	delete(w.inventory.resources, res.String())
	w.inventory.order = nil
	w.refusals.SetListError(res, "")
	w.sight.Show(res)
	w.resight()
}

func (w *World) forget(r *resource, key types.NamespacedName) {
	r.kept.Delete(key)
	w.ownership.Forget(r.String(), key)
	w.dependents.Forget(r.String(), key)
	w.references.Forget(r.String(), key)
	w.forgetRows(r.String(), key)
}

// dropped is called when a part no longer keeps an event.
func (w *World) dropped(event types.NamespacedName) {
	if r := w.inventory.resources[eventsResource.String()]; r != nil {
		r.kept.Delete(event)
	}
}

func specFinalizers(obj runtime.Object) []string {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil
	}
	finalizers := make([]string, len(ns.Spec.Finalizers))
	for i, f := range ns.Spec.Finalizers {
		finalizers[i] = string(f)
	}
	return finalizers
}
