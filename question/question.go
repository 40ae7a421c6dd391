package question

import (
	"maps"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Target is an object without a request.
type Target struct {
	Kind            schema.GroupVersionKind
	Resource        schema.GroupVersionResource
	Namespace, Name string
	// Object is the API server's, as far as known.
	Object map[string]any
	// User would send the request; zero if unknown.
	User authenticationv1.UserInfo
}

func (t Target) Delete(options map[string]any) *Request {
	r := t.request(admissionv1.Delete, options)
	r.OldObject = Part(t.Object)
	return r
}

// Evict returns the request that evicts the pod, which it does not carry.
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

// Drain returns the question whether a node can be drained. API servers never see it: clients evict pods.
func (t Target) Drain() *Request {
	r := t.request(admissionv1.Connect, nil)
	r.SubResource, r.subject = "drain", t.Object
	return r
}

// Create returns the request that creates the target, as kubectl apply sends it.
func (t Target) Create() *Request {
	r := t.request(admissionv1.Create, createOptions)
	r.Object = Part(t.Object)
	return r
}

// createOptions are kubectl's. Read-only.
var createOptions = map[string]any{"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}

func (t Target) Edit(after map[string]any) *Request {
	r := t.request(admissionv1.Update, nil)
	r.OldObject, r.Object = Part(t.Object), Part(after)
	return r
}

// Finalize returns Edit through the finalize subresource of namespaces.
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
		r.Namespace = t.Name // requests for a Namespace carry its name here
	}
	return r
}

// Set is the objects that one command deletes: data.cluster.set. The zero value is for kubectl delete -f.
type Set struct {
	By string
	// Waits means that each place is deleted only after the previous one is.
	Waits   bool
	objects map[string]any
}

// Add adds an object of a resource (plural, or plural.group). Objects in one place are deleted together, or
// in unknown order.
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

// In returns doc with the set; only the top level is copied.
func (s *Set) In(doc map[string]any) map[string]any {
	doc = maps.Clone(doc)
	doc["set"] = s.objects
	if s.By != "" {
		doc["setOrder"] = map[string]any{"by": s.By, "waits": s.Waits}
	}
	return doc
}
