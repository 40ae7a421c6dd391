package ownership

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
)

// rightsOf are the roles and bindings, by key, that give a service account, as
// "namespace/name", the right to take finalizers off a resource: in one namespace,
// or, where that is "", in those of which verdictKey says that they do not matter.
func (p *Part) rightsOf(account, res, in string) (roles, bindings map[string]bool) {
	_, custom := p.definitions[res]
	roles, bindings = map[string]bool{}, map[string]bool{}
	for _, subject := range subjectsOf(account) {
		for _, key := range p.bound[subject] {
			b := p.bindings[key]
			for _, g := range p.roles[b.role] {
				// Of a custom resource, no subresource takes metadata
				// (k8s.io/apiextensions-apiserver, pkg/registry/customresource/status_strategy.go);
				// of others, some do, but a Scale has metadata of its own.
				if !g.covers(res) || g.subresource == "scale" || custom && g.subresource != "" {
					continue
				}
				// A namespace where just wide grants hold has no verdict of its own.
				if b.scope == "" || b.scope == in || in == "" && g.wide {
					roles[b.role], bindings[key] = true, true
				}
			}
		}
	}
	return roles, bindings
}

// mayTake tells whether a service account, as "namespace/name", may take finalizers off
// what a question is about, as far as RBAC shows.
func (p *Part) mayTake(account string, q *asked) bool {
	_, bindings := p.rightsOf(account, q.resource, q.namespace)
	return len(bindings) > 0 || p.options.Manifests || p.hidesGrants()
}

// subjectsOf are what bindings may name to give a service account rights.
func subjectsOf(account string) []string {
	namespace, _, _ := strings.Cut(account, "/")
	return []string{account, "system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
}

// WorksElsewhere tells whether the service account of a workload in a namespace may write
// objects in others, or whether that is not known. It only reads.
func (p *Part) WorksElsewhere(namespace string) bool {
	for _, wl := range p.workloads {
		if wl.namespace != namespace {
			continue
		}
		if p.hidesGrants() || slices.ContainsFunc(p.bound[wl.account], func(key string) bool {
			b := p.bindings[key]
			return b.scope != namespace && len(p.roles[b.role]) > 0
		}) {
			return true
		}
	}
	return false
}

// anyMay tells whether anything runs, or is about to, that may take finalizers off a
// resource, by whatever role, or whether that is not known.
func (p *Part) anyMay(key verdictKey) bool {
	if p.hidesGrants() || p.blind() != "" {
		return true
	}
	wanted := map[string]bool{}
	for _, wl := range p.workloads {
		wanted[wl.account] = wanted[wl.account] || wl.wanted > 0
	}
	for name, a := range p.accounts {
		if _, bindings := p.rightsOf(name, key.resource, key.namespace); len(bindings) > 0 && (wanted[name] || !a.pods.Empty()) {
			return true
		}
	}
	return false
}

// hidesGrants tells whether there may be roles and bindings that are not seen.
func (p *Part) hidesGrants() bool {
	return slices.ContainsFunc([]string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"}, func(kind string) bool {
		_, hidden := p.options.Sight.Hidden(kind + rbacGroup)
		return hidden
	})
}

// withRights adds to a judgement what RBAC lets those do who remove the finalizer.
func (p *Part) withRights(key verdictKey, j judgement) judgement {
	if p.options.Manifests || j.state != Alive || len(j.workloads) == 0 || p.hidesGrants() {
		return j
	}
	accounts := p.accountsFor(key, j)
	if !slices.ContainsFunc(accounts, func(account string) bool { return !p.goneAccount(account) }) {
		return j.is(Barred, p.certain(key, j), "service account %s is gone, so the tokens of its pods are refused", accounts[0])
	}
	all := map[string]bool{}
	for _, account := range accounts {
		_, bindings := p.rightsOf(account, key.resource, key.namespace)
		maps.Copy(all, bindings)
	}
	if len(all) == 0 {
		return p.bar(key, j, accounts)
	}
	if j = p.withElections(j); j.state != Alive {
		return j
	}
	// Where they all go with that namespace themselves, that is told of them.
	if slices.ContainsFunc(j.workloads, func(wl workload) bool { return wl.namespace != key.namespace }) {
		j.bindings = p.goingWith(key.namespace, all)
	}
	return j
}

// accountsFor are the service accounts, as "namespace/name", of all workloads that
// may be the ones that remove a finalizer.
func (p *Part) accountsFor(key verdictKey, j judgement) []string {
	workloads := j.workloads
	if entry, known := p.options.Catalog.Lookup(key.finalizer, key.resource); known {
		workloads = slices.Concat(workloads, p.matching(entry))
	}
	var found []string
	for _, wl := range workloads {
		found = append(found, wl.account)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// bar says that an owner that is up may not update the object, where RBAC decides what
// those may do who could be it, gives none of them the right, and nobody else runs who has
// it. It is sure of one that the catalog knows to run in the cluster, and that has a
// binding of its own.
func (p *Part) bar(key verdictKey, j judgement, accounts []string) judgement {
	if slices.ContainsFunc(p.mayUpdate(key.resource, key.namespace), func(g grantee) bool {
		a := p.accounts[g.account]
		return a != nil && p.readyPod(a) != ""
	}) {
		return j
	}
	_, group, _ := strings.Cut(key.resource, ".")
	certain := p.certain(key, j)
	barred, reads := j.workloads[0].account, ""
	for _, account := range accounts {
		read := p.readBy(account, key.namespace)
		if read[everything] || !p.ruled(account) {
			return j // it may well have its rights from elsewhere
		}
		certain = certain && len(p.bound[account]) > 0
		if read[key.resource] || read[schema.GroupResource{Group: group, Resource: "*"}.String()] {
			barred, reads = account, "may read "+key.resource+", and "
		}
	}
	where := ""
	if key.namespace != "" {
		where = " in namespace " + key.namespace
	}
	j.barred, j.resource = barred, key.resource
	return j.is(Barred, certain, "service account %s %sno role lets it update or patch %s%s", barred, reads, key.resource, where)
}

// leases are what controllers elect a leader by (k8s.io/client-go, tools/leaderelection).
const leases = "leases.coordination.k8s.io"

// withElections says that an owner that is up does nothing, where no role lets it renew the
// lease by which it elects who works: it waits, and is ready. It is not sure of that: a
// lease stays when a release elects nobody any more.
func (p *Part) withElections(j judgement) judgement {
	var lost lease
	var account string
	for _, wl := range j.workloads {
		l, elects := p.election(wl)
		if !elects || !p.ruled(wl.account) {
			return j
		}
		if _, bindings := p.rightsOf(wl.account, leases, l.namespace); len(bindings) > 0 || p.readBy(wl.account, l.namespace)[everything] {
			return j
		}
		lost, account = l, wl.account
	}
	j.barred, j.resource, j.lease = account, leases, lost.String()
	return j.is(Barred, false, "no role lets service account %s update leases in namespace %s, and by lease %s it elects who works", account, lost.namespace, lost)
}

// certain tells whether the catalog knows that what runs here is the owner.
func (p *Part) certain(key verdictKey, j judgement) bool {
	entry, known := p.options.Catalog.Lookup(key.finalizer, key.resource)
	return known && entry.Component == catalog.InCluster && j.hearsay == ""
}

// goneAccount tells whether a service account is surely gone: its namespace has another,
// the one that each namespace is given.
func (p *Part) goneAccount(name string) bool {
	namespace, _, _ := strings.Cut(name, "/")
	if _, hidden := p.options.Sight.Hidden("serviceaccounts"); hidden {
		return false
	}
	exists := func(name string) bool { a := p.accounts[name]; return a != nil && a.exists }
	return !exists(name) && exists(namespace+"/default")
}

// ruled tells whether it is RBAC that decides what runs under a service account may do.
// Where that account has no binding of its own, another authorizer may be in force, though
// not where the API server made the roles of RBAC
// (k8s.io/kubernetes, pkg/registry/rbac/rest/storage_rbac.go); or it brings credentials
// along, and then needs no other account than the default one.
func (p *Part) ruled(account string) bool {
	_, inForce := p.roles["/cluster-admin"]
	return len(p.bound[account]) > 0 || inForce && !strings.HasSuffix(account, "/default")
}

// readBy are the resources that RBAC lets a service account read, everywhere or in
// a namespace.
func (p *Part) readBy(account, in string) map[string]bool {
	found := map[string]bool{}
	for _, key := range p.bound[account] {
		if b := p.bindings[key]; b.scope == "" || b.scope == in {
			for _, res := range p.reads[b.role] {
				found[res] = true
			}
		}
	}
	return found
}

// goingWith are the names of bindings, given by key, if all of them go with a
// namespace, as far as no finalizer keeps them there.
func (p *Part) goingWith(namespace string, bindings map[string]bool) []string {
	var names []string
	for key := range bindings {
		in, name, _ := strings.Cut(key, "/")
		if namespace == "" || in != namespace || p.Holds("rolebindings"+rbacGroup, types.NamespacedName{Namespace: in, Name: name}) {
			return nil
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
