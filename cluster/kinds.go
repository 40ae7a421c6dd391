package cluster

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/termguard/termguard/cluster/budgets"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/nodes"
	"github.com/termguard/termguard/cluster/ownership"
	"github.com/termguard/termguard/cluster/refusals"
)

// kind is one kind of object that is watched whole, and its keepers. Other kinds are watched as metadata:
// ownership keeps their finalizers, and dependents their owners. Custom resources and kinds with references
// in the catalog are watched whole, too: references keeps the names, and hashes of names (World.Role).
type kind struct {
	Resource
	keepers []keeper
}

// keeper is a part that keeps something of an object, and forgets it. keep reports whether there is anything
// to forget.
type keeper struct {
	keep   func(w *World, obj runtime.Object) bool
	forget func(w *World, key types.NamespacedName)
}

// table lists them. A new fact about a kind is a new keeper, or a new kind.
var table = []kind{
	{watched(corev1.SchemeGroupVersion, "namespaces"), []keeper{
		by(refusing, (*refusals.Part).KeepNamespace, (*refusals.Part).ForgetNamespace),
		by(owning, (*ownership.Part).KeepNamespace, (*ownership.Part).ForgetNamespace),
	}},
	{watched(corev1.SchemeGroupVersion, "nodes"), []keeper{
		by(onNodes, (*nodes.Part).KeepNode, (*nodes.Part).ForgetNode),
		by(owning, (*ownership.Part).KeepNode, (*ownership.Part).ForgetNode),
	}},
	{watched(corev1.SchemeGroupVersion, "pods"), []keeper{
		by(onNodes, (*nodes.Part).KeepPod, (*nodes.Part).ForgetPod),
		by(onNodes, (*nodes.Part).KeepServingPod, (*nodes.Part).ForgetServingPod),
		by(owning, (*ownership.Part).KeepPod, (*ownership.Part).ForgetPod),
		by(budgeting, (*budgets.Part).KeepPod, (*budgets.Part).ForgetPod),
	}},
	{watched(policyv1.SchemeGroupVersion, "poddisruptionbudgets"), []keeper{by(budgeting, (*budgets.Part).KeepBudget, (*budgets.Part).ForgetBudget)}},
	{watched(corev1.SchemeGroupVersion, "services"), []keeper{
		by(refusing, (*refusals.Part).KeepService, (*refusals.Part).ForgetService),
		by(onNodes, (*nodes.Part).KeepService, (*nodes.Part).ForgetService),
	}},
	{watched(corev1.SchemeGroupVersion, "serviceaccounts"), []keeper{by(owning, (*ownership.Part).KeepServiceAccount, (*ownership.Part).ForgetServiceAccount)}},
	{watched(appsv1.SchemeGroupVersion, "deployments"), []keeper{
		by(refusing, (*refusals.Part).KeepDeployment, (*refusals.Part).ForgetDeployment),
		by(owning, (*ownership.Part).KeepDeployment, (*ownership.Part).ForgetDeployment),
	}},
	{watched(appsv1.SchemeGroupVersion, "statefulsets"), []keeper{
		by(refusing, (*refusals.Part).KeepStatefulSet, (*refusals.Part).ForgetStatefulSet),
		by(owning, (*ownership.Part).KeepStatefulSet, (*ownership.Part).ForgetStatefulSet),
	}},
	{watched(appsv1.SchemeGroupVersion, "daemonsets"), []keeper{
		by(refusing, (*refusals.Part).KeepDaemonSet, (*refusals.Part).ForgetDaemonSet),
		by(owning, (*ownership.Part).KeepDaemonSet, (*ownership.Part).ForgetDaemonSet),
		by(onNodes, (*nodes.Part).KeepDaemonSet, (*nodes.Part).ForgetDaemonSet),
	}},
	{watched(discoveryv1.SchemeGroupVersion, "endpointslices"), []keeper{
		by(refusing, (*refusals.Part).KeepEndpointSlice, (*refusals.Part).ForgetEndpointSlice),
		by(onNodes, (*nodes.Part).KeepEndpointSlice, (*nodes.Part).ForgetEndpointSlice),
	}},
	{watched(rbacv1.SchemeGroupVersion, "roles"), []keeper{by(owning, (*ownership.Part).KeepRole, (*ownership.Part).ForgetRole)}},
	{watched(rbacv1.SchemeGroupVersion, "clusterroles"), []keeper{by(owning, (*ownership.Part).KeepClusterRole, (*ownership.Part).ForgetRole)}},
	{watched(rbacv1.SchemeGroupVersion, "rolebindings"), []keeper{by(owning, (*ownership.Part).KeepRoleBinding, (*ownership.Part).ForgetBinding)}},
	{watched(rbacv1.SchemeGroupVersion, "clusterrolebindings"), []keeper{by(owning, (*ownership.Part).KeepClusterRoleBinding, (*ownership.Part).ForgetBinding)}},
	{watched(admissionv1.SchemeGroupVersion, "validatingwebhookconfigurations"), []keeper{by(refusing, (*refusals.Part).KeepValidating, (*refusals.Part).ForgetValidating)}},
	{watched(admissionv1.SchemeGroupVersion, "mutatingwebhookconfigurations"), []keeper{by(refusing, (*refusals.Part).KeepMutating, (*refusals.Part).ForgetMutating)}},
	{watched(admissionv1.SchemeGroupVersion, "validatingadmissionpolicies"), []keeper{by(refusing, (*refusals.Part).KeepPolicy, (*refusals.Part).ForgetPolicy)}},
	{watched(admissionv1.SchemeGroupVersion, "validatingadmissionpolicybindings"), []keeper{by(refusing, (*refusals.Part).KeepPolicyBinding, (*refusals.Part).ForgetPolicyBinding)}},
	{watched(admissionv1.SchemeGroupVersion, "mutatingadmissionpolicies"), []keeper{by(refusing, (*refusals.Part).KeepMutatingPolicy, (*refusals.Part).ForgetMutatingPolicy)}},
	{watched(admissionv1.SchemeGroupVersion, "mutatingadmissionpolicybindings"), []keeper{by(refusing, (*refusals.Part).KeepMutatingPolicyBinding, (*refusals.Part).ForgetMutatingPolicyBinding)}},
	{watched(apiextensionsv1.SchemeGroupVersion, "customresourcedefinitions"), []keeper{
		by(refusing, (*refusals.Part).KeepDefinition, (*refusals.Part).ForgetDefinition),
		by(owning, (*ownership.Part).KeepDefinition, (*ownership.Part).ForgetDefinition),
	}},
	{watched(aggregation.SchemeGroupVersion, "apiservices"), []keeper{by(refusing, (*refusals.Part).KeepAPIService, (*refusals.Part).ForgetAPIService)}},
	{watched(corev1.SchemeGroupVersion, "persistentvolumes"), []keeper{by(onNodes, (*nodes.Part).KeepVolume, (*nodes.Part).ForgetVolume)}},
	{watched(storagev1.SchemeGroupVersion, "csidrivers"), []keeper{
		by(onNodes, (*nodes.Part).KeepCSIDriver, (*nodes.Part).ForgetCSIDriver),
		by(owning, (*ownership.Part).KeepCSIDriver, (*ownership.Part).ForgetCSIDriver),
	}},
	{watched(storagev1.SchemeGroupVersion, "csinodes"), []keeper{
		by(onNodes, (*nodes.Part).KeepCSINode, (*nodes.Part).ForgetCSINode),
		by(owning, (*ownership.Part).KeepCSINode, (*ownership.Part).ForgetCSINode),
	}},
	// Its driver is also evidence about the owner of its finalizer, like a volume's.
	{watched(storagev1.SchemeGroupVersion, "volumeattachments"), []keeper{by(onNodes, (*nodes.Part).KeepAttachment, (*nodes.Part).ForgetAttachment)}},
	{watched(resourcev1.SchemeGroupVersion, "resourceclaims"), []keeper{by(onNodes, (*nodes.Part).KeepClaim, (*nodes.Part).ForgetClaim)}},
	{watched(resourcev1.SchemeGroupVersion, "resourceslices"), []keeper{by(onNodes, (*nodes.Part).KeepSlice, (*nodes.Part).ForgetSlice)}},
	// Only Events about failures are kept, and they are no content of their namespace.
	{eventsResource, []keeper{firstOf(
		by(refusing, (*refusals.Part).KeepEvent, (*refusals.Part).ForgetEvent),
		by(onNodes, (*nodes.Part).KeepEvent, (*nodes.Part).ForgetEvent),
		by(owning, (*ownership.Part).KeepEvent, (*ownership.Part).ForgetEvent),
	)}},
}

var eventsResource = watched(corev1.SchemeGroupVersion, "events")

// The parts, as the table names them.
func owning(w *World) *ownership.Part  { return w.ownership }
func refusing(w *World) *refusals.Part { return w.refusals }
func onNodes(w *World) *nodes.Part     { return w.nodes }
func budgeting(w *World) *budgets.Part { return w.budgets }

// watched returns a resource in the version whose Go types are kept.
func watched(gv schema.GroupVersion, plural string) Resource {
	gvr := gv.WithResource(plural)
	i := slices.IndexFunc(Builtin(), func(k Kind) bool { return k.GroupVersionResource == gvr })
	return Builtin()[i].Resource // a missing kind fails every test
}

// by returns the keeper of a part for objects of one Go type.
func by[P any, T runtime.Object](part func(*World) P, keep func(P, T) bool, forget func(P, types.NamespacedName)) keeper {
	return keeper{
		keep: func(w *World, obj runtime.Object) bool {
			o, is := obj.(T)
			return is && keep(part(w), o)
		},
		forget: func(w *World, key types.NamespacedName) { forget(part(w), key) },
	}
}

// firstOf keeps an object with the first keeper that takes it: an event is about one thing.
func firstOf(keepers ...keeper) keeper {
	forget := func(w *World, key types.NamespacedName) {
		for _, k := range keepers {
			k.forget(w, key)
		}
	}
	return keeper{forget: forget, keep: func(w *World, obj runtime.Object) bool {
		if m, err := meta.Accessor(obj); err == nil {
			forget(w, types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()})
		}
		return slices.ContainsFunc(keepers, func(k keeper) bool { return k.keep(w, obj) })
	}}
}

// keep calls all keepers, and reports whether one has anything to forget.
func (k *kind) keep(w *World, obj runtime.Object) (kept bool) {
	if older, is := obj.(*unstructured.Unstructured); is {
		if read, err := typedObject(older); err == nil {
			obj = read
		}
	}
	for _, keeper := range k.keepers {
		kept = keeper.keep(w, obj) || kept
	}
	return kept
}

// forget undoes keep.
func (k *kind) forget(w *World, key types.NamespacedName) {
	for _, keeper := range k.keepers {
		keeper.forget(w, key)
	}
}

// kinds is the table by "plural.group", and typed are its resources.
var kinds, typed = func() (map[string]*kind, []Resource) {
	byName, resources := map[string]*kind{}, []Resource{}
	for i, k := range table {
		byName[k.String()] = &table[i]
		resources = append(resources, k.Resource)
	}
	return byName, resources
}()

// Reduces reports whether the facts hold more of a resource's objects than their metadata.
func Reduces(res Resource) bool { return isTyped(res.GroupResource()) }

// Whole returns the resources that are watched whole, in the versions that are read. They must not be
// changed.
func Whole() []Resource { return typed }

// Scheme returns the scheme with the types that are watched whole.
func Scheme() *runtime.Scheme { return scheme }

// Alike returns the older versions in which a resource that is watched whole can be read as well, the best
// first.
func Alike(res Resource) []string { return alike[res.String()] }

// alike are older versions with the fields that the reducers read at the same paths, the best first: for
// devices, those of Kubernetes 1.33 and 1.32 (k8s.io/api/resource/v1beta2 and v1beta1, types.go).
var alike = map[string][]string{
	"resourceclaims.resource.k8s.io": {"v1beta2", "v1beta1"},
	"resourceslices.resource.k8s.io": {"v1beta2", "v1beta1"},
}

// readAs returns the version in which the reducers read a kind.
func readAs(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	for _, k := range Builtin() {
		if k.Kind == gvk.Kind && k.Group == gvk.Group && slices.Contains(alike[k.String()], gvk.Version) {
			gvk.Version = k.Version
		}
	}
	return gvk
}

func isTyped(gr schema.GroupResource) bool { return kinds[gr.String()] != nil }

// scheme has the kinds that are watched whole.
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

// Kind is a built-in kind.
type Kind = facts.Kind

// Builtin returns the built-in kinds, which must not be changed.
func Builtin() []Kind { return facts.Builtin() }

// BuiltinGroups returns the built-in API groups.
func BuiltinGroups() []string { return slices.Clone(facts.BuiltinGroups()) }
