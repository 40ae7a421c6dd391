package cluster

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/ownership"
)

// States of a finalizer's owner.
const (
	Barred = ownership.Barred
	Down   = ownership.Down
	Absent = ownership.Absent
)

// Ownership returns the verdicts on the finalizers of one object, as Moment.Ownership does for a
// request.
func (w *World) Ownership(obj metav1.Object, res schema.GroupResource, specFinalizers []string) map[string]any {
	w.mu.RLock()
	defer w.mu.RUnlock()
	u, whole := obj.(*unstructured.Unstructured)
	if !whole {
		return w.ownership.Ownership(obj, res, specFinalizers) // the API sends objects, or their metadata alone
	}
	return w.verdicts(u, res, specFinalizers)
}

// namespaced and cluster return resources that the table of kinds may lack.
func namespaced(gv schema.GroupVersion, plural string) Resource {
	return Resource{GroupVersionResource: gv.WithResource(plural), Namespaced: true}
}

func cluster(gv schema.GroupVersion, plural string) Resource {
	return Resource{GroupVersionResource: gv.WithResource(plural)}
}

// kindOf returns a resource that is watched whole.
func kindOf(resource string) Resource {
	return Whole()[slices.IndexFunc(Whole(), func(res Resource) bool { return res.String() == resource })]
}

var widgets = namespaced(schema.GroupVersion{Group: "x.io", Version: "v1"}, "widgets")
