package cluster

import (
	"slices"
	"strings"
)

// keepRemovers puts a verdict where those are found on whom the removal of its
// finalizer rests, as far as known, or takes it away: in the namespace of the
// workloads, for each workload that does it alone, and for their service account.
// It goes by the facts of the verdict, which know them as they were.
func (w *World) keepRemovers(v *verdict, on bool) {
	workloads, _ := v.facts["workloads"].([]any)
	if w.options.manifests || v.facts["state"] != Alive || len(workloads) == 0 {
		return // what goes together with manifests is for policies of sets to tell
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
		return // whatever goes, another remains
	}
	ends := []string{"namespaces/" + namespace}
	if len(workloads) == 1 {
		ends = append(ends, resource+"/"+name)
	}
	if account, _ := accounts[0].(string); len(accounts) == 1 {
		ends = append(ends, "serviceaccounts/"+account)
	}
	for _, end := range ends {
		path := []string{"removers", namespace, end, v.key.finalizer, v.key.resource, v.key.evidence}
		if on {
			child(w.doc, path[:len(path)-1]...)[path[len(path)-1]] = true
		} else {
			prune(w.doc, path...)
		}
	}
}

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
