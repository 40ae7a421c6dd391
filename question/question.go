// Package question builds what policies are asked where no API server asks: the
// AdmissionRequest that it would send (k8s.io/api/admission/v1), and the facts of
// objects that are deleted together.
package question

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/policies"
)

// Target is the object that a question is about.
type Target struct {
	Kind            schema.GroupVersionKind
	Resource        schema.GroupVersionResource
	Namespace, Name string
	// Object as the API server holds it, or as much of it as is known.
	Object map[string]any
	// User who would ask, userInfo of the request; nil where unknown.
	User map[string]any
}

// Delete is the request for its deletion, with options of kind DeleteOptions.
func (t Target) Delete(options map[string]any) map[string]any {
	request := t.request("DELETE", options)
	request["oldObject"] = t.Object
	return request
}

// Drain is the question of whether all pods of a node can be evicted. No API server
// sends it: a drain is a loop of its client.
func (t Target) Drain() map[string]any {
	request := t.request("CONNECT", nil)
	request["subResource"] = "drain"
	return request
}

// Create is the request for its creation, as kubectl apply sends it.
func (t Target) Create() map[string]any {
	request := t.request("CREATE", createOptions)
	request["object"] = t.Object
	return request
}

// What kubectl sends; nothing changes it.
var createOptions = map[string]any{"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}

func (t Target) request(operation string, options map[string]any) map[string]any {
	namespace := t.Namespace
	if t.Resource.Group == "" && t.Resource.Resource == "namespaces" {
		namespace = t.Name // a namespace's request carries its own name there
	}
	kind := map[string]any{"group": t.Kind.Group, "version": t.Kind.Version, "kind": t.Kind.Kind}
	resource := map[string]any{"group": t.Resource.Group, "version": t.Resource.Version, "resource": t.Resource.Resource}
	request := map[string]any{
		"uid": "question", "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
		"name": t.Name, "namespace": namespace, "operation": operation, "dryRun": false,
		"object": nil, "oldObject": nil, "options": options,
	}
	if t.User != nil {
		request["userInfo"] = t.User
	}
	return request
}

// Set are objects that are deleted together: by resource, namespace and name, as
// policies see them in data.cluster.set. The zero value is ready for use.
type Set struct{ objects map[string]any }

// Add adds an object.
func (s *Set) Add(o policies.Object) {
	if s.objects == nil {
		s.objects = map[string]any{}
	}
	within := s.objects
	for _, key := range []string{o.Resource, o.Namespace} {
		next, _ := within[key].(map[string]any)
		if next == nil {
			next = map[string]any{}
			within[key] = next
		}
		within = next
	}
	within[o.Name] = true
}

// Empty tells whether nothing was added.
func (s *Set) Empty() bool { return len(s.objects) == 0 }

// Over are facts with the set in them.
func (s *Set) Over(facts policies.Facts) policies.Facts { return over{facts, s.objects} }

type over struct {
	policies.Facts
	set map[string]any
}

func (o over) View(f func(doc map[string]any)) {
	o.Facts.View(func(doc map[string]any) {
		doc = maps.Clone(doc)
		doc["set"] = o.set
		f(doc)
	})
}
