package refusals

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

const maxLookups = 500

// Lookup is a query for objects that the facts do not hold: parameters of policies, or objects of requests.
type Lookup struct {
	// Kind is of parameters; empty for objects of requests.
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
	// Namespace counts for parameters only if their kind is namespaced; Own says that it is the request's, "" if
	// that has none.
	Namespace string
	Own       bool
	// Name selects one object, else Selector by labels.
	Name, Selector string
}

// Usable returns an error if the API server cannot use parameters of a kind.
func (l Lookup) Usable(namespaced, served bool) error {
	switch {
	case !served:
		return ErrNotServed
	case namespaced && l.Own && l.Namespace == "":
		return ErrNoNamespace
	case !namespaced && !l.Own && l.Namespace != "":
		return ErrClusterScope
	}
	return nil
}

type LookupResult struct {
	Objects []*unstructured.Unstructured
	// Err says why the API server cannot use such parameters.
	Err error
}

// Errors of parameters (k8s.io/apiserver, pkg/admission/plugin/policy/generic/policy_dispatcher.go,
// CollectParams).
var (
	errNotRead      = errors.New("the objects that the policy reads were not read")
	ErrNotServed    = errors.New("the kind of the parameters is not served")
	ErrNoNamespace  = errors.New("the parameters are in a namespace, and the request in none")
	ErrClusterScope = errors.New("the parameters have no namespace, and the binding names one")
	errNotFound     = errors.New("no parameters were found")
)

type reading struct {
	results map[Lookup]LookupResult
	// wanted are the lookups at the last Settle, wanting those since.
	lookups, wanting map[Lookup]bool
	noting           sync.Mutex // guards wanting, which readers of the facts write, too
	// withObjects says that objects are read, too: in one namespace, or in all if within is "".
	withObjects bool
	within      string
	manifests   bool
	// namespace returns nil if it is not known whole.
	namespace func(name string) *corev1.Namespace
	// podLabels is Cluster.PodLabels, and byLabels the namespaces where it decided a refusal.
	podLabels func(namespace string) []labels.Set
	byLabels  map[string]bool
}

// lookUp also requests the lookup.
func (r *reading) lookUp(l Lookup) (LookupResult, bool) {
	r.noting.Lock()
	if len(r.wanting) < maxLookups {
		r.wanting[l] = true
	}
	r.noting.Unlock()
	result, read := r.results[l]
	return result, read
}

func (r *reading) objects(gvr schema.GroupVersionResource, namespace string) ([]*unstructured.Unstructured, bool) {
	if !r.withObjects || r.within != "" && r.within != namespace {
		return nil, false
	}
	l := Lookup{Resource: gvr, Namespace: namespace}
	if gvr == namespacesResource {
		l.Namespace, l.Name = "", namespace
	}
	result, read := r.lookUp(l)
	return result.Objects, read
}

// parameters returns one nil if the policy has none; errors other than errNotRead are the API server's.
func (b boundPolicy) parameters(namespace string) ([]runtime.Object, error) {
	ref := b.binding.params
	if b.params == nil || ref == nil {
		return []runtime.Object{nil}, nil
	}
	l := Lookup{Kind: schema.FromAPIVersionAndKind(b.params.APIVersion, b.params.Kind), Namespace: ref.Namespace, Name: ref.Name}
	if ref.Namespace == "" {
		l.Namespace, l.Own = namespace, true
	}
	if ref.Name == "" {
		selector, err := selector(ref.Selector)
		if err != nil {
			return nil, fmt.Errorf("its paramRef: %w", err)
		}
		l.Selector = selector.String() // "" for all
	}
	result, read := b.reading.lookUp(l)
	switch {
	case !read:
		return nil, errNotRead
	case result.Err != nil:
		return nil, result.Err
	case len(result.Objects) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionv1.DenyAction:
		return nil, errNotFound
	}
	params := make([]runtime.Object, len(result.Objects))
	for i, object := range result.Objects {
		params[i] = object
	}
	return params, nil
}

func (p *Part) AskForObjects(namespace string) {
	p.reading.withObjects, p.reading.within, p.hooksDirty = true, namespace, true
}

// Lookups returns the lookups that policies and webhooks need, in order.
func (p *Part) Lookups() []Lookup {
	return slices.SortedFunc(maps.Keys(p.reading.lookups), func(a, b Lookup) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

func (p *Part) TakeIn(results map[Lookup]LookupResult) {
	if maps.EqualFunc(results, p.reading.results, LookupResult.equal) {
		return
	}
	p.reading.results = results
	p.hooksDirty = true
}

func (a LookupResult) equal(b LookupResult) bool {
	return errors.Is(a.Err, b.Err) && slices.EqualFunc(a.Objects, b.Objects, func(x, y *unstructured.Unstructured) bool {
		return x.GetUID() == y.GetUID() && x.GetResourceVersion() == y.GetResourceVersion()
	})
}

// neededRequest is a request that a deletion needs; caller is nil if unknown.
type neededRequest struct {
	op                     admission.Operation
	resource               schema.GroupVersionResource
	subresource, namespace string
	namespaceLabels        map[string]string
	caller                 user.Info
}

func (a neededRequest) attributes(object, old runtime.Object, name string) admission.Attributes {
	kind := schema.GroupVersionKind{Group: a.resource.Group, Version: a.resource.Version}
	if old != nil {
		kind = old.GetObjectKind().GroupVersionKind()
	}
	caller := cmp.Or[user.Info](a.caller, &user.DefaultInfo{})
	return admission.NewAttributesRecord(object, old, kind, a.namespace, name, a.resource, a.subresource, a.op, nil, false, caller)
}

// judge evaluates of with the objects, or else with the labels of pods, if it depends on them.
func (r *reading) judge(a neededRequest, of func(admission.Attributes) refusal) refusal {
	name := ""
	if a.resource == namespacesResource {
		name = a.namespace
	}
	blind := of(a.attributes(nil, nil, name))
	if blind.sure != may {
		return blind
	}
	objects, read := r.objects(a.resource, a.namespace)
	if !read {
		return r.judgePods(a, blind, of)
	}
	verdict := refusal{about: []string{}}
	for _, object := range objects {
		old, now := asDeleted(object, a.op, a.subresource)
		if old == nil {
			continue
		}
		if a.op != admission.Delete || a.caller == kubeletUser { // the namespace controller deletes collections: no item has a name in the request
			name = object.GetName()
		}
		one := of(a.attributes(now, old, name))
		if one.sure == no {
			continue
		}
		about := append(verdict.about, object.GetName())
		if one.sure > verdict.sure {
			verdict = one
		}
		verdict.about = about
	}
	slices.Sort(verdict.about)
	return verdict
}

// judgePods narrows the refusal of some pod's DELETE by the labels of all.
func (r *reading) judgePods(a neededRequest, some refusal, of func(admission.Attributes) refusal) refusal {
	if a.op != admission.Delete || a.resource != podsResource {
		return some
	}
	r.byLabels[a.namespace] = true
	all := r.podLabels(a.namespace)
	if len(all) == 0 {
		return some
	}
	var verdict refusal
	for _, set := range all {
		if one := of(a.attributes(nil, labeled(a.namespace, set), "")); one.sure > verdict.sure {
			verdict = one
		}
	}
	return verdict
}

func labeled(namespace string, of map[string]string) runtime.Object {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: of}}
}

// identified reports whether the object of a request is known, not only its labels.
func identified(attributes admission.Attributes) bool {
	_, partial := attributes.GetOldObject().(*metav1.PartialObjectMetadata)
	return attributes.GetOldObject() != nil && !partial
}
