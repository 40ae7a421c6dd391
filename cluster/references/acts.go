package references

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

type act struct {
	finalizer string
	catalog.Operation
}

type serving struct {
	Thing
	finalizer, of string // a finalizer of objects of a resource
	named         bool   // a field names it, but the owner may not need it
}

// barring is an operation that an owner has no right to.
type barring struct{ finalizer, resource, without, what, as string }

func appendActs(acts []act, finalizer string, a *catalog.Act, fields map[string]any) []act {
	for _, d := range a.On(fields) {
		if len(acts) == maxNamed {
			return acts
		}
		acts = append(acts, act{finalizer, d})
	}
	return acts
}

const impersonate = "impersonate"

// SetRights records how often rights may have changed.
func (p *Part) SetRights(times int) {
	if times == p.rights {
		return
	}
	p.rights = times
	for namespace, carriers := range p.carriers {
		for id := range carriers {
			if len(p.records[id].acts) > 0 {
				p.dirtyNeeds[namespace] = true
			}
		}
	}
}

// settleActs adds missing rights of owners, and the roles and bindings that alone grant others.
func (p *Part) settleActs(id Thing, served facts.Sets[serving, string], barred facts.Sets[barring, string]) {
	note := func(d act, account string, lets bool, only []Thing) {
		if !lets {
			barred.Add(barring{d.finalizer, id.Resource, d.Without, phrase(d.Operation, account), d.As}, id.Name)
		}
		for _, by := range only {
			p.look(by, id.Namespace) // so that it is removed again
			served.Add(serving{by, d.finalizer, id.Resource, false}, id.Name)
		}
	}
	p.visitActs(id, p.records[id].acts, func(account types.NamespacedName) bool {
		return p.look(Thing{"serviceaccounts", account}, id.Namespace).Exists
	}, note)
}

// visitActs visits the rights of an object's acts that the facts show; account is "" for the owner's own.
func (p *Part) visitActs(id Thing, acts []act, isThere func(types.NamespacedName) bool, visit func(d act, account string, lets bool, only []Thing)) {
	var lacked act
	ask := func(d act, account string) {
		lets, ok, only := p.options.World.Allows(d.finalizer, id.Resource, id.Namespace, d.Operation, account)
		if !ok || !lets && alike(d, lacked) {
			return // one of them is enough
		}
		if !lets {
			lacked = d
		}
		visit(d, account, lets, only)
	}
	for _, d := range acts {
		if d.As == "" {
			ask(d, "")
			continue
		}
		account := types.NamespacedName{Namespace: id.Namespace, Name: d.As}
		if !isThere(account) {
			continue // it does nothing as a missing account
		}
		if ask(d, account.String()); d.ByPods {
			continue
		}
		ask(act{d.finalizer, catalog.Operation{Verb: impersonate, Without: catalog.May, Kind: schema.GroupKind{Kind: "ServiceAccount"}, Namespace: id.Namespace, As: d.As}}, "")
	}
}

const Definitions = "customresourcedefinitions.apiextensions.k8s.io"

// undefined returns one act on each unserved kind: the owner retries its discovery for ever.
func (p *Part) undefined(id Thing, acts []act) (unserved []act) {
	for _, d := range acts {
		if d.As != "" && !p.options.World.Presence("serviceaccounts", types.NamespacedName{Namespace: id.Namespace, Name: d.As}).Exists {
			continue // it does nothing as a missing account
		}
		if p.options.World.Undefined(d.Kind) && !slices.ContainsFunc(unserved, func(of act) bool { return of.Kind == d.Kind && of.finalizer == d.finalizer }) {
			unserved = append(unserved, d)
		}
	}
	return unserved
}

func kindOf(d act) string { return "of " + d.Kind.String() }

func alike(a, b act) bool {
	a.Verb, a.Without = b.Verb, b.Without
	return a == b
}

func phrase(d catalog.Operation, account string) string {
	what := fmt.Sprintf("%s %s", d.Verb, d.Kind)
	if d.Namespace != "" {
		what += " in namespace " + d.Namespace
	}
	if account != "" {
		what += " as service account " + account
	}
	return what
}
