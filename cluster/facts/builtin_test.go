package facts

import (
	"regexp"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// passing matches kinds whose objects are never stored.
var passing = regexp.MustCompile(`Review$|^(Binding|Eviction|RangeAllocation|Scale|TokenRequest)$`)

// TestBuiltin compares the table with the kinds that client-go knows.
func TestBuiltin(t *testing.T) {
	table := map[schema.GroupKind]Kind{}
	for _, k := range Builtin() {
		kind := schema.GroupKind{Group: k.Group, Kind: k.Kind}
		if other, twice := table[kind]; twice {
			t.Errorf("%s is in the table twice: %s and %s", kind, other, k)
		}
		table[kind] = k
		if !k.Past && !slices.Contains(BuiltinGroups(), k.Group) {
			t.Errorf("%s is of no group of Kubernetes", k)
		}
	}
	for gvk := range clientscheme.Scheme.AllKnownTypes() {
		object, err := clientscheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		_, stored := object.(metav1.Object)
		k, ok := table[gvk.GroupKind()]
		switch {
		case !stored || gvk.Version == runtime.APIVersionInternal || passing.MatchString(gvk.Kind):
		case !ok:
			t.Errorf("%s is not in the table", gvk)
		case !k.Past && !clientscheme.Scheme.IsVersionRegistered(k.GroupVersion()):
			t.Errorf("%s has unknown resource %s in the table", gvk, k.GroupVersion())
		}
	}
}
