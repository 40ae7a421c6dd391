package references

import (
	"cmp"
	"maps"
	"slices"

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
	// It is missing, or deleted with its namespace, and most releases of the owner remove the finalizer.
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
		p.doc.Prune("needed", id.Namespace, id.Resource, id.Name, namespace)
	}
	delete(p.needs, namespace)
	p.doc.Prune("needs", namespace)
	p.doc.Prune("unallowed", namespace)

	type key struct{ finalizer, resource, needed, state string }
	needy, lacked := facts.Sets[key, string]{}, facts.Sets[key, string]{} // and what they need
	lack := func(k key, name, needed string) {
		needy.Add(k, name)
		lacked.Add(k, needed)
	}
	served, barred := facts.Sets[serving, string]{}, facts.Sets[barring, string]{}
	for id := range p.carriers[namespace] {
		looks := 0
		for _, n := range p.records[id].needs {
			p.walk(n, namespace, func(target Thing, without string, fixed bool) bool {
				if looks++; looks > maxNamed {
					return false
				}
				at := p.look(target, namespace)
				if at.Exists && !at.Finalized && without != catalog.Completes && without != through && !p.options.Manifests {
					served.Add(serving{target, n.finalizer, id.Resource, without == named}, id.Name)
				}
				state := p.state(target.Resource, at, fixed, without, target.Namespace == namespace && namespace != "")
				if state != "" && (without != catalog.Completes || slices.Contains(p.plan.rulesFor(n.finalizer, id.Resource).lacks, target.Resource)) {
					lack(key{n.finalizer, id.Resource, target.Resource, state}, id.Name, nameIn(namespace, target.NamespacedName))
				}
				return at.Exists
			})
		}
		p.settleActs(id, served, barred)
		for _, d := range p.undefined(id, p.records[id].acts) {
			lack(key{d.finalizer, id.Resource, Definitions, hangs}, id.Name, kindOf(d))
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
		p.doc.Put(g, "needed", s.Namespace, s.Resource, s.Name, namespace, s.finalizer, s.of)
	}
}

// look also registers the object, so that Keep and Forget report changes.
func (p *Part) look(id Thing, namespace string) Presence {
	n := p.needed[id]
	if n == nil {
		n = &needed{by: map[string]bool{}}
		p.needed[id] = n
	}
	n.Presence = p.options.World.Presence(id.Resource, id.NamespacedName)
	if !n.by[namespace] {
		n.by[namespace] = true
		p.needs[namespace] = append(p.needs[namespace], id)
	}
	return n.Presence
}

// Unknown returns the objects of unknown existence that a namespace's objects need, directly or through
// objects that their owners delete first.
func (p *Part) Unknown(namespace string) []Thing {
	unknown := unknowns{}
	for _, id := range p.needs[namespace] {
		unknown.look(p, id)
	}
	for _, waiting := range p.awaiting {
		for id := range waiting {
			if id.Namespace != namespace {
				continue
			}
			r := p.records[id]
			for _, w := range r.waits {
				for _, rule := range w.rules {
					if rule.Deletes {
						unknown.needs(p, p.users(rule, id, r))
					}
				}
			}
		}
	}
	return unknown.sorted()
}

// UnknownOf is Unknown for the objects of one kind, in any namespace.
func (p *Part) UnknownOf(resource string) []Thing {
	unknown := unknowns{}
	for _, carriers := range p.carriers {
		of := maps.Clone(carriers)
		maps.DeleteFunc(of, func(id Thing, _ bool) bool { return id.Resource != resource })
		unknown.needs(p, of)
	}
	return unknown.sorted()
}

type unknowns map[Thing]bool

func (u unknowns) look(p *Part, id Thing) (there bool) {
	at := p.options.World.Presence(id.Resource, id.NamespacedName)
	if !at.Visible {
		u[id] = true
	}
	return at.Exists
}

func (u unknowns) needs(p *Part, of map[Thing]bool) {
	for id := range of {
		looks := 0
		for _, n := range p.records[id].needs {
			p.walk(n, id.Namespace, func(target Thing, _ string, _ bool) bool {
				looks++
				return looks <= maxNamed && u.look(p, target)
			})
		}
	}
}

func (u unknowns) sorted() []Thing {
	return slices.SortedFunc(maps.Keys(u), func(a, b Thing) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.String(), b.String()))
	})
}

// Thing is an object that others need.
type Thing struct {
	Resource string
	types.NamespacedName
}

// state is "" if it does not matter.
func (p *Part) state(resource string, at Presence, fixed bool, without string, inside bool) string {
	there, held, ok := at.Exists, at.Finalized, at.Visible
	switch {
	case at.Terminating && slices.Contains(credentials, resource) && without != through && without != catalog.Completes && !p.options.Manifests:
		return leaves
	case without == through, without == named && (!ok || held || there && !inside):
		return ""
	case without == named && there:
		return going
	case without == named:
		return named
	case without == catalog.Completes:
		switch {
		case !ok || fixed || p.options.Manifests:
			return ""
		case !there:
			return completes
		case !held && inside:
			return spared
		}
		return ""
	case there && !held && inside:
		return goes
	case !ok && p.options.Manifests && !fixed && inside:
		return goes // whatever writes it, it is deleted with its namespace
	case !there && ok && !fixed && !p.options.Manifests:
		return without
	}
	return ""
}

// walk visits the needed object and, if visit reports that it exists, its bindings and needs.
func (p *Part) walk(n need, namespace string, visit func(target Thing, without string, fixed bool) bool) {
	target := Thing{n.Resource, types.NamespacedName{Name: n.Named.Name}}
	if p.plan.namespaced(n.Resource) {
		target.Namespace = cmp.Or(n.Named.Namespace, namespace)
	}
	there := visit(target, n.Without, n.Path == "" && n.Without != through)
	r := p.records[target]
	if r == nil {
		r = &record{ties: &untied}
	}
	if n.Without == through { // its content may change
		for _, next := range r.published {
			p.walk(next, target.Namespace, visit)
		}
		return
	}
	if !there {
		return
	}
	if n.Impersonates {
		for binding := range p.bindings[target.String()] {
			if binding.Namespace == namespace {
				visit(Thing{roleBindings, binding}, catalog.May, true)
			}
		}
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

// Missing returns, by finalizer, the objects and rights that its owner lacks, as fields of a verdict; among
// manifests, the objects beside it that the owner waits for and that no finalizer keeps.
func (p *Part) Missing(resource string, u *unstructured.Unstructured) map[string]map[string][]any {
	if len(u.GetFinalizers()) == 0 {
		return nil
	}
	id, read := Thing{resource, types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}}, role{}
	if r := p.plan.roles[resource]; r != nil {
		read.peers = r.peers
	}
	r := p.reduce(&read, id, u, u, p.naming(&read, id, u))
	if r == nil {
		return nil
	}
	missing := map[string]map[string][]any{}
	add := func(finalizer, field string, one map[string]any) {
		if missing[finalizer] == nil {
			missing[finalizer] = map[string][]any{}
		}
		if all := missing[finalizer][field]; len(all) < maxNamed {
			missing[finalizer][field] = append(all, one)
		}
	}
	for _, n := range r.needs {
		p.walk(n, id.Namespace, func(target Thing, without string, fixed bool) bool {
			at := p.options.World.Presence(target.Resource, target.NamespacedName)
			one := map[string]any{"resource": target.Resource, "namespace": target.Namespace, "name": target.Name}
			switch state := p.state(target.Resource, at, fixed, without, false); {
			case p.options.Manifests:
				if without == hangs && !at.Finalized {
					add(n.finalizer, "beside", one)
				}
				return true
			case state != "" && (without != catalog.Completes || slices.Contains(p.plan.rulesFor(n.finalizer, resource).lacks, target.Resource)):
				one["without"] = state
				add(n.finalizer, "missing", one)
			}
			return at.Exists
		})
	}
	if p.options.Manifests {
		return missing
	}
	for _, d := range p.undefined(id, r.acts) {
		add(d.finalizer, "missing", map[string]any{"resource": Definitions, "namespace": "", "name": kindOf(d), "without": hangs})
	}
	type operation struct{ finalizer, what, without string }
	unallowed := map[operation]bool{}
	p.visitActs(id, r.acts, func(account types.NamespacedName) bool {
		return p.options.World.Presence("serviceaccounts", account).Exists
	}, func(d act, account string, lets bool, _ []Thing) {
		if !lets {
			unallowed[operation{d.finalizer, phrase(d.Operation, account), d.Without}] = true
		}
	})
	for _, o := range slices.SortedFunc(maps.Keys(unallowed), func(a, b operation) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.without, b.without))
	}) {
		add(o.finalizer, "unallowed", map[string]any{"what": o.what, "without": o.without})
	}
	return missing
}
