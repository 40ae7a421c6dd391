package facts

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// builtin has a line for each kind of Kubernetes: plural, preferred version, whether it is
// in namespaces, kind, and the short names that kubectl takes. Behind "# past" stand those
// that only manifests of old have. TestBuiltin, in test/lab, holds it to an API server.
//
//go:embed builtin.txt
var builtin string

// Kind is a kind of object that Kubernetes itself serves.
type Kind struct {
	Resource
	Kind  string
	Short []string
	Past  bool // it is served no longer
}

// Builtin are they: the one table of them. It must not be changed.
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

// scoped tells of the kinds of Kubernetes whether they are in namespaces.
var scoped = sync.OnceValue(func() map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, k := range Builtin() {
		kinds[schema.GroupKind{Group: k.Group, Kind: k.Kind}] = k.Namespaced
	}
	return kinds
})

// Namespaced tells whether objects of a kind of Kubernetes are in namespaces; those that
// nobody knows are, as most are.
func Namespaced(kind schema.GroupKind) bool {
	namespaced, known := scoped()[kind]
	return namespaced || !known
}

// BuiltinGroups are the API groups that Kubernetes itself serves, or did: those that
// client-go knows, and of the API servers behind the first. They must not be changed.
var BuiltinGroups = sync.OnceValue(func() []string {
	groups := []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}
	for _, gv := range clientscheme.Scheme.PrioritizedVersionsAllGroups() {
		groups = append(groups, gv.Group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
})
