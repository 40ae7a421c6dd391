package cluster

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/facts"
)

// Defined returns a path's values in CustomResourceDefinitions among objects, by defined kind.
func Defined(objects []*unstructured.Unstructured, path ...string) map[schema.GroupKind]string {
	values := map[schema.GroupKind]string{}
	for _, obj := range objects {
		if obj.GetKind() != "CustomResourceDefinition" {
			continue
		}
		group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
		values[schema.GroupKind{Group: group, Kind: kind}], _, _ = unstructured.NestedString(obj.Object, path...)
	}
	return values
}

// Resources maps kinds by CustomResourceDefinitions among objects, else as Kubernetes guesses.
func Resources(objects []*unstructured.Unstructured) map[schema.GroupVersionKind]Resource {
	plurals := Defined(objects, "spec", "names", "plural")
	mapped := map[schema.GroupVersionKind]Resource{}
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		if before, seen := mapped[gvk]; seen && (before.Namespaced || obj.GetNamespace() == "") {
			continue
		}
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		if plural := plurals[gvk.GroupKind()]; plural != "" {
			gvr.Resource = plural
		}
		res := Resource{GroupVersionResource: gvr, Namespaced: obj.GetNamespace() != ""}
		if i := slices.IndexFunc(Whole(), func(b Resource) bool { return b.GroupResource() == gvr.GroupResource() }); i >= 0 {
			res = Whole()[i]
		}
		mapped[gvk] = res
	}
	return mapped
}

// ScopeOf returns the scope of a kind, "" if the manifests do not show it.
func ScopeOf(gvk schema.GroupVersionKind, scopes map[schema.GroupKind]string) apiextensionsv1.ResourceScope {
	switch scope, defined := scopes[gvk.GroupKind()]; {
	case defined:
		return apiextensionsv1.ResourceScope(scope)
	case !slices.Contains(facts.BuiltinGroups(), gvk.Group):
		return ""
	case !facts.Namespaced(gvk.GroupKind()):
		return apiextensionsv1.ClusterScoped
	}
	return apiextensionsv1.NamespaceScoped
}
