package ownership

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// remover is an object without which a finalizer is not removed.
type remover struct {
	namespace string
	what      string // "RESOURCE/NAME", or "KIND.GROUP/NAME" of an owner
}

func (p *Part) keepRemovers(v *verdict, removers []remover) {
	if slices.Equal(removers, v.removers) {
		return
	}
	path := func(r remover) []string {
		return []string{"removers", r.namespace, r.what, v.key.finalizer, v.key.resource, v.key.evidence}
	}
	for _, r := range v.removers {
		p.doc.Prune(path(r)...)
	}
	for _, r := range removers {
		p.doc.Put(true, path(r)...)
	}
	v.removers = removers
}

// removersOf returns the objects that the removal of a finalizer depends on, also if the owner is down:
// without them it never works.
func (p *Part) removersOf(v *verdict) []remover {
	workloads := v.judgement.workloads
	switch {
	case p.options.Manifests || len(workloads) == 0:
		return nil // policies about sets report that
	case v.evidence.declared != "" && p.options.Owners[v.key.finalizer] == "":
		return nil // a tenant's declaration is no warning for others
	}
	namespace := workloads[0].namespace
	var removers []remover
	for _, m := range p.makersOf(v.key.resource) {
		if v.judgement.state != Alive {
			break // it may be deleted already, or hidden
		}
		// Without a maker the kind's controller stops; it is deleted with the definition of its kind.
		removers = append(removers, remover{"", m.what})
		if m.resource != "" {
			removers = append(removers, remover{"", definitions + "/" + m.resource})
		}
	}
	if len(v.judgement.bindings) > 0 {
		removers = append(removers, remover{v.key.namespace, "rights"})
	}
	for _, o := range p.ownersOf(workloads) {
		// A reference does not say whether its owner is namespaced.
		removers = append(removers, remover{"", o.what}, remover{namespace, o.what})
	}
	if slices.ContainsFunc(workloads, func(wl workload) bool { return wl.namespace != namespace }) {
		return removers // another always remains
	}
	removers = append(removers, remover{namespace, "namespaces/" + namespace})
	if len(workloads) == 1 {
		removers = append(removers, remover{namespace, workloads[0].resource() + "/" + workloads[0].name})
	}
	if accounts := accountsOf(workloads); len(accounts) == 1 {
		account := accounts[0]
		removers = append(removers, remover{namespace, "serviceaccounts/" + account})
		removers = append(removers, p.onlyGrants(namespace, account, v.key.resource, v.key.namespace)...)
		if _, elects := p.election(workloads[0]); elects && len(workloads) == 1 {
			for _, r := range p.onlyGrants(namespace, account, leases, namespace) {
				if !slices.Contains(removers, r) {
					removers = append(removers, r)
				}
			}
		}
	}
	return removers
}

// onlyGrants returns the only role and the only binding for an account's right in a namespace, "" for all that
// verdictKey does not distinguish.
func (p *Part) onlyGrants(namespace, name, res, in string) []remover {
	if p.hidesGrants() {
		return nil // there may be another
	}
	return sole(p.rightsOf(namespace+"/"+name, res, in))
}

func sole(roles, bindings map[types.NamespacedName]bool) []remover {
	var only []remover
	for kind, keys := range map[string]map[types.NamespacedName]bool{"role": roles, "rolebinding": bindings} {
		for key := range keys {
			if len(keys) > 1 {
				break
			}
			if key.Namespace == "" {
				kind = "cluster" + kind
			}
			only = append(only, remover{key.Namespace, kind + "s" + rbacGroup + "/" + key.Name})
		}
	}
	slices.SortFunc(only, func(a, b remover) int { return cmp.Compare(a.what, b.what) })
	return only
}

const rbacGroup = ".rbac.authorization.k8s.io"

func accountsOf(workloads []workload) []string {
	var names []string
	for _, wl := range workloads {
		_, name, _ := strings.Cut(wl.account, "/")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
