package cluster

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/question"
)

const maxConditioned = 50

// Conditioned is an object whose status conditions matter.
type Conditioned struct {
	schema.GroupVersionResource
	Namespace, Name string
}

// TakeConditions keeps the status conditions of Conditioned, and warnings about them. read returns nil for
// unreadable objects.
func (w *World) TakeConditions(namespace string, read func(Conditioned) *unstructured.Unstructured) {
	objects := w.Conditioned(namespace)
	if len(objects) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	doc := facts.Document{}
	for _, o := range objects {
		if object, resource := read(o), o.GroupResource().String(); object != nil {
			doc.Put(append(question.Conditions(object.Object), w.warningsAbout(resource, namespace, object.GetUID())...), resource, o.Name)
		}
	}
	w.doc.Put(map[string]any(doc), "conditions", namespace)
}

// Conditioned returns custom objects of a namespace with a finalizer whose owner may be alive, round-robin by
// resource.
func (w *World) Conditioned(namespace string) (objects []Conditioned) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	names := facts.Sets[string, string]{} // by resource
	for _, held := range w.ownership.Holdings(namespace, "") {
		// The words of a dead owner are old.
		if state := held.Owner.State; !w.ownership.Defined(held.Resource) || state != Alive && state != Unknown {
			continue
		}
		for _, name := range held.Names {
			names.Add(held.Resource, name)
		}
	}
	for nth, more := 0, true; more; nth++ {
		more = false
		for _, resource := range slices.Sorted(maps.Keys(names)) {
			if list := slices.Sorted(maps.Keys(names[resource])); nth < len(list) {
				version := ""
				if d, _ := w.refusals.Definition(resource); len(d.Served) > 0 {
					version = d.Served[0]
				}
				objects, more = append(objects, Conditioned{schema.ParseGroupResource(resource).WithVersion(version), namespace, list[nth]}), true
			}
			if len(objects) == maxConditioned {
				return objects
			}
		}
	}
	return objects
}
