package cluster

import (
	"cmp"
	"slices"
	"strings"
)

// remover is something without which a finalizer is not removed.
type remover struct {
	namespace string // "" for what has none
	what      string // "RESOURCE/NAME"
}

// keepRemovers puts a verdict where those are found on whom the removal of its
// finalizer rests, and takes it away where it no longer rests on them.
func (w *World) keepRemovers(v *verdict, removers []remover) {
	if slices.Equal(removers, v.removers) {
		return
	}
	path := func(r remover) []string {
		return []string{"removers", r.namespace, r.what, v.key.finalizer, v.key.resource, v.key.evidence}
	}
	for _, r := range v.removers {
		prune(w.doc, path(r)...)
	}
	for _, r := range removers {
		path := path(r)
		child(w.doc, path[:len(path)-1]...)[path[len(path)-1]] = true
	}
	v.removers = removers
}

// removersOf are those on whom the removal of a finalizer rests, as far as
// known: the namespace of the workloads that do it, a workload that does it
// alone, their service account, and the role and binding that alone give it the
// right to.
func (w *World) removersOf(v *verdict) []remover {
	workloads, _ := v.facts["workloads"].([]any)
	if w.options.manifests || v.facts["state"] != Alive || len(workloads) == 0 {
		return nil // what goes together with manifests is for policies of sets to tell
	}
	accounts, _ := v.facts["accounts"].([]any)
	namespaces := map[string]bool{}
	var resource, namespace, name string
	for _, wl := range workloads {
		wl, _ := wl.(map[string]any)
		resource, _ = wl["resource"].(string)
		namespace, _ = wl["namespace"].(string)
		name, _ = wl["name"].(string)
		namespaces[namespace] = true
	}
	if len(namespaces) > 1 {
		return nil // whatever goes, another remains
	}
	removers := []remover{{namespace, "namespaces/" + namespace}}
	if len(workloads) == 1 {
		removers = append(removers, remover{namespace, resource + "/" + name})
	}
	if len(accounts) == 1 {
		account, _ := accounts[0].(string)
		removers = append(removers, remover{namespace, "serviceaccounts/" + account})
		removers = append(removers, w.onlyGrants(namespace, account, v.key.resource, v.key.namespace)...)
	}
	return removers
}

// onlyGrants are the role and the binding on which the right of a service
// account rests to take finalizers off a resource, each where there is no
// other: in one namespace, or, where that is "", in those of which verdictKey
// says that they do not matter.
func (w *World) onlyGrants(namespace, name, res, in string) []remover {
	for _, kind := range []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"} {
		if _, hidden := w.unseen[kind+rbacGroup]; hidden {
			return nil // another may be there
		}
	}
	custom := w.custom(res)
	roles, bindings := map[string]bool{}, map[string]bool{}
	for _, subject := range []string{namespace + "/" + name, "system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"} {
		for _, key := range w.bound[subject] {
			b := w.bindings[key]
			for _, g := range w.roles[b.role] {
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
func accountsOf(workloads []workload) []any {
	var names []string
	for _, wl := range workloads {
		_, name, _ := strings.Cut(wl.account, "/")
		names = append(names, name)
	}
	slices.Sort(names)
	return anys(slices.Compact(names))
}
