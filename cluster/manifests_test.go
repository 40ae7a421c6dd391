package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/cluster/facts"
)

// TestImplied: of a namespace that manifests have, they tell the labels, whatever they say.
func TestImplied(t *testing.T) {
	w := refsIn(t, true,
		`{apiVersion: v1, kind: Namespace, metadata: {name: given, annotations: {termguard.dev/implied: "true"}}}`,
		plainIn("ConfigMap", "given", "a"), plainIn("ConfigMap", "implied", "a"))
	w.View(func(doc map[string]any) {
		got := map[string]any{"given": facts.Lookup(doc, "namespaces", "given", "implied"), "implied": facts.Lookup(doc, "namespaces", "implied", "implied")}
		if diff := cmp.Diff(map[string]any{"given": nil, "implied": true}, got); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
	})
}
