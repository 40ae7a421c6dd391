package cluster

import (
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/termguard/termguard/cluster/facts"
)

// eventsResource has evidence: only failures are kept, and are no content of their namespace.
var eventsResource = Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("events"), Namespaced: true}

func keepersOf(parts ...interface{ Keepers() []facts.Keeper }) map[string][]facts.Keeper {
	all := map[string][]facts.Keeper{}
	for _, part := range parts {
		for _, k := range part.Keepers() {
			all[k.Resource] = append(all[k.Resource], k)
		}
	}
	return all
}

// keep reports whether a part has anything to forget. The first part that takes an Event keeps it.
func (w *World) keep(resource string, key types.NamespacedName, obj runtime.Object) (kept bool) {
	if older, is := obj.(*unstructured.Unstructured); is && len(w.keepers[resource]) > 0 {
		if read, err := typedObject(older); err == nil {
			obj = read
		}
	}
	once := resource == eventsResource.String()
	if once {
		w.forgetRows(resource, key)
	}
	for _, k := range w.keepers[resource] {
		if !once || !kept {
			kept = k.Keep(obj) || kept
		}
	}
	return kept
}

func (w *World) forgetRows(resource string, key types.NamespacedName) {
	for _, k := range w.keepers[resource] {
		k.Forget(key)
	}
}

// Reduces reports whether the facts hold more than metadata of a resource.
func Reduces(res Resource) bool {
	Whole()
	return whole.keepers[res.String()] != nil
}

var whole struct {
	sync.Once
	keepers   map[string][]facts.Keeper
	resources []Resource
}

// Whole returns the resources with a facts.Keeper, in the versions of the Go types: they are always watched
// whole, others if World.Role says so. It must not be changed.
func Whole() []Resource {
	whole.Do(func() {
		whole.keepers = NewWorld(Options{}).keepers
		for _, k := range Builtin() {
			if !k.Past && whole.keepers[k.String()] != nil {
				whole.resources = append(whole.resources, k.Resource)
			}
		}
	})
	return whole.resources
}

// Scheme has the types that are watched whole.
func Scheme() *runtime.Scheme { return scheme }

// Alike returns older versions in which a resource can be read, the best first.
func Alike(res Resource) []string { return alike[res.String()] }

// alike are versions with the fields that the reducers read at the same paths (Kubernetes 1.33 and 1.32:
// k8s.io/api/resource/v1beta2 and v1beta1, types.go).
var alike = map[string][]string{
	"resourceclaims.resource.k8s.io": {"v1beta2", "v1beta1"},
	"resourceslices.resource.k8s.io": {"v1beta2", "v1beta1"},
}

func readAs(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	for _, k := range Builtin() {
		if k.Kind == gvk.Kind && k.Group == gvk.Group && slices.Contains(alike[k.String()], gvk.Version) {
			gvk.Version = k.Version
		}
	}
	return gvk
}

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, discoveryv1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme, resourcev1.AddToScheme,
		admissionv1.AddToScheme, apiextensionsv1.AddToScheme, aggregation.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}()

type Kind = facts.Kind

// Builtin returns the built-in kinds, which must not be changed.
func Builtin() []Kind { return facts.Builtin() }

func BuiltinGroups() []string { return slices.Clone(facts.BuiltinGroups()) }
