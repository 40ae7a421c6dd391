package ownership

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func FuzzManagedFinalizers(f *testing.F) {
	f.Add(`{"f:metadata":{"f:finalizers":{".":{},"v:\"kiali.io/finalizer\"":{}}}}`)
	f.Add(`{"f:metadata":{"f:finalizers":[1]}}`)
	f.Fuzz(func(t *testing.T, fields string) {
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"finalizers":    []any{"kiali.io/finalizer"},
			"managedFields": []any{map[string]any{"manager": "m", "fieldsV1": map[string]any{"x": fields}}},
		}}}
		if found := finalizersOf(obj, nil, true); len(found) != 1 || found[0].finalizer != "kiali.io/finalizer" {
			t.Error("a finalizer was lost")
		}
	})
}
