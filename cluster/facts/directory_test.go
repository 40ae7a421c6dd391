package facts

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

type named struct {
	name  string
	value int
}

func (n named) Named() string { return n.name }

// A directory equals a sorted map after any additions and removals.
func TestDirectory(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tc := range []struct {
		reason string
		next   func(i int) int // which of the names comes or goes
		goes   func(i int) bool
	}{
		{"a few, in no order", func(int) int { return random.IntN(40) }, func(int) bool { return random.IntN(2) == 0 }},
		{"in order, as a listing has them", func(i int) int { return i }, func(int) bool { return false }},
		{"in the other order", func(i int) int { return 20_000 - i }, func(int) bool { return false }},
		{"in no order, and few go", func(int) int { return random.IntN(12_000) }, func(int) bool { return random.IntN(10) == 0 }},
		{"all go again", func(i int) int { return i % 10_000 }, func(i int) bool { return i >= 10_000 }},
	} {
		got, want := Directories[named]{}, map[types.NamespacedName]int{}
		for i := range 20_000 {
			n := tc.next(i)
			key := types.NamespacedName{Namespace: []string{"", "a"}[n%2], Name: fmt.Sprintf("%05d", n)}
			if tc.goes(i) {
				got.Delete(key)
				delete(want, key)
			} else {
				got.Put(key.Namespace, named{key.Name, i})
				want[key] = i
			}
			at := got.At(key)
			if value, there := want[key]; (at != nil) != there || at != nil && at.value != value {
				t.Fatalf("%s: %v is %v, want %v, %d", tc.reason, key, at, there, value)
			}
		}
		keys := slices.SortedFunc(maps.Keys(want), func(a, b types.NamespacedName) int {
			return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
		})
		inOrder := map[string][]string{}
		for _, key := range keys {
			inOrder[key.Namespace] = append(inOrder[key.Namespace], key.Name)
		}
		names := map[string][]string{}
		for namespace, in := range got {
			for v := range in.All() {
				names[namespace] = append(names[namespace], v.name)
			}
		}
		if diff := cmp.Diff(inOrder, names); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
		}
		odd := got.Keys(func(n named) bool { return n.value%2 == 1 })
		keys = slices.DeleteFunc(keys, func(key types.NamespacedName) bool { return want[key]%2 == 0 })
		if len(got) != len(inOrder) || len(odd) != len(keys) {
			t.Errorf("%s: %d namespaces and %d with odd values, want %d and %d", tc.reason, len(got), len(odd), len(inOrder), len(keys))
		}
	}
}
