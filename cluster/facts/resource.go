package facts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Resource is one kind of object that the API serves.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

// String is the resource's name in the facts: plural or plural.group.
func (r Resource) String() string { return r.GroupResource().String() }

// BlockingOwner is the UID of the owner whose foreground deletion waits for an
// object; "" where there is none. An object with several owners is not deleted
// with one of them: it only loses its reference.
func BlockingOwner(m metav1.Object) types.UID {
	refs := m.GetOwnerReferences()
	if len(refs) != 1 || !Or(refs[0].BlockOwnerDeletion, false) {
		return ""
	}
	return refs[0].UID
}
