package cluster

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// priorities is a part that knows the value of each PriorityClass.
type priorities struct{ doc facts.Document }

func (p priorities) Keep(o *schedulingv1.PriorityClass) bool {
	p.doc.Put(o.Value, "priorities", o.Name)
	return true
}

func (p priorities) Forget(key types.NamespacedName) { p.doc.Prune("priorities", key.Name) }

// TestAddFact adds a new fact in the way of CONTRIBUTING.md: a kind that is watched whole, and its keeper.
func TestAddFact(t *testing.T) {
	classes := cluster(schedulingv1.SchemeGroupVersion, "priorityclasses")
	if Reduces(classes) {
		t.Fatal("choose another kind: this one has a keeper")
	}
	w := NewWorld(Options{})
	part := priorities{w.doc}
	w.keepers[classes.String()] = []facts.Keeper{facts.Keep(classes.String(), part.Keep, part.Forget)}
	whole.keepers[classes.String()] = w.keepers[classes.String()]
	defer delete(whole.keepers, classes.String())
	if !Reduces(classes) {
		t.Error("a kind with a keeper must be watched whole")
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7}
	for _, step := range []struct {
		reason string
		do     func() error
		want   any
	}{
		{"an object is kept", func() error { w.Begin(classes); return w.Apply(classes, class, true) }, int32(7)},
		{"it is still there when the listing ends", func() error { w.End(classes); return nil }, int32(7)},
		{"it is removed", func() error { return w.Remove(classes, class) }, nil},
		{"it comes back", func() error { return w.Apply(classes, class, true) }, int32(7)},
		{"a listing does not show it", func() error { w.Begin(classes); w.End(classes); return nil }, nil},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, at(w, "priorities", "high")); diff != "" {
			t.Errorf("%s: -want +got\n%s", step.reason, diff)
		}
	}
}

// TestWhole checks that each kind with a keeper is watched whole once, in a version that the scheme can decode.
func TestWhole(t *testing.T) {
	keepers := maps.Clone(NewWorld(Options{}).keepers)
	for _, k := range Whole() {
		if keepers[k.String()] == nil {
			t.Errorf("%s is watched twice, or has no keeper", k)
		}
		delete(keepers, k.String())
		if !scheme.IsVersionRegistered(k.GroupVersion()) {
			t.Errorf("%s is watched whole, and the scheme does not know %s", k, k.GroupVersion())
		}
	}
	if len(keepers) > 0 {
		t.Errorf("%d kinds with a keeper are not watched whole: %v", len(keepers), slices.Collect(maps.Keys(keepers)))
	}
}

// TestBadInput sends events that no API server should send.
func TestBadInput(t *testing.T) {
	configMaps := namespaced(schema.GroupVersion{Version: "v1"}, "configmaps")
	plain := func(name string) runtime.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)}}
	}
	held := func(name string) runtime.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), Finalizers: []string{"x.io/f"}}}
	}
	inNone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "x", Finalizers: []string{"x.io/f"}}}
	count := func(w *World, resource string) any { return at(w, "counts", "a", resource) }
	followed := func() *World {
		w := NewWorld(Options{})
		w.Begin(configMaps)
		w.End(configMaps)
		return w
	}
	tests := map[string]struct {
		reason string
		play   func(t *testing.T) any
		want   any
	}{
		"no part keeps it": {
			"a resource that is not followed leaves nothing",
			func(t *testing.T) any {
				w := NewWorld(Options{})
				apply(t, w, widgets, held("x"), true)
				remove(t, w, widgets, held("x"))
				return []any{at(w, "counts", "a"), at(w, "finalized", "a"), w.Shows(widgets.GroupResource(), types.NamespacedName{}, "", nil)}
			},
			[]any{nil, nil, false},
		},
		"not the type": {
			"an object of a kind that is watched whole comes as something else: what all have in common counts",
			func(t *testing.T) any {
				w := NewWorld(Options{})
				pods := kindOf("pods")
				w.Begin(pods)
				apply(t, w, pods, held("x"), true)
				apply(t, w, pods, &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "a", "name": "y"}}}, true)
				w.End(pods)
				return []any{count(w, "pods"), at(w, "pods", "a"), at(w, "finalized", "a", "x.io/f", "pods", "", "count")}
			},
			[]any{2, nil, 1},
		},
		"no object at all": {
			"an object without metadata is an error, and changes nothing",
			func(t *testing.T) any {
				w := followed()
				return []any{w.Apply(configMaps, &metav1.Status{}, true) != nil, w.Remove(configMaps, &metav1.Status{}) != nil, count(w, "configmaps")}
			},
			[]any{true, true, nil},
		},
		"twice": {
			"the same object is added twice",
			func(t *testing.T) any {
				w := followed()
				apply(t, w, configMaps, held("x"), true)
				apply(t, w, configMaps, held("x"), true)
				return []any{count(w, "configmaps"), at(w, "finalized", "a", "x.io/f", "configmaps", "", "count")}
			},
			[]any{1, 1},
		},
		"twice in a listing": {
			"the same object is on two pages",
			func(t *testing.T) any {
				w := followed()
				w.Begin(configMaps)
				apply(t, w, configMaps, held("x"), true)
				apply(t, w, configMaps, held("x"), true)
				w.End(configMaps)
				return count(w, "configmaps")
			},
			1,
		},
		"deleted before it was created": {
			"there are never fewer than none",
			func(t *testing.T) any {
				w := followed()
				remove(t, w, configMaps, held("x"))
				apply(t, w, configMaps, held("x"), true)
				return []any{count(w, "configmaps"), at(w, "finalized", "a", "x.io/f", "configmaps", "", "count")}
			},
			[]any{1, 1},
		},
		"deleted before it was created, in a listing": {
			"nor while a listing is under way",
			func(t *testing.T) any {
				w := followed()
				w.Begin(configMaps)
				remove(t, w, configMaps, plain("x"))
				apply(t, w, configMaps, plain("x"), true)
				w.End(configMaps)
				return count(w, "configmaps")
			},
			1,
		},
		"deleted twice": {
			"the second time there is nothing to forget",
			func(t *testing.T) any {
				w := followed()
				apply(t, w, configMaps, held("x"), true)
				apply(t, w, configMaps, held("y"), true)
				remove(t, w, configMaps, held("x"))
				remove(t, w, configMaps, held("x"))
				apply(t, w, configMaps, plain("z"), true)
				return at(w, "finalized", "a", "x.io/f", "configmaps", "", "count")
			},
			1,
		},
		"another scope": {
			"a kind is namespaced at one discovery and cluster-scoped at the next: nothing of the old scope stays",
			func(t *testing.T) any {
				w := NewWorld(Options{})
				w.Begin(widgets)
				apply(t, w, widgets, held("x"), true)
				w.End(widgets)
				global := widgets
				global.Namespaced = false
				w.Begin(global)
				apply(t, w, global, inNone, true)
				w.End(global)
				w.Settle()
				return []any{at(w, "counts", "a"), at(w, "counts", "", "widgets.x.io"), at(w, "finalized", "a"), at(w, "finalized", "", "x.io/f", "widgets.x.io", "", "count")}
			},
			[]any{nil, 1, nil, 1},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.play(t)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func apply(t *testing.T, w *World, res Resource, obj runtime.Object, added bool) {
	t.Helper()
	if err := w.Apply(res, obj, added); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, w *World, res Resource, obj runtime.Object) {
	t.Helper()
	if err := w.Remove(res, obj); err != nil {
		t.Fatal(err)
	}
}
