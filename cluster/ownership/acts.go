package ownership

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/facts"
)

// Right is a role or binding.
type Right struct{ Resource, Namespace, Name string }

// Acts counts possible changes of Actors, Resource and Lets.
func (p *Part) Acts() int { return p.acts }

// Actors returns the service accounts of the catalog's workloads that remove a finalizer.
func (p *Part) Actors(finalizer, resource, namespace string) []string {
	return accountsFor(p.questionOf(verdictKey{finalizer: finalizer, resource: resource, namespace: namespace}, evidence{}), judgement{})
}

// Resource returns the resource of a kind, "" if unknown.
func (p *Part) Resource(kind schema.GroupKind) string {
	if defined := p.kinds[strings.ToLower(kind.String())]; defined != "" {
		return defined
	}
	for _, k := range facts.Builtin() {
		if k.Group == kind.Group && k.Kind == kind.Kind && !k.Past {
			return k.GroupResource().String()
		}
	}
	return ""
}

// Defined reports whether a resource is custom.
func (p *Part) Defined(resource string) bool { return p.definition(resource).kind != "" }

// Lets reports whether RBAC gives an account a verb on all of a resource's objects in a namespace, and the
// only role and binding for it. ok is false if something else may allow it.
func (p *Part) Lets(account, verb, resource, namespace string) (lets, ok bool, only []Right) {
	if p.options.Manifests || p.hidesGrants() || !p.rbacInForce() && len(p.bindingsOf[account]) == 0 {
		return false, false, nil
	}
	roles, bindings := collected(p.rolesWhere(subjectsOf(account), namespace, func(r role) bool {
		return slices.ContainsFunc(r.powers, func(g grant) bool { return g.covers(resource) && slices.Contains(g.verbs, verb) })
	}))
	for _, r := range sole(roles, bindings) {
		kind, name, _ := strings.Cut(r.what, "/")
		only = append(only, Right{kind, r.namespace, name})
	}
	return len(bindings) > 0, true, only
}

// Candid reports whether all subjects with a right to write Events in a namespace alone may also update a
// resource there: their Events then claim no more than they could do.
func (p *Part) Candid(resource, namespace string) bool {
	return p.onlyWriters("events", namespace, verdictKey{resource: resource, namespace: namespace})
}

// reports are resources about others, which anyone with a right in one namespace may write.
var reports = map[string][]string{"events": {"", "events.k8s.io"}, "leases": {"coordination.k8s.io"}}

func reportsOf(rule rbacv1.PolicyRule) (resources []string) {
	among := func(list []string, any ...string) bool {
		return slices.ContainsFunc(list, func(item string) bool { return item == "*" || slices.Contains(any, item) })
	}
	for resource, groups := range reports {
		if among(rule.Verbs, "create", "update", "patch") && among(rule.APIGroups, groups...) && among(rule.Resources, resource) {
			resources = append(resources, resource)
		}
	}
	return resources
}

// onlyWriters is Candid for any of reports.
func (p *Part) onlyWriters(resource, namespace string, key verdictKey) bool {
	return !p.options.Manifests && !p.hidesGrants() && !slices.ContainsFunc(p.writers[resource+"/"+namespace], func(subject string) bool {
		return !p.mayRemove(subjectsOf(subject), key)
	})
}
