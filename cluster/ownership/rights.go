package ownership

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// rightsOf are the roles and bindings, by key, that give a service account, as
// "namespace/name", the right to take finalizers off a resource: in one namespace,
// or, where that is "", in those of which verdictKey says that they do not matter.
func (p *Part) rightsOf(account, res, in string) (roles, bindings map[string]bool) {
	namespace, _, _ := strings.Cut(account, "/")
	custom := p.definitions[res]
	roles, bindings = map[string]bool{}, map[string]bool{}
	for _, subject := range []string{account, "system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"} {
		for _, key := range p.bound[subject] {
			b := p.bindings[key]
			for _, g := range p.roles[b.role] {
				// Of a custom resource, no subresource takes metadata
				// (k8s.io/apiextensions-apiserver, pkg/registry/customresource/status_strategy.go);
				// of others, some do.
				if !g.covers(res) || custom && g.subresource != "" {
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
	all := map[string]bool{}
	for _, wl := range j.workloads {
		_, bindings := p.rightsOf(wl.account, key.resource, key.namespace)
		for binding := range bindings {
			all[binding] = true
		}
	}
	// Where they all go with that namespace themselves, that is told of them.
	if slices.ContainsFunc(j.workloads, func(wl workload) bool { return wl.namespace != key.namespace }) {
		j.bindings = p.goingWith(key.namespace, all)
	}
	return j
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
