package facts

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// builtin has a line for each built-in kind: plural, preferred version, namespaced, kind, short names. Kinds
// after "# past" occur in old manifests only. TestBuiltin, in test/lab, compares it to an API server.
//
//go:embed builtin.txt
var builtin string

// Kind is a built-in kind.
type Kind struct {
	Resource
	Kind  string
	Short []string
	Past  bool // no longer served
}

// Builtin returns the built-in kinds, which must not be changed.
var Builtin = sync.OnceValue(func() (kinds []Kind) {
	past := false
	for line := range strings.Lines(builtin) {
		columns := strings.Fields(line)
		if len(columns) < 4 {
			past = past || strings.HasPrefix(line, "# past")
			continue
		}
		gv, _ := schema.ParseGroupVersion(columns[1])
		k := Kind{Resource: Resource{gv.WithResource(columns[0]), columns[2] == "true"}, Kind: columns[3], Past: past}
		if len(columns) > 4 {
			k.Short = strings.Split(columns[4], ",")
		}
		kinds = append(kinds, k)
	}
	return kinds
})

var scoped = sync.OnceValue(func() map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, k := range Builtin() {
		kinds[schema.GroupKind{Group: k.Group, Kind: k.Kind}] = k.Namespaced
	}
	return kinds
})

// Namespaced reports whether a built-in kind is namespaced; true for unknown kinds, as most are.
func Namespaced(kind schema.GroupKind) bool {
	namespaced, ok := scoped()[kind]
	return namespaced || !ok
}

// BuiltinGroups returns the API groups that Kubernetes serves or served, which must not be changed.
var BuiltinGroups = sync.OnceValue(func() []string {
	groups := []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}
	for _, gv := range clientscheme.Scheme.PrioritizedVersionsAllGroups() {
		groups = append(groups, gv.Group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
})
