package ownership

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func FuzzManagedFinalizers(f *testing.F) {
	f.Add(`{"f:metadata":{"f:finalizers":{".":{},"v:\"kiali.io/finalizer\"":{}}}}`)
	f.Add(`{"f:metadata":{"f:finalizers":[1]}}`)
	f.Fuzz(func(t *testing.T, fields string) {
		meta := metav1.ObjectMeta{
			Finalizers:    []string{"kiali.io/finalizer"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(fields)}},
		}
		objects := []metav1.Object{&meta}
		var decoded any
		if json.Unmarshal([]byte(fields), &decoded) == nil {
			objects = append(objects, &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
				"finalizers":    []any{"kiali.io/finalizer"},
				"managedFields": []any{map[string]any{"manager": "m", "fieldsV1": decoded}},
			}}})
		}
		for _, obj := range objects {
			if list := finalizersOf(obj, nil, true); len(list) != 1 || list[0].finalizer != "kiali.io/finalizer" {
				t.Error("a finalizer was lost")
			}
		}
	})
}

func TestClaims(t *testing.T) {
	cases := map[string]struct {
		reason string
		fields string
		want   []string
	}{
		"some":      {"Keys that name a value are claims, the others are not.", `{"f:metadata":{"f:finalizers":{".":{},"v:\"a.test/f\"":{},"v:\"b.test/f\"":{},"v:c":{}}}}`, []string{"a.test/f", "b.test/f"}},
		"none":      {"It manages something else.", `{"f:metadata":{"f:labels":{"f:a":{}}}}`, nil},
		"broken":    {"Somebody's broken fields are no evidence.", `{"f:metadata":{"f:finalizers":[1]}}`, nil},
		"no fields": {"Nor are none.", `null`, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			entry := metav1.ManagedFieldsEntry{Manager: "m", FieldsV1: metav1.NewFieldsV1(c.fields)}
			var fields any
			if err := json.Unmarshal([]byte(c.fields), &fields); err != nil {
				t.Fatal(err)
			}
			whole := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"managedFields": []any{map[string]any{"manager": "m", "fieldsV1": fields}}}}}
			for kind, m := range map[string]metav1.Object{"typed": &metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{entry}}, "whole": whole} {
				var got []string
				for _, c := range claims(m) {
					if got = append(got, c.finalizer); c.manager != "m" {
						t.Errorf("%s: manager %q, want m", kind, c.manager)
					}
				}
				slices.Sort(got)
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s: %s: (-want +got):\n%s", c.reason, kind, diff)
				}
			}
		})
	}
}
