package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manyFinalizers returns an object with n finalizers that no other object has.
func manyFinalizers(namespace, name string, n int) *metav1.PartialObjectMetadata {
	finalizers := make([]string, n)
	for i := range finalizers {
		finalizers[i] = fmt.Sprintf("junk.test/%s-%d", name, i)
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers}}
}

// TestManyFinalizers checks that a tenant who writes thousands of finalizers fills neither memory
// nor the answers to others; his own namespace is reported as incomplete.
func TestManyFinalizers(t *testing.T) {
	w := NewWorld(Options{})
	w.Begin(widgets)
	apply(t, w, widgets, manyFinalizers("other", "one", 1), true)
	for i := range 3 {
		apply(t, w, widgets, manyFinalizers("tenant", fmt.Sprint("huge", i), 30_000), true)
	}
	for i := range 100 {
		apply(t, w, widgets, manyFinalizers("tenant", fmt.Sprint("large", i), 60), true)
	}
	w.End(widgets)
	w.Settle()
	count := func(namespace string) int {
		kept, _ := at(w, "finalized", namespace).(map[string]any)
		return len(kept)
	}
	if got := count("tenant"); got == 0 || got > 128 {
		t.Errorf("kept %d finalizers of the tenant", got)
	}
	if got := count("other"); got != 1 {
		t.Errorf("kept %d finalizers of others, want 1", got)
	}
	want := []any{map[string]any{
		"resource": "widgets.x.io", "namespaced": true, "namespace": "tenant", "reason": "too-many",
		"message": "more finalizers than are kept of one object or namespace",
	}}
	if diff := cmp.Diff(want, at(w, "unseen")); diff != "" {
		t.Errorf("unseen: -want +got\n%s", diff)
	}
	for i := range 3 {
		remove(t, w, widgets, manyFinalizers("tenant", fmt.Sprint("huge", i), 1))
	}
	for i := range 100 {
		remove(t, w, widgets, manyFinalizers("tenant", fmt.Sprint("large", i), 1))
	}
	w.Settle()
	if diff := cmp.Diff([]any{}, at(w, "unseen")); diff != "" {
		t.Errorf("unseen after their deletion: -want +got\n%s", diff)
	}
	if got := count("tenant"); got != 0 {
		t.Errorf("kept %d finalizers of deleted objects", got)
	}
}

// TestManyClaims: the field managers of thousands of finalizers are not read for each finalizer of the object,
// while reviews wait.
func TestManyClaims(t *testing.T) {
	w := NewWorld(Options{})
	w.Begin(widgets)
	w.End(widgets)
	o := manyFinalizers("tenant", "huge", 30_000)
	var fields strings.Builder
	all := o.Finalizers
	for _, finalizer := range o.Finalizers {
		fmt.Fprintf(&fields, `,"v:\"%s\"":{}`, finalizer)
	}
	o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "tenant", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:finalizers":{".":{}` + fields.String() + `}}}`)}}
	for n, want := range map[int]float64{30_000: 1000, 60: 1_000_000} {
		o.Finalizers = all[:n]
		if got := testing.AllocsPerRun(1, func() { apply(t, w, widgets, o, true) }); got > want {
			t.Errorf("of %d finalizers: %.0f allocations, want at most %.0f", n, got, want)
		}
	}
}

// BenchmarkHostileSettle settles the facts while owners change and n objects with 30,000 finalizers
// each exist.
func BenchmarkHostileSettle(b *testing.B) {
	for _, n := range []int{0, 3, 30} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := NewWorld(Options{})
			w.Begin(widgets)
			for i := range n {
				if err := w.Apply(widgets, manyFinalizers("tenant", fmt.Sprint("huge", i), 30_000), true); err != nil {
					b.Fatal(err)
				}
			}
			w.End(widgets)
			for b.Loop() {
				w.Seen(gizmos)
				w.SetServed([]string{"x.io"}, nil)
				w.Settle()
			}
		})
	}
}
