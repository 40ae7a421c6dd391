package facts

import (
	"slices"
	"sync"

	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// BuiltinGroups are the API groups that Kubernetes itself serves. They must not be
// changed.
func BuiltinGroups() []string { return builtinGroups() }

var builtinGroups = sync.OnceValue(func() []string {
	groups := []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}
	for _, gv := range clientscheme.Scheme.PrioritizedVersionsAllGroups() {
		groups = append(groups, gv.Group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
})
