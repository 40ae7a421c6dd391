package cluster

import (
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// scheme knows the kinds that the facts read more of than metadata.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, discoveryv1.AddToScheme, storagev1.AddToScheme,
		admissionv1.AddToScheme, apiextensionsv1.AddToScheme, aggregation.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}()

// typed are the resources that are read whole, because World.keep reduces them;
// of all others only the metadata is read.
var typed = []Resource{
	{corev1.SchemeGroupVersion.WithResource("namespaces"), false},
	{corev1.SchemeGroupVersion.WithResource("nodes"), false},
	{corev1.SchemeGroupVersion.WithResource("pods"), true},
	{corev1.SchemeGroupVersion.WithResource("services"), true},
	{corev1.SchemeGroupVersion.WithResource("serviceaccounts"), true},
	{appsv1.SchemeGroupVersion.WithResource("deployments"), true},
	{appsv1.SchemeGroupVersion.WithResource("statefulsets"), true},
	{appsv1.SchemeGroupVersion.WithResource("daemonsets"), true},
	{discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), true},
	{rbacv1.SchemeGroupVersion.WithResource("roles"), true},
	{rbacv1.SchemeGroupVersion.WithResource("clusterroles"), false},
	{rbacv1.SchemeGroupVersion.WithResource("rolebindings"), true},
	{rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), false},
	{admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"), false},
	{admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"), false},
	{admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"), false},
	{admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings"), false},
	{apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), false},
	{aggregation.SchemeGroupVersion.WithResource("apiservices"), false},
	{corev1.SchemeGroupVersion.WithResource("persistentvolumes"), false},
	{storagev1.SchemeGroupVersion.WithResource("csidrivers"), false},
	{storagev1.SchemeGroupVersion.WithResource("csinodes"), false},
	{storagev1.SchemeGroupVersion.WithResource("volumeattachments"), false},
	eventsResource,
}

// eventsResource is read whole, but of them only what tells of trouble on a node, and
// they do not count as content of a namespace.
var eventsResource = Resource{corev1.SchemeGroupVersion.WithResource("events"), true}

func isTyped(gr schema.GroupResource) bool {
	return slices.ContainsFunc(typed, func(r Resource) bool { return r.GroupResource() == gr })
}

// BuiltinGroups are the API groups that Kubernetes itself serves.
func BuiltinGroups() []string { return slices.Clone(builtinGroups()) }

var builtinGroups = sync.OnceValue(func() []string {
	groups := []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}
	for _, gv := range clientscheme.Scheme.PrioritizedVersionsAllGroups() {
		groups = append(groups, gv.Group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
})
