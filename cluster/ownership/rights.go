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

// admits reports whether an account's workloads are evidence: users may give workloads in their own namespace
// any name and image.
func (p *Part) admits(q *question, account string) bool {
	if p.options.Manifests || q.names(facts.NamespaceOf(account)) || p.mayRemove(subjectsOf(account), q.verdictKey) || p.impersonates(account, q.namespace) {
		return true
	}
	if !p.rbacInForce() && len(p.bindingsOf[account]) == 0 { // as in rbacDecides
		q.unread = account
	}
	return false
}

// lookalike returns a workload without the right that is likely the owner: the catalog's, or one named like a
// manager of the finalizer or status. Users can fake both, unless administrators trust it: then a lease named
// after the API group suffices.
func (p *Part) lookalike(q *question) (like workload, trusted bool) {
	workloads := q.namesakes
	if !q.named && q.custom {
		managers := slices.DeleteFunc(slices.Concat(q.object.managers, q.object.status), catalog.Generic)
		holders := map[string]bool{}
		for _, l := range p.leasesNamed(facts.GroupOf(q.resource)) {
			if key, pod := p.holder(l); pod != nil && p.serves(key.Namespace, pod.Value) && p.trustedByAdmins(q, pod.Value.account) {
				holders[pod.Value.account] = true
			}
		}
		workloads = p.workloadsWhere(func(wl workload) bool {
			by := holders[wl.account] || slices.Contains(managers, wl.name) || slices.ContainsFunc(wl.images, func(image string) bool { return slices.Contains(managers, image) })
			return by && wl.replicas > 0 && p.up(wl) && p.rbacDecides(wl.account) && !p.mayRemove(subjectsOf(wl.account), q.verdictKey) && !p.impersonates(wl.account, q.namespace)
		})
	}
	for _, wl := range workloads {
		if p.trustedByAdmins(q, wl.account) {
			return wl, true
		}
		if like.name == "" {
			like = wl
		}
	}
	return like, false
}

// trustedByAdmins reports whether an account has a right to the API group in the whole cluster, or had by a
// deleted role: no tenant can give it.
func (p *Part) trustedByAdmins(q *question, account string) bool {
	group := facts.GroupOf(q.resource)
	return strings.Contains(group, ".") && p.servesDriver(q, account) && slices.ContainsFunc(p.bindingsOf[account], func(key types.NamespacedName) bool {
		r, exists := p.roles[p.bindings[key].role]
		return key.Namespace == "" && (!exists || slices.ContainsFunc(r.grants, func(g grant) bool { return !g.wide && facts.GroupOf(g.resource) == group }))
	})
}

func (q *question) names(namespace string) bool {
	return slices.ContainsFunc(q.entry.Workloads, func(w catalog.Workload) bool { return w.Namespace == namespace })
}

// doubts reports whether a workload matches the catalog only by the end of its name.
func (q *question) doubts(wl workload) bool {
	return !slices.ContainsFunc(q.entry.Workloads, func(w catalog.Workload) bool {
		return w.Matches(wl.kind, wl.namespace, wl.name, wl.images) && !w.Doubtful(wl.name, wl.images)
	})
}

func (p *Part) mayRemove(subjects []string, key verdictKey) bool {
	return anyOf(p.rolesWhere(subjects, key.namespace, p.letsRemove(key.resource)))
}

func (p *Part) rightsOf(account, res, in string) (roles, bindings map[types.NamespacedName]bool) {
	return collected(p.rolesWhere(subjectsOf(account), in, p.letsRemove(res)))
}

func (p *Part) letsRemove(res string) func(role) bool {
	custom := p.Defined(res)
	// Subresources of custom resources do not change metadata (k8s.io/apiextensions-apiserver,
	// pkg/registry/customresource/status_strategy.go); some of others do, but a Scale has its own metadata.
	return func(r role) bool {
		return slices.ContainsFunc(r.grants, func(g grant) bool {
			return g.covers(res) && g.subresource != "scale" && (!custom || g.subresource == "")
		})
	}
}

// rolesWhere yields the roles that is selects, with their bindings, for a namespace, "" for all.
func (p *Part) rolesWhere(subjects []string, in string, is func(role) bool) iter.Seq2[types.NamespacedName, types.NamespacedName] {
	return func(yield func(role, binding types.NamespacedName) bool) {
		for _, subject := range subjects {
			for _, key := range p.bindingsOf[subject] {
				if b := p.bindings[key]; (b.scope == "" || b.scope == in) && is(p.roles[b.role]) && !yield(b.role, key) {
					return
				}
			}
		}
	}
}

func anyOf(granted iter.Seq2[types.NamespacedName, types.NamespacedName]) bool {
	for range granted {
		return true
	}
	return false
}

func collected(granted iter.Seq2[types.NamespacedName, types.NamespacedName]) (roles, bindings map[types.NamespacedName]bool) {
	roles, bindings = map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	for role, binding := range granted {
		roles[role], bindings[binding] = true, true
	}
	return roles, bindings
}

// accountGroups is the prefix of groups with only service accounts; everybody is the group of all users.
const accountGroups, everybody = "system:serviceaccounts", "system:authenticated"

func subjectsOf(subject string) []string {
	namespace, _, account := strings.Cut(subject, "/")
	if !account || strings.ContainsAny(namespace, " :") {
		return []string{subject, everybody}
	}
	return []string{subject, accountGroups, accountGroups + ":" + namespace, everybody}
}

func ofAccounts(group string) bool {
	return group == everybody || group == accountGroups || strings.HasPrefix(group, accountGroups+":")
}

// WorksElsewhere reports whether a workload in a namespace may write objects in others, or that is hidden.
func (p *Part) WorksElsewhere(namespace string) bool {
	return len(p.workloadsWhere(func(wl workload) bool {
		return wl.namespace == namespace && (p.hidesGrants() || slices.ContainsFunc(p.bindingsOf[wl.account], func(key types.NamespacedName) bool {
			return key.Namespace != namespace && len(p.roles[p.bindings[key].role].grants) > 0
		}))
	})) > 0
}

// anyMay reports whether any workload may remove finalizers, running or starting; true if that is unknown.
func (p *Part) anyMay(key verdictKey) bool {
	if p.hidesGrants() || p.blind() != "" {
		return true
	}
	may := func(account string) bool { return p.mayRemove(subjectsOf(account), key) }
	return slices.ContainsFunc(slices.Collect(maps.Keys(p.podsOf)), may) ||
		len(p.workloadsWhere(func(wl workload) bool { return wl.replicas > 0 && p.exists(wl.account) && may(wl.account) })) > 0
}

func (p *Part) hidesGrants() bool { return p.hidden(grantInputs...) != "" }

func (p *Part) withRights(q *question, j judgement) judgement {
	if p.options.Manifests || j.state != Alive || len(j.workloads) == 0 || p.hidesGrants() {
		return j
	}
	accounts := accountsFor(q, j)
	if !slices.ContainsFunc(accounts, func(account string) bool { return !p.goneAccount(account) }) {
		return j.is(Barred, q.certain(j), "service account %s does not exist, so the tokens of its pods are refused", accounts[0])
	}
	all := map[types.NamespacedName]bool{}
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
	// If all workloads are deleted with that namespace, removersOf covers it.
	if slices.ContainsFunc(j.workloads, func(wl workload) bool { return wl.namespace != q.namespace }) {
		j.bindings = p.goingWith(q.namespace, all)
	}
	return j
}

func accountsFor(q *question, j judgement) []string {
	var accounts []string
	for _, wl := range slices.Concat(j.workloads, q.matched) {
		accounts = append(accounts, wl.account)
	}
	slices.Sort(accounts)
	return slices.Compact(accounts)
}

// bar marks a running owner as barred if no running account has the right: certainly if the catalog knows it
// to run in the cluster, with its own binding.
func (p *Part) bar(q *question, j judgement, accounts []string) judgement {
	if slices.ContainsFunc(p.mayUpdate(q.resource, q.namespace), func(g grantee) bool {
		return p.readyPod(g.account) != ""
	}) {
		return j
	}
	certain := q.certain(j)
	for _, account := range accounts {
		if p.impersonates(account, q.namespace) || !p.rbacDecides(account) {
			return j // it may have its rights from elsewhere
		}
		certain = certain && len(p.bindingsOf[account]) > 0
	}
	return barredBy(q, j, j.workloads[0].account, certain)
}

func barredBy(q *question, j judgement, account string, certain bool) judgement {
	where := ""
	if q.namespace != "" {
		where = " in namespace " + q.namespace
	}
	j.barred, j.resource = account, q.resource
	return j.is(Barred, certain, "no role lets service account %s update or patch %s%s", account, q.resource, where)
}

const leases = "leases.coordination.k8s.io"

// withElections marks a running owner as barred if no role lets it renew its leader election's lease: it
// waits, and is ready. That is uncertain: a lease stays when a new release stops electing.
func (p *Part) withElections(j judgement) judgement {
	var lost lease
	var account string
	for _, wl := range j.workloads {
		l, elects := p.election(wl)
		if !elects || !p.rbacDecides(wl.account) {
			return j
		}
		if p.mayRemove(subjectsOf(wl.account), verdictKey{resource: leases, namespace: l.namespace}) || p.impersonates(wl.account, l.namespace) {
			return j
		}
		lost, account = l, wl.account
	}
	j.barred, j.resource, j.lease = account, leases, lost.String()
	return j.is(Barred, false, "no role lets service account %s update leases in namespace %s, and it elects its leader by lease %s", account, lost.namespace, lost)
}

// certain reports whether the catalog knows the running software as the owner.
func (q *question) certain(j judgement) bool {
	return q.catalogued && q.entry.Component == catalog.InCluster && j.hearsay == ""
}

// goneAccount reports whether an account certainly does not exist: its namespace has the default one.
func (p *Part) goneAccount(name string) bool {
	namespace, _, _ := strings.Cut(name, "/")
	return p.hidden("serviceaccounts") == "" && !p.exists(name) && p.exists(namespace+"/default")
}

// rbacDecides reports whether RBAC decides an account's rights. Without its own binding, another authorizer
// may, unless RBAC is in force; or the workload has its own credentials, and then uses the default account.
func (p *Part) rbacDecides(account string) bool {
	return len(p.bindingsOf[account]) > 0 || p.rbacInForce() && !strings.HasSuffix(account, "/default")
}

func (p *Part) impersonates(account, in string) bool {
	return anyOf(p.rolesWhere(subjectsOf(account), in, func(r role) bool {
		return !r.broad && slices.ContainsFunc(r.powers, func(g grant) bool {
			return (g.covers("serviceaccounts") || g.covers("users")) && slices.Contains(g.verbs, "impersonate")
		})
	}))
}

// goingWith returns the names of bindings if all are deleted with a namespace, and no finalizer keeps them.
func (p *Part) goingWith(namespace string, bindings map[types.NamespacedName]bool) []string {
	var names []string
	for key := range bindings {
		if namespace == "" || key.Namespace != namespace || p.Holds("rolebindings"+rbacGroup, key) {
			return nil
		}
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return names
}
