package ownership

import (
	"cmp"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
)

type place struct{ resource, namespace string }

type holdings struct {
	byName map[string]*holding
	counts facts.Counts[string] // by finalizer
	left   int                  // those with finalizers in no bucket
}

type holding struct {
	uid        types.UID
	finalizers []evidence
	owner      types.UID // whose deletion it blocks, or ""
	controller controller
	deletion   deletion
	buckets    []*bucket
	cut        bool // it has more finalizers than are read
	left       bool // some are in no bucket
}

// controller recreates an object, and deletes it with itself.
type controller struct {
	kind schema.GroupKind
	name string
}

func controllerOf(m metav1.Object) (c controller) {
	c.kind, c.name = facts.Controller(m)
	return c
}

// bucket is a group in the facts: objects of one namespace, resource, finalizer and evidence.
type bucket struct {
	facts.Group
	path    []string // from "finalized"
	verdict *verdict
	ending  map[string]int64 // deletion times of Terminating objects
}

// Keep keeps the evidence in an object's metadata, and reports whether there is any. specFinalizers are a
// namespace's.
func (p *Part) Keep(resource string, key types.NamespacedName, m metav1.Object, specFinalizers []string) bool {
	finalized, linked, task := p.keepFinalizers(resource, key, m, specFinalizers), p.keepLink(resource, key, m), p.keepTask(resource, key, m)
	return finalized || linked || task
}

func (p *Part) Forget(resource string, key types.NamespacedName) {
	p.forgetFinalizers(resource, key)
	p.setLink(resource, key, link{})
	p.tasks.set(key.Namespace, task{resource, key.Name}, made{})
}

func (p *Part) keepFinalizers(resource string, key types.NamespacedName, m metav1.Object, specFinalizers []string) bool {
	if len(m.GetFinalizers()) == 0 && len(specFinalizers) == 0 {
		p.Gone(resource, key)
		p.forgetFinalizers(resource, key)
		return false
	}
	now := &holding{
		uid: m.GetUID(), finalizers: p.evidenceOf(resource, m, specFinalizers), owner: facts.BlockingOwner(m), controller: controllerOf(m), deletion: deletionOf(m),
		cut: len(m.GetFinalizers()) > maxFinalizers || len(specFinalizers) > maxFinalizers,
	}
	if before := p.holding(resource, key); before != nil {
		if before.uid == now.uid && before.cut == now.cut && before.owner == now.owner && before.controller == now.controller && before.deletion == now.deletion && slices.EqualFunc(before.finalizers, now.finalizers, evidence.equal) {
			return true
		}
		p.recordEndings(before, now.finalizers)
		p.release(resource, key, before)
	}
	p.hold(resource, key, now)
	p.changed(resource, key.Namespace)
	return true
}

func (p *Part) holding(resource string, key types.NamespacedName) *holding {
	if in := p.held[place{resource, key.Namespace}]; in != nil {
		return in.byName[key.Name]
	}
	return nil
}

func (p *Part) hold(resource string, key types.NamespacedName, h *holding) {
	at := place{resource, key.Namespace}
	in := p.held[at]
	if in == nil {
		in = &holdings{byName: map[string]*holding{}, counts: facts.Counts[string]{}}
		p.held[at] = in
	}
	in.byName[key.Name] = h
	for _, e := range h.finalizers {
		in.counts.Add(e.finalizer, 1)
		if b := p.bucket(resource, key, e); b != nil {
			h.buckets = append(h.buckets, b)
			p.addTerminating(b, key.Name, h.deletion)
		}
	}
	if h.left = h.cut || len(h.buckets) < len(h.finalizers); h.left {
		in.left++
		p.options.Sight.Cut(resource, key.Namespace, "more finalizers than are kept of one object or namespace")
	}
	for _, b := range p.blocking(h) {
		p.options.Dependents.Block(h.owner, key.Name, true, b.At(key.Name), append([]string{"finalized"}, b.path[1:]...)...)
	}
}

// controllers is a section by the resource and "namespace/name" of finalized objects.
func (p *Part) controllers() facts.Section {
	return facts.Section{
		Keys: func() iter.Seq[string] {
			resources := map[string]bool{}
			for at := range p.held {
				resources[at.resource] = true
			}
			return maps.Keys(resources)
		},
		Below: func(resource string) any {
			return facts.Section{
				Keys: func() iter.Seq[string] {
					var keys []string
					for at, in := range p.held {
						if at.resource == resource {
							for name := range in.byName {
								keys = append(keys, at.namespace+"/"+name)
							}
						}
					}
					return slices.Values(keys)
				},
				Below: func(key string) any {
					namespace, name, _ := strings.Cut(key, "/")
					by := p.Controller(resource, types.NamespacedName{Namespace: namespace, Name: name})
					if by.Name == "" {
						return nil
					}
					return map[string]any{"resource": by.Resource, "namespace": by.Namespace, "name": by.Name}
				},
			}
		},
	}
}

func (p *Part) Controller(resource string, key types.NamespacedName) (by facts.Object) {
	h := p.holding(resource, key)
	if h == nil || h.controller.name == "" {
		return by
	}
	by = facts.Object{Resource: p.Resource(h.controller.kind), Namespace: key.Namespace, Name: h.controller.name}
	if d := p.definition(by.Resource); d.cluster || d.kind == "" && !facts.Namespaced(h.controller.kind) {
		by.Namespace = ""
	}
	return by
}

func (p *Part) forgetFinalizers(resource string, key types.NamespacedName) {
	if h := p.holding(resource, key); h != nil {
		p.release(resource, key, h)
		p.changed(resource, key.Namespace)
	}
}

func (p *Part) changed(resource, namespace string) {
	if resource == "rolebindings"+rbacGroup {
		p.dirty = true // finalizers keep rights
	}
	p.options.Touched(resource, namespace)
}

func (p *Part) release(resource string, key types.NamespacedName, h *holding) {
	at := place{resource, key.Namespace}
	in := p.held[at]
	if delete(in.byName, key.Name); len(in.byName) == 0 {
		delete(p.held, at)
	}
	for _, e := range h.finalizers {
		in.counts.Add(e.finalizer, -1)
	}
	if h.left {
		if in.left--; in.left == 0 {
			p.options.Sight.Cut(resource, key.Namespace, "")
		}
	}
	for _, b := range p.blocking(h) {
		p.options.Dependents.Unblock(h.owner, key.Name, append([]string{"finalized"}, b.path[1:]...)...)
	}
	for _, b := range h.buckets {
		p.removeTerminating(b, key.Name)
		if b.Remove(key.Name); b.Empty() {
			p.doc.Prune(b.path...)
			p.groups.Remove(key.Namespace, spread(b)...)
			p.grouped.Remove(key.Namespace, b)
			if b.verdict.evidence.declared != "" {
				p.declared.Add(key.Namespace, -1)
			}
			p.unjudge(b)
		}
	}
}

func (p *Part) Holdings(namespace, resource string) (all []facts.Holding) {
	for b := range p.grouped[namespace] {
		if resource == "" || b.verdict.key.resource == resource {
			all = append(all, b.holding(&b.Group))
		}
	}
	slices.SortFunc(all, func(a, b facts.Holding) int {
		return cmp.Or(cmp.Compare(a.Finalizer, b.Finalizer), cmp.Compare(a.Resource, b.Resource), slices.Compare(a.Names, b.Names))
	})
	return all
}

// holding returns some of a bucket's objects.
func (b *bucket) holding(of *facts.Group) facts.Holding {
	return facts.Holding{
		Finalizer: b.verdict.key.finalizer, Resource: b.verdict.key.resource, Namespace: b.path[1],
		Names: of.Names(), Count: len(of.Members()), Owner: b.verdict.owned(), Ending: b.ending,
	}
}

// HoldingOf returns dependents that block their owner; none if they are not known any more.
func (p *Part) HoldingOf(d dependents.Finalized) facts.Holding {
	for b := range p.grouped[d.Namespace] {
		if b.verdict.key.finalizer == d.Finalizer && b.verdict.key.resource == d.Resource && b.verdict.key.evidence == d.Evidence {
			return b.holding(d.Group)
		}
	}
	return facts.Holding{}
}

func (p *Part) Holding() []string { return slices.Sorted(maps.Keys(p.grouped)) }

func (p *Part) Owners() map[string]string {
	owners := map[string]string{}
	for key, v := range p.verdicts {
		if owner, again := owners[key.finalizer]; again && owner != v.owner {
			owners[key.finalizer] = ""
		} else {
			owners[key.finalizer] = v.owner
		}
	}
	return owners
}

// Held counts finalized objects, and returns their finalizers.
func (p *Part) Held(resource, namespace string) (objects int, finalizers []string) {
	if in := p.held[place{resource, namespace}]; in != nil {
		return len(in.byName), slices.Sorted(maps.Keys(in.counts))
	}
	return 0, nil
}

// Holds reports whether an object has finalizers.
func (p *Part) Holds(resource string, key types.NamespacedName) bool {
	return p.holding(resource, key) != nil
}

// Leaving reports whether a finalized object is Terminating.
func (p *Part) Leaving(resource string, key types.NamespacedName) bool {
	h := p.holding(resource, key)
	return h != nil && h.deletion.since != 0
}

// Carries reports whether exactly this object is known to have a finalizer.
func (p *Part) Carries(resource string, key types.NamespacedName, uid types.UID, finalizer string) bool {
	h := p.holding(resource, key)
	return h != nil && h.uid == uid && h.has(finalizer)
}

// Shows reports whether an object is known with exactly these finalizers, or none.
func (p *Part) Shows(resource string, key types.NamespacedName, uid types.UID, finalizers []string) bool {
	h := p.holding(resource, key)
	if h == nil {
		return len(finalizers) == 0
	}
	return h.uid == uid && !h.cut && !slices.ContainsFunc(finalizers, func(f string) bool { return !h.has(f) }) &&
		!slices.ContainsFunc(h.finalizers, func(e evidence) bool { return !slices.Contains(finalizers, e.finalizer) })
}

func (h *holding) has(finalizer string) bool {
	return slices.ContainsFunc(h.finalizers, func(e evidence) bool { return e.finalizer == finalizer })
}

// bucket returns nil if the namespace has too many.
func (p *Part) bucket(resource string, key types.NamespacedName, e evidence) *bucket {
	vkey := p.verdictKey(resource, key.Namespace, e)
	v, exists := p.verdicts[vkey]
	if (!exists || v.buckets[key.Namespace] == nil) && len(p.grouped[key.Namespace]) == maxGroups {
		return nil
	}
	v = p.verdictFor(vkey, e)
	b := v.buckets[key.Namespace]
	if b == nil {
		if e.declared != "" {
			p.declared.Add(key.Namespace, 1)
		}
		b = &bucket{
			Group: facts.NewGroup(true, p.options.MaxNames), verdict: v,
			path: []string{"finalized", key.Namespace, e.finalizer, resource, vkey.evidence},
		}
		b.Facts()["ownership"] = v.facts
		v.buckets[key.Namespace] = b
		p.grouped.Add(key.Namespace, b)
		p.doc.Put(b.Facts(), b.path...)
		p.groups.Add(key.Namespace, spread(b)...)
	}
	b.Add(key.Name, e.at)
	return b
}

func spread(b *bucket) []string {
	return []string{"spread", b.path[3], b.path[2], b.path[4]}
}

// blocking omits built-in finalizers: every pod of a Job has one.
func (p *Part) blocking(h *holding) []*bucket {
	if h.owner == "" {
		return nil
	}
	var buckets []*bucket
	for _, b := range h.buckets {
		if !p.builtIn(b.verdict.key) {
			buckets = append(buckets, b)
		}
	}
	return buckets
}

type verdictKey struct {
	finalizer, resource string
	// evidence is the objects' signature, with the namespace if its rights or observations differ.
	evidence  string
	namespace string
}

func (p *Part) verdictKey(resource, namespace string, e evidence) verdictKey {
	key := verdictKey{finalizer: e.finalizer, resource: resource, evidence: e.signature(), namespace: p.scope(e.finalizer, resource, namespace)}
	if key.namespace != "" {
		key.evidence = strings.TrimSpace(key.evidence + " namespace=" + key.namespace)
	}
	return key
}

// verdict's facts are replaced, never changed: readers may keep them.
type verdict struct {
	judgement
	key      verdictKey
	evidence evidence
	facts    map[string]any
	buckets  map[string]*bucket // by namespace
	removers []remover          // it depends on them
}

func (p *Part) verdictFor(key verdictKey, e evidence) *verdict {
	v, ok := p.verdicts[key]
	if !ok {
		v = &verdict{key: key, evidence: e, judgement: p.judge(key, e), buckets: map[string]*bucket{}}
		v.facts = v.judgement.facts()
		p.verdicts[key] = v
		p.doc.Put(v.facts, "finalizers", key.finalizer, key.resource, key.evidence)
		p.keepRemovers(v, p.removersOf(v))
	}
	return v
}

func (p *Part) unjudge(b *bucket) {
	v := b.verdict
	delete(v.buckets, b.path[1])
	if len(v.buckets) == 0 {
		p.keepRemovers(v, nil)
		delete(p.verdicts, v.key)
		p.doc.Prune("finalizers", v.key.finalizer, v.key.resource, v.key.evidence)
	}
}

// Settle updates all verdicts; the facts may change whenever it calls yield.
func (p *Part) Settle(yield func()) {
	if p.grantsDirty {
		p.acts++
		p.grantsDirty = false
		p.dirty = true
		p.regrant(yield)
	}
	p.settleEnding()
	if !p.dirty {
		return
	}
	p.dirty = false
	for _, v := range p.verdicts {
		yield()
		if p.verdicts[v.key] != v {
			continue
		}
		v.judgement = p.judge(v.key, v.evidence)
		p.keepRemovers(v, p.removersOf(v))
		now := v.judgement.facts()
		if reflect.DeepEqual(now, v.facts) {
			continue
		}
		v.facts = now
		p.doc.Put(now, "finalizers", v.key.finalizer, v.key.resource, v.key.evidence)
		for _, b := range v.buckets {
			b.Facts()["ownership"] = now
		}
	}
}

// regrant also moves objects whose verdict begins or ceases to depend on their namespace.
func (p *Part) regrant(yield func()) {
	p.indexGrants(yield)
	for at, in := range p.held {
		for name, h := range in.byName {
			yield()
			resource, key := at.resource, types.NamespacedName{Namespace: at.namespace, Name: name}
			if p.holding(resource, key) != h {
				continue
			}
			moves := slices.ContainsFunc(h.buckets, func(b *bucket) bool {
				return b.verdict.key.namespace != p.scope(b.verdict.key.finalizer, resource, key.Namespace)
			})
			if !moves {
				continue
			}
			p.release(resource, key, h)
			p.hold(resource, key, &holding{uid: h.uid, finalizers: h.finalizers, owner: h.owner, controller: h.controller, deletion: h.deletion, cut: h.cut})
		}
	}
}
