package ownership

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/learned"
)

type grant struct {
	resource    string // "plural.group" or "*.group"; "*" for the group if wide
	subresource string
	verbs       []string
	// wide says that the grant does not show who controls the resource.
	wide bool
}

func (g grant) covers(res string) bool {
	plural, group, _ := strings.Cut(res, ".")
	granted, in, _ := strings.Cut(g.resource, ".")
	return (granted == "*" || granted == plural) && (in == "*" || in == group)
}

type role struct {
	broad   bool // one of broadRoles
	grants  []grant
	powers  []grant  // catalog.ActVerbs on other objects
	watches []string // custom resources, by name
	reports []string // keys of reports
}

type binding struct {
	role     types.NamespacedName
	scope    string // its namespace; "" for all
	accounts []string
	groups   []string
	users    []string
}

type granted struct{ resource, scope string }

type grantee struct {
	account string
	scope   string
	// controls says that it may also write the status or finalizers subresource, unlike a mere user.
	controls bool
	// whole says that a wildcard gives it the group. It may be no owner: Cluster API's core handles none of
	// its providers' resources (sigs.k8s.io/cluster-api:config/rbac/role.yaml).
	whole bool
}

// broadRoles are granted to too many to show who controls a resource (k8s.io/kubernetes,
// plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go).
var broadRoles = []string{"cluster-admin", "admin", "edit", "view"}

// rbacInForce reports whether the API server created RBAC's roles (k8s.io/kubernetes,
// pkg/registry/rbac/rest/storage_rbac.go).
func (p *Part) rbacInForce() bool {
	_, there := p.roles[types.NamespacedName{Name: "cluster-admin"}]
	return there
}

func roleOf(m metav1.Object, rules []rbacv1.PolicyRule) (r role, kept bool) {
	r.broad = m.GetNamespace() == "" && slices.Contains(broadRoles, m.GetName())
	builtin := r.broad || m.GetLabels()["kubernetes.io/bootstrapping"] == "rbac-defaults"
	for _, rule := range rules {
		r.reports = append(r.reports, reportsOf(rule)...)
		updates, acts := among(rule.Verbs, "update", "patch"), among(rule.Verbs, catalog.ActVerbs...)
		for _, group := range rule.APIGroups {
			for _, res := range rule.Resources {
				plural, sub, _ := strings.Cut(res, "/")
				resource := schema.GroupResource{Group: group, Resource: plural}.String()
				if sub == "" && len(acts) > 0 {
					r.powers = append(r.powers, grant{resource: resource, verbs: acts}) // a rule for some names counts for all
				}
				if len(among(rule.Verbs, "watch")) > 0 && sub == "" && plural != "*" && strings.Contains(group, ".") && facts.Custom(group) {
					r.watches = append(r.watches, resource)
				}
				if len(updates) == 0 {
					continue
				}
				// A wildcard over groups, or over the core group, amounts to cluster-admin.
				wide := builtin || group == "*" || (plural == "*" && group == "") || (sub != "" && sub != "status" && sub != "finalizers" && sub != "*")
				g := grant{resource: resource, subresource: sub, verbs: updates, wide: wide}
				if plural == "*" && sub == "" || sub == "*" {
					g.subresource = ""
					r.grants = append(r.grants, g)
					g.subresource = "status"
				}
				r.grants = append(r.grants, g)
			}
		}
	}
	return r, true
}

func among(verbs []string, list ...string) []string {
	if slices.Contains(verbs, "*") {
		return list
	}
	return slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return !slices.Contains(list, v) })
}

func bindingOf(namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) (b binding, kept bool) {
	b = binding{role: types.NamespacedName{Name: ref.Name}, scope: namespace}
	if ref.Kind == "Role" {
		b.role.Namespace = namespace
	}
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			b.accounts = append(b.accounts, cmp.Or(s.Namespace, namespace)+"/"+s.Name)
		case rbacv1.UserKind:
			if account, ok := strings.CutPrefix(s.Name, "system:serviceaccount:"); ok {
				b.accounts = append(b.accounts, strings.Replace(account, ":", "/", 1))
			} else {
				b.users = append(b.users, asUser(s.Name))
			}
		case rbacv1.GroupKind:
			b.groups = append(b.groups, s.Name)
		}
	}
	return b, true
}

func (p *Part) indexGrants(yield func()) {
	type rights struct{ main, controls bool }
	index := map[granted]map[string]rights{}
	bindingsOf, writers, special := map[string][]types.NamespacedName{}, map[string][]string{}, map[string]bool{}
	for name, b := range p.bindings {
		yield()
		subjects := slices.Concat(b.accounts, b.groups, b.users)
		for _, subject := range subjects {
			bindingsOf[subject] = append(bindingsOf[subject], name)
		}
		for _, report := range p.roles[b.role].reports {
			if b.scope != "" {
				writers[report+"/"+b.scope] = append(writers[report+"/"+b.scope], subjects...)
			}
		}
		for _, g := range p.roles[b.role].grants {
			special[b.scope] = special[b.scope] || g.wide && len(b.accounts) > 0 || slices.ContainsFunc(b.groups, ofAccounts)
			if g.wide {
				continue
			}
			at := granted{g.resource, b.scope}
			if index[at] == nil {
				index[at] = map[string]rights{}
			}
			for _, account := range b.accounts {
				r := index[at][account]
				index[at][account] = rights{r.main || g.subresource == "", r.controls || g.subresource != ""}
			}
		}
	}
	grantees := map[granted][]grantee{}
	for at, holders := range index {
		yield()
		for account, r := range holders {
			if r.main {
				grantees[at] = append(grantees[at], grantee{account: account, scope: at.scope, controls: r.controls, whole: strings.HasPrefix(at.resource, "*")})
			}
		}
		slices.SortFunc(grantees[at], byAccount)
	}
	narrow := map[string]bool{}
	for _, wl := range p.workloadsWhere(func(wl workload) bool { return wl.outlook != "" }) {
		narrow[wl.account] = true
	}
	p.bindingsOf, p.writers, p.special, p.grantees, p.narrow = bindingsOf, writers, special, grantees, narrow
}

func (p *Part) mayUpdate(res, namespace string) []grantee {
	var grantees []grantee
	for _, covering := range covering(res) {
		all := p.grantees[granted{covering, ""}]
		if namespace != "" {
			all = slices.SortedFunc(slices.Values(slices.Concat(all, p.grantees[granted{covering, namespace}])), byAccount)
		}
		grantees = append(grantees, all...)
	}
	return grantees
}

// scope returns the namespace if rights, watches or observed removals differ there, else "".
func (p *Part) scope(finalizer, res, namespace string) string {
	matters := p.local[learned.Scope{Finalizer: finalizer, Resource: res, Namespace: namespace}] || p.special[namespace]
	for _, covering := range covering(res) {
		matters = matters || len(p.grantees[granted{covering, namespace}]) > 0 || len(p.narrow) > 0 && slices.ContainsFunc(p.grantees[granted{covering, ""}], func(g grantee) bool { return p.narrow[g.account] })
	}
	if !matters || p.builtIn(verdictKey{finalizer: finalizer, resource: res}) {
		return ""
	}
	return namespace
}

func covering(res string) [2]string {
	return [2]string{res, schema.GroupResource{Group: facts.GroupOf(res), Resource: "*"}.String()}
}

func byAccount(a, b grantee) int {
	return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.scope, b.scope))
}

// asUser distinguishes a user from a group of the same name.
func asUser(name string) string { return "user " + name }

// UpdatesEverywhere reports whether a user, or one of its groups, may update a resource in all namespaces.
func (p *Part) UpdatesEverywhere(user string, groups []string, resource string) bool {
	subjects := append([]string{cmp.Or(learned.Account(user), asUser(user))}, groups...)
	return anyOf(p.rolesWhere(subjects, "", func(r role) bool {
		return slices.ContainsFunc(r.grants, func(g grant) bool { return g.subresource == "" && g.covers(resource) })
	}))
}
