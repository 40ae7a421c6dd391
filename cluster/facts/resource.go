package facts

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Resource is one kind of object that the API serves.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

// String returns the resource's name in the facts: plural or plural.group.
func (r Resource) String() string { return r.GroupResource().String() }

// GroupOf returns the API group of "plural.group" or "Kind.group".
func GroupOf(resource string) string {
	_, group, _ := strings.Cut(resource, ".")
	return group
}

// Custom reports whether an API group is not built in.
func Custom(group string) bool { return !slices.Contains(BuiltinGroups(), group) }

// BlockingOwner returns the UID of the owner whose foreground deletion waits for an object, or "". An object
// with several owners only loses its reference.
func BlockingOwner(m metav1.Object) types.UID {
	refs := m.GetOwnerReferences()
	if len(refs) != 1 || !Or(refs[0].BlockOwnerDeletion, false) {
		return ""
	}
	return refs[0].UID
}

// Controller returns an object's controller, if any, or the Deployment behind it, whose ReplicaSets change.
func Controller(m metav1.Object) (kind schema.GroupKind, name string) {
	of := metav1.GetControllerOfNoCopy(m)
	if of == nil {
		return kind, ""
	}
	kind = schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind()
	hash := m.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]
	if name, made := strings.CutSuffix(of.Name, "-"+hash); made && hash != "" && kind.Kind == "ReplicaSet" {
		kind.Kind = "Deployment"
		return kind, name
	}
	return kind, of.Name
}
