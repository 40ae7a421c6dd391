package policies_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestKinds holds the kinds that METADATA may name to those that client-go knows,
// and the two of API servers behind the first. UPDATE_GOLDEN=1 writes them.
func TestKinds(t *testing.T) {
	want := []string{"customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		object, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		if _, stored := object.(metav1.Object); !stored || gvk.Version == runtime.APIVersionInternal {
			continue // options, lists
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		if gvk.Kind == "Endpoints" {
			plural = schema.GroupVersionResource{Resource: "endpoints"}
		}
		want = append(want, plural.GroupResource().String())
	}
	slices.Sort(want)
	want = slices.Compact(want)
	text := "[\n  \"" + strings.Join(want, "\",\n  \"") + "\"\n]\n"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile("kinds.json", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	written, err := os.ReadFile("kinds.json")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := json.Unmarshal(written, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds.json is out of date (UPDATE_GOLDEN=1 go test ./policies writes it): -want, +got:\n%s", diff)
	}
}
