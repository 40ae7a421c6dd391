package ownership

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

// admits reports whether what runs under a service account is evidence of who removes a
// finalizer: where RBAC lets that account take it off the objects, or the catalog names its
// namespace. Anybody may give what runs in his own namespace any name and any image.
func (p *Part) admits(q *asked, account string) bool {
	if p.options.Manifests || q.names(facts.NamespaceOf(account)) || p.mayTake(subjectsOf(account), q.verdictKey) || p.impersonates(account, q.namespace) {
		return true
	}
	if _, inForce := p.roles["/cluster-admin"]; !inForce && len(p.bound[account]) == 0 { // as in ruled
		q.unread = account
	}
	return false
}

// bereft is what would be the owner if it had the right, as far as that shows: what the catalog
// means, or, where that knows nobody, what runs by the name of who wrote the finalizer or the
// status. Anybody may have made that, unless it is vouched for: then a lease that is named after
// the API group will do.
func (p *Part) bereft(q *asked) (like workload, vouched bool) {
	found := q.namesakes
	if !q.named && q.custom {
		managers := slices.DeleteFunc(slices.Concat(q.object.managers, q.object.status), catalog.Generic)
		holders := map[string]bool{}
		for _, l := range p.named(groupOf(q.resource)) {
			if key, pod := p.holder(l); pod != nil && p.serves(key.Namespace, pod.Value) && p.vouched(q, pod.Value.account) {
				holders[pod.Value.account] = true
			}
		}
		found = p.workloadsWhere(func(wl workload) bool {
			by := holders[wl.account] || slices.Contains(managers, wl.name) || slices.ContainsFunc(wl.images, func(image string) bool { return slices.Contains(managers, image) })
			return by && p.up(wl) && p.ruled(wl.account) && !p.mayTake(subjectsOf(wl.account), q.verdictKey) && !p.impersonates(wl.account, q.namespace)
		})
	}
	for _, wl := range found {
		if p.vouched(q, wl.account) {
			return wl, true
		}
		if like.name == "" {
			like = wl
		}
	}
	return like, false
}

// vouched reports whether administrators gave an account a right to objects of the API group in
// the whole cluster, as no tenant can: by a role that is gone, or one for others of them.
func (p *Part) vouched(q *asked, account string) bool {
	group := groupOf(q.resource)
	return strings.Contains(group, ".") && p.servesDriver(q, account) && slices.ContainsFunc(p.bound[account], func(key string) bool {
		b := p.bindings[key]
		grants, exists := p.roles[b.role]
		return b.scope == "" && (!exists || slices.ContainsFunc(grants, func(g grant) bool { return !g.wide && groupOf(g.resource) == group }))
	})
}

// names reports whether the catalog names a namespace as one of the owner's.
func (q *asked) names(namespace string) bool {
	return slices.ContainsFunc(q.entry.Workloads, func(w catalog.Workload) bool { return w.Namespace == namespace })
}

// doubts reports whether only the end of its name makes a workload one that the catalog means.
func (q *asked) doubts(wl workload) bool {
	return !slices.ContainsFunc(q.entry.Workloads, func(w catalog.Workload) bool {
		return w.Matches(wl.kind, wl.namespace, wl.name, wl.images) && !w.Doubtful(wl.name, wl.images)
	})
}

// mayTake reports whether RBAC lets one of the subjects of bindings take finalizers off objects.
func (p *Part) mayTake(subjects []string, key verdictKey) bool {
	return some(p.granting(subjects, key.namespace, p.taking(key.resource)))
}

// rightsOf are the roles and bindings, by key, that give a service account, as
// "namespace/name", the right to take finalizers off a resource: in one namespace, or,
// where that is "", in all.
func (p *Part) rightsOf(account, res, in string) (roles, bindings map[string]bool) {
	return collected(p.granting(subjectsOf(account), in, p.taking(res)))
}

// taking are the roles that let take finalizers off a resource.
func (p *Part) taking(res string) func(role string) bool {
	_, custom := p.definitions[res]
	// Of a custom resource, no subresource takes metadata
	// (k8s.io/apiextensions-apiserver, pkg/registry/customresource/status_strategy.go);
	// of others, some do, but a Scale has metadata of its own.
	return func(role string) bool {
		return slices.ContainsFunc(p.roles[role], func(g grant) bool {
			return g.covers(res) && g.subresource != "scale" && (!custom || g.subresource == "")
		})
	}
}

// granting are the roles that are asked for, and the bindings that give them to subjects, by
// key: in one namespace, or, where that is "", in all.
func (p *Part) granting(subjects []string, in string, asked func(role string) bool) iter.Seq2[string, string] {
	return func(yield func(role, binding string) bool) {
		for _, subject := range subjects {
			for _, key := range p.bound[subject] {
				if b := p.bindings[key]; (b.scope == "" || b.scope == in) && asked(b.role) && !yield(b.role, key) {
					return
				}
			}
		}
	}
}

// some reports whether a role is granted.
func some(granted iter.Seq2[string, string]) bool {
	for range granted {
		return true
	}
	return false
}

func collected(granted iter.Seq2[string, string]) (roles, bindings map[string]bool) {
	roles, bindings = map[string]bool{}, map[string]bool{}
	for role, binding := range granted {
		roles[role], bindings[binding] = true, true
	}
	return roles, bindings
}

// accountGroups begins the names of the groups that service accounts alone are in; everybody is
// in the other.
const accountGroups, everybody = "system:serviceaccounts", "system:authenticated"

// subjectsOf are what bindings may name to give a service account rights, or another subject.
func subjectsOf(subject string) []string {
	namespace, _, account := strings.Cut(subject, "/")
	if !account || strings.ContainsAny(namespace, " :") {
		return []string{subject, everybody}
	}
	return []string{subject, accountGroups, accountGroups + ":" + namespace, everybody}
}

// ofAccounts reports whether service accounts are in a group.
func ofAccounts(group string) bool {
	return group == everybody || group == accountGroups || strings.HasPrefix(group, accountGroups+":")
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
		if (wanted[name] || !a.pods.Empty()) && p.mayTake(subjectsOf(name), key) {
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
func (p *Part) withRights(q *asked, j judgement) judgement {
	if p.options.Manifests || j.state != Alive || len(j.workloads) == 0 || p.hidesGrants() {
		return j
	}
	accounts := accountsFor(q, j)
	if !slices.ContainsFunc(accounts, func(account string) bool { return !p.goneAccount(account) }) {
		return j.is(Barred, q.certain(j), "service account %s is gone, so the tokens of its pods are refused", accounts[0])
	}
	all := map[string]bool{}
	for _, account := range accounts {
		_, bindings := p.rightsOf(account, q.resource, q.namespace)
		maps.Copy(all, bindings)
	}
	if len(all) == 0 {
		return p.bar(q, j, accounts)
	}
	if j = p.withElections(j); j.state != Alive {
		return j
	}
	// Where they all go with that namespace themselves, that is told of them.
	if slices.ContainsFunc(j.workloads, func(wl workload) bool { return wl.namespace != q.namespace }) {
		j.bindings = p.goingWith(q.namespace, all)
	}
	return j
}

// accountsFor are the service accounts, as "namespace/name", of all workloads that
// may be the ones that remove a finalizer.
func accountsFor(q *asked, j judgement) []string {
	var found []string
	for _, wl := range slices.Concat(j.workloads, q.matched) {
		found = append(found, wl.account)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// bar says that an owner that is up may not update the object, where RBAC decides what
// those may do who could be it, gives none of them the right, and nobody else runs who has
// it. It is sure of one that the catalog knows to run in the cluster, and that has a
// binding of its own.
func (p *Part) bar(q *asked, j judgement, accounts []string) judgement {
	if slices.ContainsFunc(p.mayUpdate(q.resource, q.namespace), func(g grantee) bool {
		a := p.accounts[g.account]
		return a != nil && p.readyPod(a) != ""
	}) {
		return j
	}
	certain := q.certain(j)
	for _, account := range accounts {
		if p.impersonates(account, q.namespace) || !p.ruled(account) {
			return j // it may well have its rights from elsewhere
		}
		certain = certain && len(p.bound[account]) > 0
	}
	return lacking(q, j, j.workloads[0].account, certain)
}

// lacking says of a judgement that a service account lacks the right.
func lacking(q *asked, j judgement, account string, certain bool) judgement {
	where := ""
	if q.namespace != "" {
		where = " in namespace " + q.namespace
	}
	j.barred, j.resource = account, q.resource
	return j.is(Barred, certain, "no role lets service account %s update or patch %s%s", account, q.resource, where)
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
		if p.mayTake(subjectsOf(wl.account), verdictKey{resource: leases, namespace: l.namespace}) || p.impersonates(wl.account, l.namespace) {
			return j
		}
		lost, account = l, wl.account
	}
	j.barred, j.resource, j.lease = account, leases, lost.String()
	return j.is(Barred, false, "no role lets service account %s update leases in namespace %s, and by lease %s it elects who works", account, lost.namespace, lost)
}

// certain tells whether the catalog knows that what runs here is the owner.
func (q *asked) certain(j judgement) bool {
	return q.catalogued && q.entry.Component == catalog.InCluster && j.hearsay == ""
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

// impersonates reports whether RBAC lets a service account act as others, everywhere or in a
// namespace: what these may, it may, too.
func (p *Part) impersonates(account, in string) bool {
	return some(p.granting(subjectsOf(account), in, func(role string) bool {
		return !builtinRoles[role] && slices.ContainsFunc(p.powers[role], func(g grant) bool {
			return (g.covers("serviceaccounts") || g.covers("users")) && slices.Contains(g.verbs, "impersonate")
		})
	}))
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
