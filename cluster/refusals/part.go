// Package refusals finds the requests of a deletion that are refused, and why: by webhooks, admission
// policies, conversions of custom resources, and APIs without a backend.
package refusals

import (
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Options of a Part. All are needed.
type Options struct {
	// Manifests says that the objects are manifests: everything else is unknown.
	Manifests bool
	Now       func() time.Time
	// Owner returns the service account in kube-system that removes a built-in finalizer, or "".
	Owner func(finalizer string) string
	Sight *facts.Sight
	// Dropped receives events that are dropped for lack of space.
	Dropped func(event types.NamespacedName)
}

// Cluster is the interface to the other parts.
type Cluster interface {
	// Contents returns the resources with objects in a namespace, by name; for "", cluster-scoped ones.
	Contents(namespace string) []Content
	Total(resource string) int
	// NeedsKubelet reports whether the deletion of a namespace's pods waits for their kubelet.
	NeedsKubelet(namespace string) bool
	// PodLabels returns the different labels of a namespace's pods, none if some are unknown.
	PodLabels(namespace string) []labels.Set
}

// Content describes the objects of one resource in a namespace.
type Content struct {
	facts.Resource
	Count, Held int // all, and the finalized ones
	Finalizers  []string
}

// Part writes the refusals into the facts. Converts, ConvertsFrom, Unconverted, Lookups, Of, Once, Guards and
// SeesUpdatesFrom only read; callers serialize all other calls.
type Part struct {
	options Options
	doc     facts.Document

	backends  map[types.NamespacedName]*backend // Services that are referred to
	services  map[types.NamespacedName]service
	slices    map[types.NamespacedName]slice
	templates map[string]map[types.NamespacedName]podTemplate // by resource
	workloads facts.Sets[string, facts.Object]                // with templates, by namespace

	namespaces  map[types.NamespacedName]namespace
	definitions map[types.NamespacedName]definition
	apiServices map[types.NamespacedName]apiService
	configured  map[string]map[types.NamespacedName]configuration // webhooks, by type
	closed      map[string]*hook                                  // that fail closed, by "type/configuration/name"
	hooks       map[string]*hook                                  // of these, the ones with a Service
	policies    map[string]*policy                                // by "KIND/NAME"
	bindings    map[string]map[types.NamespacedName]policyBinding // that deny, by kind
	reading     *reading
	statements  statements // about webhooks, from events and conditions
	handshakes  map[Endpoint]Handshake

	apiErrors  map[listing]string    // of APIServices
	stale      map[string]bool       // APIServices whose group our discovery cannot read
	converters map[string]*converter // definitions with a conversion webhook, by name
	listErrors map[string]string     // of custom resources, by "plural.group"

	// Since the last Settle: namespaces with changed contents, and webhooks.
	touched, changed             map[string]bool
	hooksDirty, conversionsDirty bool

	hidden    [2]string // why rights hide Services, and their endpoints
	podsAmong bool      // pods are deleted among the rest, in no order
}

func New(doc facts.Document, options Options) *Part {
	for _, section := range []string{"apiservices", "webhooks", "admissionpolicies", "blocked", "selfBlocked", "denied", "unconverted", "conversionsFrom"} {
		doc[section] = map[string]any{}
	}
	p := &Part{
		options: options, doc: doc,
		backends: map[types.NamespacedName]*backend{}, services: map[types.NamespacedName]service{}, slices: map[types.NamespacedName]slice{},
		templates: map[string]map[types.NamespacedName]podTemplate{"daemonsets.apps": {}, "deployments.apps": {}, "statefulsets.apps": {}}, workloads: facts.Sets[string, facts.Object]{},
		namespaces: map[types.NamespacedName]namespace{}, definitions: map[types.NamespacedName]definition{}, apiServices: map[types.NamespacedName]apiService{},
		configured: map[string]map[types.NamespacedName]configuration{validatingKind: {}, mutatingKind: {}},
		closed:     map[string]*hook{}, hooks: map[string]*hook{},
		policies: map[string]*policy{}, bindings: map[string]map[types.NamespacedName]policyBinding{validatingKind: {}, mutatingKind: {}}, statements: statements{}, handshakes: map[Endpoint]Handshake{},
		apiErrors: map[listing]string{}, stale: map[string]bool{},
		converters: map[string]*converter{}, listErrors: map[string]string{},
		touched: map[string]bool{}, changed: map[string]bool{},
	}
	p.reading = &reading{
		manifests: options.Manifests, results: map[Lookup]LookupResult{}, lookups: map[Lookup]bool{}, wanting: map[Lookup]bool{}, byLabels: map[string]bool{},
		namespace: func(name string) *corev1.Namespace { return p.namespace(name).whole },
	}
	doc["namespaces"] = facts.Records(p.namespaces, func(_ string, n namespace) any { return n.record })
	doc["crds"] = facts.Records(p.definitions, p.definitionFacts)
	return p
}

func (p *Part) Keepers() []facts.Keeper {
	const registration = ".admissionregistration.k8s.io"
	return []facts.Keeper{
		facts.Rows("namespaces", p.namespaces, p.namespaceOf, p.namespaceChanged),
		facts.Keep("pods", func(o *corev1.Pod) bool { return p.podChanged(o.Namespace) }, func(pod types.NamespacedName) { p.podChanged(pod.Namespace) }),
		facts.Keep("events", p.KeepEvent, p.forgetEvent),
		facts.Rows("services", p.services, serviceOf, p.serviceChanged),
		facts.Rows("endpointslices.discovery.k8s.io", p.slices, sliceOf, p.sliceChanged),
		facts.Rows("deployments.apps", p.templates["deployments.apps"], func(o *appsv1.Deployment) (podTemplate, bool) { return templateOf(o.Spec.Template) }, p.templateChanged("deployments.apps")),
		facts.Rows("statefulsets.apps", p.templates["statefulsets.apps"], func(o *appsv1.StatefulSet) (podTemplate, bool) { return templateOf(o.Spec.Template) }, p.templateChanged("statefulsets.apps")),
		facts.Rows("daemonsets.apps", p.templates["daemonsets.apps"], func(o *appsv1.DaemonSet) (podTemplate, bool) { return templateOf(o.Spec.Template) }, p.templateChanged("daemonsets.apps")),
		facts.Rows("validatingwebhookconfigurations"+registration, p.configured[validatingKind], func(o *admissionv1.ValidatingWebhookConfiguration) (configuration, bool) {
			return configurationOf(o.ObjectMeta, o.Webhooks), true
		}, p.configurationChanged(validatingKind)),
		facts.Rows("mutatingwebhookconfigurations"+registration, p.configured[mutatingKind], func(o *admissionv1.MutatingWebhookConfiguration) (configuration, bool) {
			return configurationOf(o.ObjectMeta, o.Webhooks), true
		}, p.configurationChanged(mutatingKind)),
		facts.Keep("validatingadmissionpolicies"+registration, p.keepValidatingPolicy, p.forgetPolicy(validatingKind)),
		facts.Keep("mutatingadmissionpolicies"+registration, p.keepMutatingPolicy, p.forgetPolicy(mutatingKind)),
		facts.Rows("validatingadmissionpolicybindings"+registration, p.bindings[validatingKind], func(o *admissionv1.ValidatingAdmissionPolicyBinding) (policyBinding, bool) {
			denies := slices.Contains(o.Spec.ValidationActions, admissionv1.Deny)
			return policyBinding{o.Spec.PolicyName, newScope(o.Spec.MatchResources), o.Spec.ParamRef}, denies
		}, p.bindingChanged),
		facts.Rows("mutatingadmissionpolicybindings"+registration, p.bindings[mutatingKind], func(o *admissionv1.MutatingAdmissionPolicyBinding) (policyBinding, bool) {
			return policyBinding{o.Spec.PolicyName, newScope(o.Spec.MatchResources), o.Spec.ParamRef}, true
		}, p.bindingChanged),
		facts.Rows("customresourcedefinitions.apiextensions.k8s.io", p.definitions, definitionOf, p.definitionChanged),
		facts.Rows("apiservices.apiregistration.k8s.io", p.apiServices, apiServiceOf, func(types.NamespacedName, apiService, apiService) { p.publishAPIServices() }),
	}
}

func (p *Part) record(section, key string) map[string]any {
	record, _ := p.doc.Child(section)[key].(map[string]any)
	return record
}

// Touch records a change of a resource's objects or their finalizers in a namespace.
func (p *Part) Touch(resource, namespace string) {
	p.touched[namespace] = true
	p.conversionsDirty = p.conversionsDirty || p.converters[resource] != nil
}

// podChanged keeps nothing of a pod: its labels may decide refusals.
func (p *Part) podChanged(namespace string) (kept bool) {
	if p.reading.byLabels[namespace] {
		p.touched[namespace] = true
	}
	return false
}

// Settle updates the refusals. It calls yield between pieces of work, when the facts may change.
func (p *Part) Settle(cluster Cluster, yield func()) {
	p.settleBlocked(cluster, yield)
	p.settleConversions(cluster, yield)
}

// SetPodsFirst sets whether the namespace controller deletes pods first, its default.
func (p *Part) SetPodsFirst(first bool) {
	p.hooksDirty = p.hooksDirty || p.podsAmong == first
	p.podsAmong = !first
}

func (p *Part) Unsettle() { p.hooksDirty, p.conversionsDirty = true, true }

// OnlyManifests says that all objects are manifests: a backend without endpoints among them may have some in
// a cluster, and a webhook whose objectSelector matches none of them sees nothing.
func (p *Part) OnlyManifests(contains func(is func(resource schema.GroupVersionResource, namespace string, labels map[string]string) bool) bool) {
	for _, b := range p.backends {
		if b.state == down {
			b.set(unknown, "only a cluster shows its backend")
		}
	}
	for key, h := range p.hooks {
		if !h.objects.Empty() && !contains(h.concerns) {
			delete(p.hooks, key)
			for _, section := range []string{"ownPods", "ownWorkloads", "everywhere", "home"} {
				delete(p.record("webhooks", key), section)
			}
		}
	}
	p.hooksDirty = true
}
