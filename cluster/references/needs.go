package references

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

// States of a needed object, as the document has them.
const (
	goes  = "goes"        // it is in the object's namespace, and nothing keeps it there
	hangs = catalog.Hangs // it is missing, and the owner retries for ever
	may   = catalog.May   // it is missing, and the owner may give up
	// It is missing, or deleted with its namespace, and the owner, except some releases, removes the finalizer.
	completes, spared = catalog.Completes, "spared"
	leaves            = "leaves"
)

// credentials are only read by owners: others may wait for the objects that need them.
var credentials = []string{secrets, "configmaps", "serviceaccounts"}

func (p *Part) settleNeeds(namespace string) {
	for _, id := range p.needs[namespace] {
		n := p.needed[id]
		if delete(n.by, namespace); len(n.by) == 0 {
			delete(p.needed, id)
		}
		p.doc.Prune("needed", id.Namespace, id.resource, id.Name, namespace)
	}
	delete(p.needs, namespace)
	p.doc.Prune("needs", namespace)
	p.doc.Prune("unallowed", namespace)

	type key struct{ finalizer, resource, needed, state string }
	needy, lacked := facts.Sets[key, string]{}, facts.Sets[key, string]{} // and what they need
	lack := func(k key, object, needed string) {
		needy.Add(k, object)
		lacked.Add(k, needed)
	}
	served, barred := facts.Sets[serving, string]{}, facts.Sets[barring, string]{}
	for id := range p.carriers[namespace] {
		looks := 0
		for _, n := range p.records[id].needs {
			p.walk(n, namespace, func(resource string, target types.NamespacedName, without string, fixed bool) bool {
				if looks++; looks > maxNamed {
					return false
				}
				at := p.look(resource, target, namespace)
				if at.There && !at.Held && without != catalog.Completes && without != through && !p.options.Manifests {
					served.Add(serving{object{resource, target}, n.finalizer, id.resource, without == named}, id.Name)
				}
				state := p.state(resource, at, fixed, without, target.Namespace == namespace && namespace != "")
				if state == "" || without == catalog.Completes && !p.plan.rulesFor(n.finalizer, id.resource).lacks[resource] {
					return at.There
				}
				lack(key{n.finalizer, id.resource, resource, state}, id.Name, nameIn(namespace, target))
				return at.There
			})
		}
		p.settleDeeds(id, served, barred)
		for _, d := range p.undefined(id, p.records[id].deeds) {
			lack(key{d.finalizer, id.resource, Definitions, hangs}, id.Name, kindOf(d))
		}
	}
	for b, names := range barred {
		g := group(names, p.options.MaxNames)
		facts.Set(g, "as", b.as, b.as != "")
		p.doc.Put(g, "unallowed", namespace, b.finalizer, b.resource, b.without, b.what)
	}
	for k, names := range needy {
		g := group(names, p.options.MaxNames)
		g["needed"] = group(lacked[k], p.options.MaxNames)
		p.doc.Put(g, "needs", namespace, k.finalizer, k.resource, k.needed, k.state)
	}
	for s, names := range served {
		g := group(names, p.options.MaxNames)
		facts.Set(g, "named", true, s.named)
		p.doc.Put(g, "needed", s.Namespace, s.object.resource, s.Name, namespace, s.finalizer, s.resource)
	}
}

// look returns the state of an object that a namespace needs, and registers it, so that Keep and Forget
// report changes.
func (p *Part) look(resource string, target types.NamespacedName, namespace string) Presence {
	id := object{resource, target}
	n := p.needed[id]
	if n == nil {
		n = &needed{by: map[string]bool{}}
		p.needed[id] = n
	}
	n.Presence = p.options.World.Look(resource, target)
	if !n.by[namespace] {
		n.by[namespace] = true
		p.needs[namespace] = append(p.needs[namespace], id)
	}
	return n.Presence
}

// Unknown returns the objects of unknown existence that a namespace's objects need, directly or through
// objects that they wait for.
func (p *Part) Unknown(namespace string) []Thing {
	u := unknowns{part: p, noted: map[object]bool{}}
	for _, id := range p.needs[namespace] {
		u.note(id.resource, id.NamespacedName)
	}
	for _, id := range p.awaitedFrom(namespace) {
		u.of(id)
	}
	return u.things()
}

// UnknownOf is Unknown for the objects of one kind, in any namespace.
func (p *Part) UnknownOf(resource string) []Thing {
	u := unknowns{part: p, noted: map[object]bool{}}
	for _, carriers := range p.carriers {
		for id := range carriers {
			if id.resource == resource {
				u.of(id)
			}
		}
	}
	return u.things()
}

type unknowns struct {
	part  *Part
	noted map[object]bool
}

func (u unknowns) note(resource string, target types.NamespacedName) (there bool) {
	at := u.part.options.World.Look(resource, target)
	if !at.Known {
		u.noted[object{resource, target}] = true
	}
	return at.There
}

func (u unknowns) of(id object) {
	looks := 0
	for _, n := range u.part.records[id].needs {
		u.part.walk(n, id.Namespace, func(resource string, target types.NamespacedName, _ string, _ bool) bool {
			looks++
			return looks <= maxNamed && u.note(resource, target)
		})
	}
}

func (u unknowns) things() (found []Thing) {
	for id := range u.noted {
		found = append(found, Thing{id.resource, id.NamespacedName})
	}
	slices.SortFunc(found, func(a, b Thing) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.String(), b.String()))
	})
	return found
}

// awaitedFrom returns the objects that the owners of a namespace's objects delete first.
func (p *Part) awaitedFrom(namespace string) (found []object) {
	for _, waiting := range p.awaiting {
		for id := range waiting {
			if id.Namespace != namespace {
				continue
			}
			r := p.records[id]
			for _, w := range r.waits {
				for _, rule := range w.rules {
					if !rule.Deletes {
						continue
					}
					found = slices.AppendSeq(found, maps.Keys(p.users(rule, id, r)))
				}
			}
		}
	}
	return found
}

// Thing is an object that others need.
type Thing struct {
	Resource string
	types.NamespacedName
}

// state returns the state of a needed object, "" if it does not matter.
func (p *Part) state(resource string, at Presence, fixed bool, without string, inside bool) string {
	there, held, known := at.There, at.Held, at.Known
	switch {
	case at.Leaving && slices.Contains(credentials, resource) && without != through && without != catalog.Completes && !p.options.Manifests:
		return leaves
	case without == through, without == named && (!known || held || there && !inside):
		return ""
	case without == named && there:
		return going
	case without == named:
		return named
	case without == catalog.Completes:
		switch {
		case !known || fixed || p.options.Manifests:
			return ""
		case !there:
			return completes
		case !held && inside:
			return spared
		}
		return ""
	case there && !held && inside:
		return goes
	case !known && p.options.Manifests && !fixed && inside:
		return goes // whatever writes it, it is deleted with its namespace
	case !there && known && !fixed && !p.options.Manifests:
		return without
	}
	return ""
}

// walk visits the needed object, a service account's bindings, and the objects that are read from it, if
// visit reports that it exists.
func (p *Part) walk(n need, namespace string, visit func(resource string, target types.NamespacedName, without string, fixed bool) bool) {
	target := types.NamespacedName{Name: n.Named.Name}
	if p.plan.namespaced(n.Resource) {
		target.Namespace = cmp.Or(n.Named.Namespace, namespace)
	}
	if n.Without == through {
		visit(n.Resource, target, through, false) // its content may change
		if r := p.records[object{n.Resource, target}]; r != nil {
			for _, next := range r.published {
				p.walk(next, target.Namespace, visit)
			}
		}
		return
	}
	if !visit(n.Resource, target, n.Without, n.Path == "") {
		return
	}
	if n.Impersonates {
		for binding := range p.bindings[target.String()] {
			if binding.Namespace == namespace {
				visit(roleBindings, binding, catalog.May, true)
			}
		}
	}
	r := p.records[object{n.Resource, target}]
	if r == nil {
		return
	}
	for _, next := range r.below {
		for i := range n.Needs {
			if next.Need == &n.Needs[i] {
				p.walk(next, target.Namespace, visit)
			}
		}
	}
}

func nameIn(namespace string, target types.NamespacedName) string {
	if target.Namespace == namespace || target.Namespace == "" {
		return target.Name
	}
	return target.String()
}

// Missing returns the missing objects that an owner needs to clear a finalizer, each with the effect on it.
func (p *Part) Missing(finalizer, resource string, obj metav1.Object) []any {
	u, whole := obj.(*unstructured.Unstructured)
	if !whole || p.options.Manifests {
		return nil
	}
	var found []any
	rules := p.plan.rulesFor(finalizer, resource)
	needs := needsOf(finalizer, rules, u)
	if !rules.builtIn && facts.Custom(facts.GroupOf(resource)) && p.ReadsFields(resource) {
		needs = appendHints(needs, finalizer, rules, p.naming(idOf(resource, u), u).needs)
	}
	for _, one := range needs {
		p.walk(one, obj.GetNamespace(), func(resource string, target types.NamespacedName, without string, fixed bool) bool {
			at := p.options.World.Look(resource, target)
			if without == catalog.Completes && !rules.lacks[resource] {
				return at.There
			}
			if state := p.state(resource, at, fixed, without, false); state != "" && len(found) < maxNamed {
				found = append(found, map[string]any{"resource": resource, "namespace": target.Namespace, "name": target.Name, "without": state})
			}
			return at.There
		})
	}
	for _, d := range p.undefined(idOf(resource, u), deedsOf(finalizer, u, rules)) {
		found = append(found, map[string]any{"resource": Definitions, "namespace": "", "name": kindOf(d), "without": hangs})
	}
	return found
}

// Waits returns the objects that an owner waits for indefinitely if they are missing.
func (p *Part) Waits(finalizer, resource string, obj *unstructured.Unstructured) (found []Thing) {
	for _, one := range needsOf(finalizer, p.plan.rulesFor(finalizer, resource), obj) {
		p.walk(one, obj.GetNamespace(), func(resource string, target types.NamespacedName, without string, _ bool) bool {
			if without == hangs && len(found) < maxNamed {
				found = append(found, Thing{resource, target})
			}
			return true
		})
	}
	return found
}

func needsOf(finalizer string, rules *rules, u *unstructured.Unstructured) (needs []need) {
	for _, n := range rules.needs {
		needs = append(needs, appendNeeds(nil, finalizer, n, u.Object)...)
	}
	return needs
}
