package refusals

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed scopes.txt
var scopes string

// inNoNamespace reports whether a kind is certainly cluster-scoped: manifests with a webhook often lack the
// definitions of its resources.
func inNoNamespace(group, resource string) bool {
	for line := range strings.Lines(scopes) {
		if plurals, of := strings.CutPrefix(line, group+" "); of {
			return slices.Contains(strings.Fields(plurals), resource)
		}
	}
	return false
}
