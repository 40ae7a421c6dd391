// Package refusals tells which requests that a deletion needs are refused, and by
// what: webhooks that fail closed and cannot be called, are not trusted, or were
// seen to refuse; admission policies that deny or fail; custom resources that
// cannot be converted; APIs without a backend.
package refusals

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Options of a Part. All are needed.
type Options struct {
	// Manifests says that the objects are manifests: what they do not hold is unknown.
	Manifests bool
	// Now tells the time.
	Now func() time.Time
	// Owner is the service account of kube-system that removes a finalizer of Kubernetes
	// itself, "" for any other.
	Owner func(finalizer string) string
	// Sight tells what rights hide.
	Sight *facts.Sight
	// Dropped is told of events that are kept no longer, for want of space.
	Dropped func(event types.NamespacedName)
}

// Cluster is what the other parts know.
type Cluster interface {
	// Contents are the resources of which there are objects in a namespace, by
	// name; for "", those of objects that are in none.
	Contents(namespace string) []Content
	// Total is the number of objects of a resource.
	Total(resource string) int
	// NeedsKubelet tells whether pods in a namespace wait for their kubelet when
	// they are deleted.
	NeedsKubelet(namespace string) bool
}

// Content is what there is of one resource in a namespace.
type Content struct {
	facts.Resource
	Count, Held int      // objects, and those of them that have finalizers
	Finalizers  []string // that they have
}

// Part is the part of the facts that tells it. Whoever calls its methods makes
// sure that nobody else does; those that say so only read.
type Part struct {
	options Options
	doc     facts.Document

	backends  map[string]*backend // Services that something refers to, by "namespace/name"
	services  map[string]service  // by "namespace/name"
	slices    map[string]slice    // EndpointSlices, by "namespace/name"
	templates map[string]map[string]map[string]string

	namespaces     map[string]namespace
	webhooks       map[string]map[string]any // as the facts have them, by "type/configuration/name"
	hooks          map[string]*hook          // those that refuse when their backend is down, by the same
	policies       map[string]*policy        // admission policies, by "KIND/NAME"
	policyBindings map[string]*policyBinding // bindings of theirs that deny, by "KIND/NAME"
	reading        *reading                  // for them
	statements     statements                // about webhooks, as others were told
	handshakes     map[Endpoint]Handshake    // handshakes with their backends

	apiServices map[string]map[string]any    // as the facts have them, by name
	apiErrors   map[string]map[string]string // of listing what they serve, by name and resource
	stale       map[string]bool              // APIServices whose group our own discovery cannot read
	converters  map[string]*converter        // definitions with a conversion webhook, by name
	listErrors  map[string]string            // of custom resources, by "plural.group"

	// Since the last Settle: namespaces whose contents changed; webhooks that changed,
	// of hooks; and whether all of them, or the policies, did.
	touched, changed             map[string]bool
	hooksDirty, conversionsDirty bool

	hidden    [2]string // why rights hide Services, and their endpoints
	podsAmong bool      // pods are deleted among the rest, in no order
}

// New returns a Part that has seen nothing and writes into doc.
func New(doc facts.Document, options Options) *Part {
	for _, section := range []string{"apiservices", "webhooks", "admissionpolicies", "crds", "namespaces", "blocked", "selfBlocked", "denied", "unconverted", "conversionsFrom"} {
		doc[section] = map[string]any{}
	}
	p := &Part{
		options: options, doc: doc,
		backends: map[string]*backend{}, services: map[string]service{}, slices: map[string]slice{}, templates: map[string]map[string]map[string]string{},
		namespaces: map[string]namespace{}, webhooks: map[string]map[string]any{}, hooks: map[string]*hook{},
		policies: map[string]*policy{}, policyBindings: map[string]*policyBinding{}, statements: statements{}, handshakes: map[Endpoint]Handshake{},
		apiServices: map[string]map[string]any{}, apiErrors: map[string]map[string]string{}, stale: map[string]bool{},
		converters: map[string]*converter{}, listErrors: map[string]string{},
		touched: map[string]bool{}, changed: map[string]bool{},
	}
	p.reading = &reading{manifests: options.Manifests, found: map[Lookup]Found{}, wanted: map[Lookup]bool{}, wanting: map[Lookup]bool{}, namespace: func(name string) *corev1.Namespace { return p.namespaces[name].whole }}
	return p
}

// Touch notes that what is in a namespace changed: the objects of a resource, or
// their finalizers. "" stands for cluster-scoped objects.
func (p *Part) Touch(resource, namespace string) {
	p.touched[namespace] = true
	p.conversionsDirty = p.conversionsDirty || p.converters[resource] != nil
}

// Settle brings what is refused up to date with what changed since the last time.
// It calls yield between two pieces of work: others may change the facts in it.
func (p *Part) Settle(cluster Cluster, yield func()) {
	p.settleBlocked(cluster, yield)
	p.settleConversions(cluster, yield)
}

// SetPodsFirst takes in whether the namespace controller deletes pods before anything
// else, as it does where nobody says.
func (p *Part) SetPodsFirst(first bool) {
	p.hooksDirty = p.hooksDirty || p.podsAmong == first
	p.podsAmong = !first
}

// Unsettle has everything settled anew, the next time.
func (p *Part) Unsettle() { p.hooksDirty, p.conversionsDirty = true, true }

// OnlyManifests tells that there is nothing but manifests: what has no endpoints
// among them may have some in a cluster, and a webhook whose objectSelector
// matches nothing among them that its rules are about sees nothing.
func (p *Part) OnlyManifests(contains func(is func(resource schema.GroupVersionResource, namespace string, labels map[string]string) bool) bool) {
	for _, b := range p.backends {
		if b.state == down {
			b.set(unknown, "only a cluster tells what is behind it")
		}
	}
	for key, h := range p.hooks {
		if !h.objects.Empty() && !contains(h.concerns) {
			delete(p.hooks, key)
			for _, section := range []string{"ownPods", "ownWorkloads", "everywhere", "home"} {
				delete(p.webhooks[key], section)
			}
		}
	}
	p.hooksDirty = true
}
