package question

import (
	"maps"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Target is an object that somebody asks about where no API server does.
type Target struct {
	Kind            schema.GroupVersionKind
	Resource        schema.GroupVersionResource
	Namespace, Name string
	// Object as the API server holds it, or as much of it as is known.
	Object map[string]any
	// User who would ask; the zero value where that is not known.
	User authenticationv1.UserInfo
}

// Delete is the request for its deletion, with options of kind DeleteOptions.
func (t Target) Delete(options map[string]any) *Request {
	r := t.request(admissionv1.Delete, options)
	r.OldObject = Part(t.Object)
	return r
}

// Evict is the request for the eviction of a pod, with options for its deletion. It carries
// no pod.
func (t Target) Evict(options map[string]any) *Request {
	r := t.request(admissionv1.Create, createOptions)
	r.SubResource, r.subject = "eviction", t.Object
	eviction := map[string]any{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": t.Name, "namespace": t.Namespace}}
	if options != nil {
		eviction["deleteOptions"] = options
	}
	r.Object = Part(eviction)
	return r
}

// Drain is the question of whether all pods of a node can be evicted. No API server
// sends it: a drain is a loop of its client.
func (t Target) Drain() *Request {
	r := t.request(admissionv1.Connect, nil)
	r.SubResource, r.subject = "drain", t.Object
	return r
}

// Create is the request for its creation, as kubectl apply sends it.
func (t Target) Create() *Request {
	r := t.request(admissionv1.Create, createOptions)
	r.Object = Part(t.Object)
	return r
}

// What kubectl sends; nothing changes it.
var createOptions = map[string]any{"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}

// Edit is the request that makes another of it; Finalize is that for the finalizers in the
// spec of a namespace.
func (t Target) Edit(after map[string]any) *Request {
	r := t.request(admissionv1.Update, nil)
	r.OldObject, r.Object = Part(t.Object), Part(after)
	return r
}

// Finalize is Edit through the subresource that namespaces have for it.
func (t Target) Finalize(after map[string]any) *Request {
	r := t.Edit(after)
	r.SubResource = "finalize"
	return r
}

func (t Target) request(operation admissionv1.Operation, options map[string]any) *Request {
	r := &Request{}
	r.UID, r.Operation, r.Options, r.DryRun, r.UserInfo = "question", operation, Part(options), new(bool), t.User
	r.Kind = metav1.GroupVersionKind{Group: t.Kind.Group, Version: t.Kind.Version, Kind: t.Kind.Kind}
	r.Resource = metav1.GroupVersionResource{Group: t.Resource.Group, Version: t.Resource.Version, Resource: t.Resource.Resource}
	r.RequestKind, r.RequestResource = &r.Kind, &r.Resource
	r.Name, r.Namespace = t.Name, t.Namespace
	if r.GroupResource() == Namespaces {
		r.Namespace = t.Name // a namespace's request carries its own name there
	}
	return r
}

// Set are objects that one command deletes: by resource, namespace and name, as
// policies see them in data.cluster.set. The zero value is that of kubectl delete -f.
type Set struct {
	// By is the command, in words.
	By string
	// Waits tells that the command goes on to the next place only when all of one are
	// gone.
	Waits   bool
	objects map[string]any
}

// Add adds an object, by its resource (plural, or plural.group), with its place in the
// order of the command. What has one place goes at once, or in an order that nobody knows.
func (s *Set) Add(resource, namespace, name string, place int) {
	if s.objects == nil {
		s.objects = map[string]any{}
	}
	within := s.objects
	for _, key := range []string{resource, namespace} {
		next, _ := within[key].(map[string]any)
		if next == nil {
			next = map[string]any{}
			within[key] = next
		}
		within = next
	}
	within[name] = place
}

// Empty tells whether nothing was added.
func (s *Set) Empty() bool { return len(s.objects) == 0 }

// Facts are a facts document that stands still.
type Facts interface {
	View(f func(doc map[string]any))
}

// Over are facts with the set in them.
func (s *Set) Over(facts Facts) Facts { return over{facts, s} }

type over struct {
	facts Facts
	set   *Set
}

func (o over) View(f func(doc map[string]any)) {
	o.facts.View(func(doc map[string]any) { f(o.set.In(doc)) })
}

// In is a facts document with the set in it; of the document itself, the top level only is
// copied.
func (s *Set) In(doc map[string]any) map[string]any {
	doc = maps.Clone(doc)
	doc["set"] = s.objects
	if s.By != "" {
		doc["setOrder"] = map[string]any{"by": s.By, "waits": s.Waits}
	}
	return doc
}
