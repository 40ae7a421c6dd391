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

// Add adds an object, with its place in the order of the command. What has one place
// goes at once, or in an order that nobody knows.
func (s *Set) Add(o policies.Object, place int) {
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
	within[o.Name] = place
}

// Empty tells whether nothing was added.
func (s *Set) Empty() bool { return len(s.objects) == 0 }

// Over are facts with the set in them.
func (s *Set) Over(facts policies.Facts) policies.Facts { return over{facts, s} }

type over struct {
	policies.Facts
	set *Set
}

func (o over) View(f func(doc map[string]any)) {
	o.Facts.View(func(doc map[string]any) {
		doc = maps.Clone(doc)
		doc["set"] = o.set.objects
		if o.set.By != "" {
			doc["setOrder"] = map[string]any{"by": o.set.By, "waits": o.set.Waits}
		}
		f(doc)
	})
}
