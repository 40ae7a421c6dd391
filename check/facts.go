package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Described returns an object from the facts, with the parts that they hold.
func Described(f cluster.Facts, resource, namespace, name string) (Subject, error) {
	typ, err := typeIn(f, schema.ParseGroupResource(resource), namespace != "")
	if err != nil {
		return Subject{}, err
	}
	s := Subject{Type: typ, Name: name, Namespace: namespace}
	err = s.describe(f)
	s.Stub = "what is kept of it"
	s.Unseen = append(s.Unseen, s.untold(f)...)
	return s, err
}

// typeIn returns the type of a resource in the facts.
func typeIn(f cluster.Facts, resource schema.GroupResource, namespaced bool) (Type, error) {
	var types Types
	for _, k := range cluster.Builtin() {
		if !k.Past && k.GroupResource() == resource {
			types.builtin(k)
		}
	}
	if f.Defines(resource.String()) {
		types.define(f, resource.String())
	}
	if len(types.all) == 0 { // of an extension API server
		types.add(resource.WithVersion("v1").GroupVersion(), metav1.APIResource{Name: resource.Resource, Namespaced: namespaced}, true)
	}
	return types.Find(resource.String())
}

// bodies are the kinds with fields that policies read and no snapshot holds, and a description of the fields
// (TestParity).
var bodies = map[string]string{
	"daemonsets.apps":   "which nodes it may run on",
	"persistentvolumes": "whether it is bound",
}

// untold returns the parts of the object and of the user that policies read and a snapshot does not hold.
func (s *Subject) untold(f cluster.Facts) (unseen []policies.Unseen) {
	resource := s.Type.GroupResource()
	what := bodies[resource.String()]
	switch {
	case s.guarded():
		what = "what its status says"
	case resource == pods && f.Pod(s.Namespace, s.Name).Undriven:
		what = "whether its containers have ended"
	}
	if what != "" {
		unseen = append(unseen, s.part("a snapshot does not tell "+what))
	}
	for hook := range f.Webhooks() {
		if hook.FailsClosed && hook.Down && hook.Conditional && hook.Concerns("DELETE", s.Type.Group, s.Type.Resource) {
			unseen = append(unseen, s.part(fmt.Sprintf("a snapshot does not tell who asks, which webhook %s depends on", hook.Key)))
		}
	}
	return unseen
}

// unowned returns the part of a foreground deletion that is unknown without the object's UID: the facts name
// the owner of dependents by UID alone.
func (s Subject) unowned(f cluster.Facts, request *question.Request) []policies.Unseen {
	finalizers, _ := child(s.Object, "metadata")["finalizers"].([]any)
	foreground := request.With()["propagationPolicy"] == "Foreground" || slices.Contains(finalizers, any(metav1.FinalizerDeleteDependents))
	if s.UID() != "" || !foreground || !f.HoldsUp(s.Namespace) {
		return nil
	}
	return []policies.Unseen{s.part("its UID is not known, and so not which dependents its deletion in the foreground waits for: ask in the cluster")}
}

// describe fills in the object from the facts.
func (s *Subject) describe(f cluster.Facts) error {
	s.Object, s.Stub = bare(s.Type, s.Namespace, s.Name), "a snapshot"
	resource := s.Type.GroupResource().String()
	recorded, hidden := f.Recorded(resource), f.Hides(resource)
	if recorded && !hidden && !f.Describe(resource, s.Object) {
		return missingError(fmt.Sprintf("the snapshot has no %s%s", s, nearest.Hint(s.Name, f.Names(resource, s.Namespace))))
	}
	return s.finalize(f, recorded || hidden)
}

// finalize sets the finalizers of the object from the facts. They count objects, and name those with
// finalizers, or the first few: if the object is not known otherwise, that decides whether it exists.
func (s *Subject) finalize(f cluster.Facts, known bool) error {
	resource, metadata := s.Type.GroupResource().String(), child(s.Object, "metadata")
	finalizers, _ := metadata["finalizers"].([]any)
	finalizers = slices.Clone(finalizers)
	named, cut := map[string]bool{}, false
	for held := range f.Held(s.Namespace, resource) {
		if since, terminating := held.Terminating[s.Name]; terminating && metadata["deletionTimestamp"] == nil {
			metadata["deletionTimestamp"] = since
		}
		cut = cut || held.Count > len(held.Names)
		for _, name := range held.Names {
			named[name] = true
		}
		// A namespace's own are on record, separate from those in its spec.
		if s.Type.GroupResource() != namespaces && slices.Contains(held.Names, s.Name) && !slices.Contains(finalizers, any(held.Finalizer)) {
			finalizers = append(finalizers, held.Finalizer)
		}
	}
	if len(finalizers) > 0 {
		metadata["finalizers"] = finalizers
	}
	if known || named[s.Name] {
		return nil
	}
	if f.Count(s.Namespace, resource) <= len(named) {
		return missingError(fmt.Sprintf("the snapshot has no %s%s", s, nearest.Hint(s.Name, slices.Sorted(maps.Keys(named)))))
	}
	if cut {
		s.Unseen = append(s.Unseen, s.part(fmt.Sprintf("the snapshot does not name all %s that have finalizers", resource)))
	}
	return nil
}

// builtin adds a built-in kind.
func (t *Types) builtin(k cluster.Kind) {
	api := metav1.APIResource{Name: k.GroupResource().Resource, Kind: k.Kind, SingularName: strings.ToLower(k.Kind), ShortNames: k.Short, Namespaced: k.Namespaced}
	t.add(k.GroupVersion(), api, true)
}

// define adds the type of a definition, in each version that it serves: users may name any of them.
func (t *Types) define(f cluster.Facts, name string) {
	d, gr := f.Definition(name), schema.ParseGroupResource(name)
	singular := cmp.Or(d.Singular, strings.ToLower(d.Kind))
	api := metav1.APIResource{Name: gr.Resource, Kind: d.Kind, SingularName: singular, ShortNames: d.Short, Namespaced: d.Namespaced}
	served := d.Served
	if len(served) == 0 {
		served = []string{""}
	}
	for _, version := range served {
		t.add(gr.WithVersion(version).GroupVersion(), api, true) // the last is preferred
	}
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}
