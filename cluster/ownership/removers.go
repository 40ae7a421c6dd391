package ownership

import (
	"cmp"
	"slices"
	"strings"
)

// remover is something without which a finalizer is not removed.
type remover struct {
	namespace string // "" for what has none
	what      string // "RESOURCE/NAME", or "KIND.GROUP/NAME" of an owner
}

// keepRemovers puts a verdict where those are found on whom the removal of its
// finalizer rests, and takes it away where it no longer rests on them.
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

// removersOf are those on whom the removal of a finalizer rests, as far as
// known: the owners that the workloads that do it go with, their namespace, a
// workload that does it alone, their service account, the role and binding that
// alone give it the right to, or to renew the lease by which it elects who does, and all bindings of the objects' namespace together. It rests
// on an owner that does not work at the moment, too: without it, it never will again.
func (p *Part) removersOf(v *verdict) []remover {
	workloads := v.judgement.workloads
	switch {
	case p.options.Manifests || len(workloads) == 0:
		return nil // what goes together with manifests is for policies of sets to tell
	case v.evidence.declared != "" && p.options.Owners[v.key.finalizer] == "":
		return nil // what a tenant writes on its object is no warning for others
	}
	namespace := workloads[0].namespace
	var removers []remover
	for _, m := range p.makersOf(v.key.resource) {
		if v.judgement.state != Alive {
			break // it may have gone already, or cannot be seen
		}
		// What makes a definition takes its controller along, and the definition of its
		// kind takes what makes.
		removers = append(removers, remover{"", m.what})
		if m.resource != "" {
			removers = append(removers, remover{"", "customresourcedefinitions.apiextensions.k8s.io/" + m.resource})
		}
	}
	if len(v.judgement.bindings) > 0 {
		removers = append(removers, remover{v.key.namespace, "rights"})
	}
	for _, o := range p.ownersOf(workloads) {
		// A reference does not say whether its owner has a namespace.
		removers = append(removers, remover{"", o.what}, remover{namespace, o.what})
	}
	if slices.ContainsFunc(workloads, func(wl workload) bool { return wl.namespace != namespace }) {
		return removers // whatever else goes, another remains
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

// onlyGrants are the role and the binding on which the right of a service
// account rests to take finalizers off a resource, each where there is no
// other: in one namespace, or, where that is "", in those of which verdictKey
// says that they do not matter.
func (p *Part) onlyGrants(namespace, name, res, in string) []remover {
	if p.hidesGrants() {
		return nil // another may be there
	}
	return sole(p.rightsOf(namespace+"/"+name, res, in))
}

// sole are the role and the binding, given by key, each where there is no other.
func sole(roles, bindings map[string]bool) []remover {
	var only []remover
	for kind, keys := range map[string]map[string]bool{"role": roles, "rolebinding": bindings} {
		for key := range keys {
			if len(keys) > 1 {
				break
			}
			namespace, name, _ := strings.Cut(key, "/")
			if namespace == "" {
				kind = "cluster" + kind
			}
			only = append(only, remover{namespace, kind + "s" + rbacGroup + "/" + name})
		}
	}
	slices.SortFunc(only, func(a, b remover) int { return cmp.Compare(a.what, b.what) })
	return only
}

const rbacGroup = ".rbac.authorization.k8s.io"

// accountsOf are the names of the service accounts that workloads run under.
func accountsOf(workloads []workload) []string {
	var names []string
	for _, wl := range workloads {
		_, name, _ := strings.Cut(wl.account, "/")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
