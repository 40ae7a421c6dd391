package manifests

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/refusals"
)

// TestImplied checks that a namespace in the manifests has the labels that they set, and no others.
func TestImplied(t *testing.T) {
	object := func(kind, namespace, name string) *unstructured.Unstructured {
		return made("v1", kind, namespace, name, map[string]any{})
	}
	given := object("Namespace", "", "given")
	given.SetAnnotations(map[string]string{refusals.Implied: "true"})
	w, err := Apply(cluster.Options{}, "", Set{Objects: []*unstructured.Unstructured{given, object("ConfigMap", "given", "a"), object("ConfigMap", "implied", "a")}})
	if err != nil {
		t.Fatal(err)
	}
	w.View(func(doc map[string]any) {
		got := map[string]any{"given": facts.Lookup(doc, "namespaces", "given", "implied"), "implied": facts.Lookup(doc, "namespaces", "implied", "implied")}
		if diff := cmp.Diff(map[string]any{"given": nil, "implied": true}, got); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
	})
}

// TestVersion checks that a request for one version uses that version, not one in a document of
// kind Cluster among the manifests.
func TestVersion(t *testing.T) {
	about := made("termguard.dev/v1", "Cluster", "", "", map[string]any{"version": "v1.30.0"})
	for version, want := range map[string]string{"v1.36.0": "v1.36.0", "": "v1.30.0"} {
		w, err := Apply(cluster.Options{}, version, Set{Objects: []*unstructured.Unstructured{about.DeepCopy()}})
		if err != nil {
			t.Fatal(err)
		}
		w.View(func(doc map[string]any) {
			if got := facts.Lookup(doc, "version", "git"); got != want {
				t.Errorf("version %q: got facts for %v, want %s", version, got, want)
			}
		})
	}
}
