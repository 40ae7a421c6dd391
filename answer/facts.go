package answer

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Described returns an object as the facts hold it; false if it does not exist.
func Described(f cluster.Facts, resource, namespace, name string) (s Subject, exists bool) {
	typ := typeIn(f, schema.ParseGroupResource(resource), namespace != "")
	s = Subject{Type: typ, Namespace: namespace, Name: name, Object: bare(typ, namespace, name), Stub: "what is kept of it"}
	hidden := f.Hides(resource)
	recorded, ok := f.Describe(resource, s.Object)
	if recorded && !hidden && !ok {
		return s, false
	}
	named := s.finalize(f)
	return s, recorded || hidden || named[name] || f.Count(namespace, resource) > len(named)
}

func typeIn(f cluster.Facts, resource schema.GroupResource, namespaced bool) Type {
	if d, defined := f.Definition(resource.String()); defined {
		typ := Type{GroupVersionResource: resource.WithVersion("")}
		if len(d.Served) > 0 {
			typ.Version = d.Served[len(d.Served)-1]
		}
		typ.Kind, typ.Namespaced = d.Kind, d.Namespaced
		return typ
	}
	for _, k := range cluster.Builtin() {
		if !k.Past && k.GroupResource() == resource {
			return Type{GroupVersionResource: resource.WithVersion(k.Version), Kind: k.Kind, Namespaced: k.Namespaced}
		}
	}
	return Type{GroupVersionResource: resource.WithVersion("v1"), Namespaced: namespaced} // of an extension API server
}

// unowned covers foreground deletions without the UID: facts name the owner of dependents by UID alone.
func (s Subject) unowned(f cluster.Facts, request *question.Request) []policies.Unseen {
	finalizers, _ := child(s.Object, "metadata")["finalizers"].([]any)
	foreground := request.With()["propagationPolicy"] == "Foreground" || slices.Contains(finalizers, any(metav1.FinalizerDeleteDependents))
	if s.UID() != "" || !foreground || !f.HoldsUp(s.Namespace) {
		return nil
	}
	return []policies.Unseen{s.part("its UID is unknown, and so are the dependents that a foreground deletion waits for: check in the cluster")}
}

// finalize adds the facts' finalizers and deletionTimestamp, and returns the named objects of its kind.
func (s *Subject) finalize(f cluster.Facts) map[string]bool {
	resource, metadata, named := s.Type.GroupResource(), child(s.Object, "metadata"), map[string]bool{}
	finalizers, _ := metadata["finalizers"].([]any)
	finalizers = slices.Clone(finalizers)
	for _, held := range f.Held(s.Namespace, resource.String()) {
		if since, terminating := held.Since(s.Name); terminating && metadata["deletionTimestamp"] == nil {
			metadata["deletionTimestamp"] = since
		}
		for _, name := range held.Names {
			named[name] = true
		}
		// A namespace's own are on record, separate from those in its spec.
		if resource != question.Namespaces && slices.Contains(held.Names, s.Name) && !slices.Contains(finalizers, any(held.Finalizer)) {
			finalizers = append(finalizers, held.Finalizer)
		}
	}
	if len(finalizers) > 0 {
		metadata["finalizers"] = finalizers
	}
	return named
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}
