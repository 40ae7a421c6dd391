package cluster

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Resource is one kind of object that the API serves.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

// String is the resource's name in the facts: plural or plural.group.
func (r Resource) String() string { return r.GroupResource().String() }

// resource is what is kept of all objects of one resource.
type resource struct {
	Resource
	// generation marks what the newest listing has shown; what an older one
	// has and the newest has not is swept when the listing ends.
	generation int
	listing    bool
	counts     map[string]int                    // by namespace
	recount    map[string]int                    // while listing
	held       map[types.NamespacedName]*holding // objects with finalizers
	heldIn     map[string]int                    // how many of them, by namespace
	kept       map[types.NamespacedName]int      // objects of a typed resource: their generation
	links      map[types.NamespacedName]*link    // objects that block the deletion of their owner
}

// holding is one object that carries finalizers.
type holding struct {
	generation int
	evidence   map[string]evidence // by finalizer
	owner      types.UID           // whose deletion it blocks, "" if none
	buckets    []*bucket
}

// bucket is the part of the facts that counts objects of one namespace, one
// resource and one finalizer whose ownership rests on the same evidence.
type bucket struct {
	group
	path    []string // in the document, from "finalized"
	verdict *verdict
}

// group is a set of names in the facts: how many, and the first few.
type group struct {
	placed  bool           // its members have a place
	limit   int            // of the names
	members map[string]int // where the finalizer stands in each, nowhere if that is not known
	names   []string
	facts   map[string]any
}

// nowhere is the place of a finalizer that is not in metadata.finalizers.
const nowhere = -1

func (w *World) newGroup(placed bool) group {
	return group{placed: placed, limit: w.options.MaxNames, members: map[string]int{}, facts: map[string]any{}}
}

func (g *group) add(name string, at int) {
	g.members[name] = at
	if i, named := slices.BinarySearch(g.names, name); !named && (i < len(g.names) || len(g.names) < g.limit) {
		g.names = slices.Insert(g.names, i, name)
		g.names = g.names[:min(g.limit, len(g.names))]
	}
	g.publish()
}

func (g *group) remove(name string) {
	delete(g.members, name)
	if i, named := slices.BinarySearch(g.names, name); named {
		g.names = slices.Delete(g.names, i, i+1)
		if len(g.names) == 0 { // only now, so that removing many costs little each
			all := slices.Sorted(maps.Keys(g.members))
			g.names = slices.Clone(all[:min(g.limit, len(all))])
		}
	}
	g.publish()
}

func (g *group) publish() {
	g.facts["count"] = len(g.members)
	g.facts["names"] = anys(g.names)
	if g.placed {
		at := make([]any, len(g.names))
		for i, name := range g.names {
			at[i] = g.members[name]
		}
		g.facts["at"] = at
	}
}

// index puts a name into the group at a path of the document.
func (w *World) index(name string, path ...string) {
	w.grouped(false, path).add(name, nowhere)
}

// place is index for a group whose facts tell where a finalizer stands.
func (w *World) place(name string, at int, path ...string) {
	w.grouped(true, path).add(name, at)
}

// grouped is the group at a path of the document.
func (w *World) grouped(placed bool, path []string) *group {
	key := strings.Join(path, "\x00")
	g := w.indexed[key]
	if g == nil {
		made := w.newGroup(placed)
		g = &made
		w.indexed[key] = g
		child(w.doc, path[:len(path)-1]...)[path[len(path)-1]] = g.facts
	}
	return g
}

// group is the one at a path of the document, nil if it is empty.
func (w *World) group(path ...string) *group { return w.indexed[strings.Join(path, "\x00")] }

// unindex takes it out again.
func (w *World) unindex(name string, path ...string) {
	key := strings.Join(path, "\x00")
	g := w.indexed[key]
	if g == nil {
		return
	}
	if g.remove(name); len(g.members) == 0 {
		delete(w.indexed, key)
		prune(w.doc, path...)
	}
}

// Begin starts a new listing of a resource: what it does not show again before
// End is gone.
func (w *World) Begin(res Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, found := w.resources[res.String()]
	if !found {
		r = &resource{Resource: res, counts: map[string]int{}, held: map[types.NamespacedName]*holding{}, heldIn: map[string]int{}, kept: map[types.NamespacedName]int{}, links: map[types.NamespacedName]*link{}}
		w.resources[res.String()] = r
	}
	r.Resource = res
	r.generation++
	r.listing = true
	r.recount = map[string]int{}
}

// End closes the listing that Begin started. From now on the resource is seen.
func (w *World) End(res Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, found := w.resources[res.String()]
	if !found || !r.listing {
		return
	}
	r.listing = false
	for namespace := range r.counts {
		if _, still := r.recount[namespace]; !still {
			w.setCount(r, namespace, 0)
		}
	}
	for namespace, n := range r.recount {
		w.setCount(r, namespace, n)
	}
	r.recount = nil
	for key, h := range r.held {
		if h.generation != r.generation {
			w.release(r, key)
		}
	}
	for key, l := range r.links {
		if l.generation != r.generation {
			w.unlink(r, key)
		}
	}
	for key, generation := range r.kept {
		if generation != r.generation {
			delete(r.kept, key)
			w.forget(r.Resource, key)
		}
	}
	delete(w.unseen, res.String())
	w.publishUnseen()
}

// Apply takes in one object. added is true where the object was not there
// before: each item of a listing, and an ADDED event of a watch.
func (w *World) Apply(res Resource, obj runtime.Object, added bool) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.resources[res.String()]
	if r == nil {
		return nil // dropped meanwhile
	}
	key := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
	if res != eventsResource {
		if added {
			w.count(r, key.Namespace, 1)
		}
		w.hold(r, key, m, specFinalizers(obj))
		w.link(r, key, m)
	}
	if w.keep(obj) {
		r.kept[key] = r.generation
	} else {
		delete(r.kept, key)
	}
	return nil
}

// Remove takes one object out.
func (w *World) Remove(res Resource, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.resources[res.String()]
	if r == nil {
		return nil
	}
	key := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
	if res != eventsResource {
		w.count(r, key.Namespace, -1)
	}
	w.release(r, key)
	w.unlink(r, key)
	if _, kept := r.kept[key]; kept {
		delete(r.kept, key)
		w.forget(r.Resource, key)
	}
	return nil
}

// Drop forgets a resource that is no longer served.
func (w *World) Drop(res Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.resources[res.String()]
	if r == nil {
		return
	}
	for namespace := range r.counts {
		w.setCount(r, namespace, 0)
	}
	for key := range r.held {
		w.release(r, key)
	}
	for key := range r.links {
		w.unlink(r, key)
	}
	for key := range r.kept {
		w.forget(r.Resource, key)
	}
	delete(w.resources, res.String())
	delete(w.unseen, res.String())
	w.publishUnseen()
}

// count changes the number of objects in a namespace. What changes while a
// listing is under way shows when it ends.
func (w *World) count(r *resource, namespace string, change int) {
	if r.listing {
		r.recount[namespace] += change
		return
	}
	w.setCount(r, namespace, r.counts[namespace]+change)
}

func (w *World) setCount(r *resource, namespace string, n int) {
	w.touched[namespace] = true
	w.conversionsDirty = w.conversionsDirty || w.converted[r.String()] != nil
	if n <= 0 {
		delete(r.counts, namespace)
		prune(w.doc, "counts", namespace, r.String())
		return
	}
	r.counts[namespace] = n
	child(w.doc, "counts", namespace)[r.String()] = n
}

// hold brings the facts about an object's finalizers up to date.
func (w *World) hold(r *resource, key types.NamespacedName, m metav1.Object, spec []string) {
	if len(m.GetFinalizers()) == 0 && len(spec) == 0 {
		w.release(r, key)
		return
	}
	now, owner := finalizersOf(m, spec), blockingOwner(m)
	if h, held := r.held[key]; held {
		if h.owner == owner && maps.EqualFunc(h.evidence, now, evidence.equal) {
			h.generation = r.generation
			return
		}
		w.release(r, key)
	}
	w.hang(r, key, &holding{generation: r.generation, evidence: now, owner: owner})
}

// hang puts an object with finalizers into its buckets.
func (w *World) hang(r *resource, key types.NamespacedName, h *holding) {
	for finalizer, evidence := range h.evidence {
		h.buckets = append(h.buckets, w.bucket(r, key, finalizer, evidence))
	}
	r.held[key] = h
	w.block(key, h)
	r.heldIn[key.Namespace]++
	w.touched[key.Namespace] = true
}

func (w *World) release(r *resource, key types.NamespacedName) {
	h, held := r.held[key]
	if !held {
		return
	}
	delete(r.held, key)
	w.unblock(key, h)
	r.heldIn[key.Namespace]--
	w.touched[key.Namespace] = true
	for _, b := range h.buckets {
		if b.remove(key.Name); len(b.members) == 0 {
			prune(w.doc, b.path...)
			w.unindex(key.Namespace, spread(b)...)
			w.unjudge(b)
		}
	}
}

// bucket puts an object into the bucket it belongs to.
func (w *World) bucket(r *resource, key types.NamespacedName, finalizer string, evidence evidence) *bucket {
	vkey := w.verdictKey(finalizer, r.String(), key.Namespace, evidence)
	path := []string{"finalized", key.Namespace, finalizer, r.String(), vkey.evidence}
	v := w.verdictFor(vkey, evidence)
	b := v.buckets[key.Namespace]
	if b == nil {
		b = &bucket{group: w.newGroup(true), path: path, verdict: v}
		b.facts["ownership"] = v.facts
		v.buckets[key.Namespace] = b
		child(w.doc, path[:4]...)[vkey.evidence] = b.facts
		w.index(key.Namespace, spread(b)...)
	}
	b.add(key.Name, evidence.at)
	return b
}

// spread is the path to the namespaces with buckets like one.
func spread(b *bucket) []string {
	return []string{"spread", b.path[3], b.path[2], b.path[4]}
}

// unseen is why a resource cannot be seen.
type unseen struct {
	namespaced      bool
	reason, message string
}

// Reasons for which a resource is unseen.
const (
	UnseenSyncing   = "syncing"   // not listed yet
	UnseenForbidden = "forbidden" // RBAC
	UnseenDiscovery = "discovery" // its API group cannot be read
	UnseenError     = "error"     // listing or watching it fails
	UnseenElsewhere = "elsewhere" // RBAC, but in the namespace in question
)

// SetUnseen records that a resource cannot be seen, until its next End.
func (w *World) SetUnseen(res Resource, reason, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unseen[res.String()] = unseen{namespaced: res.Namespaced, reason: reason, message: message}
	w.publishUnseen()
}

// Seen withdraws SetUnseen for a resource whose facts are complete.
func (w *World) Seen(res Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, found := w.unseen[res.String()]; found {
		delete(w.unseen, res.String())
		w.publishUnseen()
	}
}

func (w *World) publishUnseen() {
	list := make([]any, 0, len(w.unseen))
	for _, name := range slices.Sorted(maps.Keys(w.unseen)) {
		u := w.unseen[name]
		list = append(list, map[string]any{"resource": name, "namespaced": u.namespaced, "reason": u.reason, "message": u.message})
	}
	w.doc["unseen"] = list
	w.ownersDirty = true
}

// evidence is what an object itself tells about who removes one of its finalizers.
type evidence struct {
	// declared is the annotation termguard.dev/finalizer-owner.
	declared string
	// managers are the field managers that wrote the finalizer
	// (k8s.io/apimachinery, ManagedFieldsEntry).
	managers []string
	// owners are the kinds of the object's owner references, as Kind.group.
	owners []string
	// driver is the CSI driver that the object belongs to.
	driver string
	// at is where the finalizer stands in metadata.finalizers, or nowhere.
	// It is no evidence of who removes it: the signature leaves it out.
	at int
}

func (e evidence) equal(other evidence) bool {
	return e.at == other.at && e.signature() == other.signature()
}

// signature tells evidence apart, readably.
func (e evidence) signature() string {
	var parts []string
	if e.declared != "" {
		parts = append(parts, "declared="+e.declared)
	}
	if len(e.managers) > 0 {
		parts = append(parts, "managers="+strings.Join(e.managers, ","))
	}
	if len(e.owners) > 0 {
		parts = append(parts, "owners="+strings.Join(e.owners, ","))
	}
	if e.driver != "" {
		parts = append(parts, "driver="+e.driver)
	}
	return strings.Join(parts, " ")
}

// OwnerAnnotation declares, on an object, who removes its finalizers:
// "KIND/NAMESPACE/NAME" of a workload, or "external".
const OwnerAnnotation = "termguard.dev/finalizer-owner"

// finalizersOf returns an object's finalizers with what the object tells about
// each. The namespace controller's own is left out of a namespace's spec
// finalizers: it goes when everything else has.
func finalizersOf(m metav1.Object, spec []string) map[string]evidence {
	if len(m.GetFinalizers()) == 0 && len(spec) == 0 {
		return nil // most objects, whose field managers are not worth reading
	}
	common := evidence{declared: m.GetAnnotations()[OwnerAnnotation], driver: driverOf(m), at: nowhere}
	for _, ref := range m.GetOwnerReferences() {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil {
			common.owners = append(common.owners, gv.WithKind(ref.Kind).GroupKind().String())
		}
	}
	slices.Sort(common.owners)
	common.owners = slices.Compact(common.owners)
	found := map[string]evidence{}
	for _, finalizer := range spec {
		if finalizer != "kubernetes" {
			found[finalizer] = common
		}
	}
	for i, finalizer := range m.GetFinalizers() {
		if e, again := found[finalizer]; !again || e.at == nowhere {
			common.at = i
			found[finalizer] = common
		}
	}
	for _, entry := range m.GetManagedFields() {
		for _, finalizer := range managedFinalizers(entry) {
			if e, held := found[finalizer]; held {
				e.managers = append(slices.Clone(e.managers), entry.Manager)
				slices.Sort(e.managers)
				e.managers = slices.Compact(e.managers)
				found[finalizer] = e
			}
		}
	}
	return found
}

// managedFinalizers are the finalizers that a managedFields entry claims: keys
// of the form v:"NAME" under f:metadata, f:finalizers (or f:spec for those of a
// namespace's spec, which is an atomic list and names none).
func managedFinalizers(entry metav1.ManagedFieldsEntry) []string {
	if entry.FieldsV1 == nil || !strings.Contains(string(entry.FieldsV1.GetRawBytes()), "f:finalizers") {
		return nil
	}
	var fields struct {
		Metadata struct {
			Finalizers map[string]json.RawMessage `json:"f:finalizers"`
		} `json:"f:metadata"`
	}
	if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil // somebody's broken managedFields: no evidence
	}
	var names []string
	for key := range fields.Metadata.Finalizers {
		var name string
		if value, isValue := strings.CutPrefix(key, "v:"); isValue && json.Unmarshal([]byte(value), &name) == nil {
			names = append(names, name)
		}
	}
	return names
}
