package ownership

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/learned"
)

// grant is the permission to update a resource.
type grant struct {
	resource    string // "plural.group" or "*.group"; "*" for the group if wide
	subresource string
	verbs       []string // update and patch
	// wide says that the grant does not show who controls the resource.
	wide bool
}

// covers reports whether a grant includes a resource.
func (g grant) covers(res string) bool {
	plural, group, _ := strings.Cut(res, ".")
	granted, in, _ := strings.Cut(g.resource, ".")
	return (granted == "*" || granted == plural) && (in == "*" || in == group)
}

// binding gives a role to service accounts.
type binding struct {
	role     string // as the key of Part.roles
	scope    string // its namespace; "" for all
	accounts []string
	groups   []string // of users
	users    []string // other users than service accounts
}

// grantee is a service account that may update a resource.
type grantee struct {
	account string
	scope   string
	// controls says that it may also write the resource's status or finalizers subresource, as its controller
	// does and a mere user does not.
	controls bool
	// whole says that a wildcard gives it all resources of the group. That shows who may, not who does:
	// Cluster API's core may update all resources of infrastructure, bootstrap and control plane providers,
	// and handles none (sigs.k8s.io/cluster-api:config/rbac/role.yaml).
	whole bool
}

// builtinRoles grant so much to so many that they do not show who controls a resource (k8s.io/kubernetes,
// plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go).
var builtinRoles = map[string]bool{"/cluster-admin": true, "/admin": true, "/edit": true, "/view": true}

// KeepRole adds the grants of a Role.
func (p *Part) KeepRole(o *rbacv1.Role) bool {
	return p.keepRole(o.Namespace+"/"+o.Name, o.Labels, o.Rules)
}

// KeepClusterRole is KeepRole for a ClusterRole.
func (p *Part) KeepClusterRole(o *rbacv1.ClusterRole) bool {
	return p.keepRole("/"+o.Name, o.Labels, o.Rules)
}

// ForgetRole undoes KeepRole and KeepClusterRole.
func (p *Part) ForgetRole(key types.NamespacedName) {
	delete(p.roles, key.Namespace+"/"+key.Name)
	delete(p.powers, key.Namespace+"/"+key.Name)
	delete(p.tells, key.Namespace+"/"+key.Name)
	p.grantsDirty = true
}

// KeepRoleBinding adds the holders of a role.
func (p *Part) KeepRoleBinding(o *rbacv1.RoleBinding) bool {
	return p.keepBinding(o.Namespace, o.Name, o.RoleRef, o.Subjects)
}

// KeepClusterRoleBinding is KeepRoleBinding for a ClusterRoleBinding.
func (p *Part) KeepClusterRoleBinding(o *rbacv1.ClusterRoleBinding) bool {
	return p.keepBinding("", o.Name, o.RoleRef, o.Subjects)
}

// ForgetBinding undoes KeepRoleBinding and KeepClusterRoleBinding.
func (p *Part) ForgetBinding(key types.NamespacedName) {
	delete(p.bindings, key.Namespace+"/"+key.Name)
	p.grantsDirty = true
}

func (p *Part) keepRole(name string, labels map[string]string, rules []rbacv1.PolicyRule) bool {
	p.grantsDirty = true
	builtin := builtinRoles[name] || labels["kubernetes.io/bootstrapping"] == "rbac-defaults"
	var grants []grant
	delete(p.powers, name)
	delete(p.tells, name)
	for _, rule := range rules {
		if told := tells(rule); len(told) > 0 {
			p.tells[name] = append(p.tells[name], told...)
		}
		if powers := acting(rule); len(powers) > 0 {
			p.powers[name] = append(p.powers[name], powers...)
		}
		verbs := writing(rule.Verbs)
		if len(verbs) == 0 {
			continue
		}
		for _, group := range rule.APIGroups {
			for _, res := range rule.Resources {
				plural, sub, _ := strings.Cut(res, "/")
				// A wildcard over groups, or over the core group, amounts to cluster-admin.
				wide := builtin || group == "*" || (plural == "*" && group == "") || (sub != "" && sub != "status" && sub != "finalizers" && sub != "*")
				gr := schema.GroupResource{Group: group, Resource: plural}.String()
				if plural == "*" && sub == "" || sub == "*" {
					grants = append(grants, grant{resource: gr, verbs: verbs, wide: wide}, grant{resource: gr, subresource: "status", verbs: verbs, wide: wide})
					continue
				}
				grants = append(grants, grant{resource: gr, subresource: sub, verbs: verbs, wide: wide})
			}
		}
	}
	p.roles[name] = grants
	return true
}

// writing returns the verbs that change an object.
func writing(verbs []string) []string {
	if slices.Contains(verbs, "*") {
		return []string{"update", "patch"}
	}
	return slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return v != "update" && v != "patch" })
}

func (p *Part) keepBinding(namespace, name string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) bool {
	b := binding{role: "/" + ref.Name, scope: namespace}
	if ref.Kind == "Role" {
		b.role = namespace + "/" + ref.Name
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
	p.bindings[namespace+"/"+name] = b
	p.grantsDirty = true
	return true
}

// indexGrants indexes who may update what.
func (p *Part) indexGrants(yield func()) {
	type holder struct{ account, scope string }
	type rights struct{ main, controls bool }
	index := map[string]map[holder]rights{}
	bound, writers, apart := map[string][]string{}, map[string][]string{}, map[string]bool{}
	for name, b := range p.bindings {
		yield()
		subjects := slices.Concat(b.accounts, b.groups, b.users)
		for _, subject := range subjects {
			bound[subject] = append(bound[subject], name)
		}
		for _, told := range p.tells[b.role] {
			if b.scope != "" {
				writers[told+"/"+b.scope] = append(writers[told+"/"+b.scope], subjects...)
			}
		}
		for _, g := range p.roles[b.role] {
			apart[b.scope] = apart[b.scope] || g.wide && len(b.accounts) > 0 || slices.ContainsFunc(b.groups, ofAccounts)
			if g.wide {
				continue
			}
			if index[g.resource] == nil {
				index[g.resource] = map[holder]rights{}
			}
			for _, account := range b.accounts {
				h := holder{account, b.scope}
				r := index[g.resource][h]
				r.main = r.main || g.subresource == ""
				r.controls = r.controls || g.subresource != ""
				index[g.resource][h] = r
			}
		}
	}
	grantees := map[string]map[string][]grantee{}
	for res, holders := range index {
		yield()
		for h, r := range holders {
			if r.main {
				if grantees[res] == nil {
					grantees[res] = map[string][]grantee{}
				}
				grantees[res][h.scope] = append(grantees[res][h.scope], grantee{account: h.account, scope: h.scope, controls: r.controls, whole: plural(res) == "*"})
			}
		}
		for _, list := range grantees[res] {
			slices.SortFunc(list, byAccount)
		}
	}
	narrow := map[string]bool{}
	for _, wl := range p.workloads {
		if wl.outlook != "" {
			narrow[wl.account] = true
		}
	}
	p.bound, p.writers, p.apart, p.grantees, p.narrow = bound, writers, apart, grantees, narrow
}

// mayUpdate returns the service accounts with their own grant to update a resource in a namespace.
func (p *Part) mayUpdate(res, namespace string) []grantee {
	var found []grantee
	for _, covering := range covering(res) {
		all := p.grantees[covering][""]
		if namespace != "" {
			all = slices.SortedFunc(slices.Values(slices.Concat(all, p.grantees[covering][namespace])), byAccount)
		}
		found = append(found, all...)
	}
	return found
}

// scope returns the namespace if it affects who may update a resource there, watches it, or was seen to
// remove a finalizer there, else "".
func (p *Part) scope(finalizer, res, namespace string) string {
	matters := p.local[learned.Lesson{Finalizer: finalizer, Resource: res, Namespace: namespace}] || p.apart[namespace]
	for _, covering := range covering(res) {
		of := p.grantees[covering]
		matters = matters || len(of[namespace]) > 0 || len(p.narrow) > 0 && slices.ContainsFunc(of[""], func(g grantee) bool { return p.narrow[g.account] })
	}
	if !matters || p.builtIn(verdictKey{finalizer: finalizer, resource: res}) {
		return ""
	}
	return namespace
}

// covering returns the keys of grantees for a resource.
func covering(res string) [2]string { return [2]string{res, "*" + res[len(plural(res)):]} }

func byAccount(a, b grantee) int {
	return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.scope, b.scope))
}

// asUser distinguishes a user from a group of the same name.
func asUser(name string) string { return "user " + name }

// UpdatesEverywhere reports whether a user, or one of its groups, may update a resource in all namespaces. It
// only reads.
func (p *Part) UpdatesEverywhere(user string, groups []string, resource string) bool {
	subjects := append([]string{cmp.Or(learned.Account(user), asUser(user))}, groups...)
	return some(p.granting(subjects, "", func(role string) bool {
		return slices.ContainsFunc(p.roles[role], func(g grant) bool { return g.subresource == "" && g.covers(resource) })
	}))
}

func plural(res string) string {
	p, _, _ := strings.Cut(res, ".")
	return p
}
