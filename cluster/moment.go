package cluster

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/question"
)

// Moment is the facts during one evaluation, valid until the function that receives it returns.
type Moment struct {
	Facts
	doc     map[string]any
	request *question.Request
	under   *Moment // the snapshot below manifests, or nil
	plain   bool    // declarations on the objects of the request do not count
}

// Ask is Read with the Moment for a request.
func (w *World) Ask(r *question.Request, f func(Moment)) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	f(w.moment(r))
}

// TryAsk is Ask without waiting; it returns false instead.
func (w *World) TryAsk(r *question.Request, f func(Moment)) bool {
	if !w.mu.TryRLock() {
		return false
	}
	defer w.mu.RUnlock()
	f(w.moment(r))
	return true
}

func (w *World) moment(r *question.Request) Moment {
	at := w.seen()
	m := Moment{Facts: Facts{w, w.below, at}, doc: at.doc, request: r}
	if w.below != nil {
		under := w.below.moment(r)
		m.under = &under
	}
	return m
}

func (m Moment) over(doc map[string]any) Moment {
	m.doc = doc
	return m
}

// place returns an object's position in the order of a command that deletes several.
func (m Moment) place(resource, namespace, name string) (at int, in bool) {
	at, in = facts.Lookup(m.doc, "set", resource, namespace, name).(int)
	return at, in
}

// Is reports whether facts and time are the same as another moment's for the same request.
func (m Moment) Is(other Moment) bool { return m.at == other.at }

// View calls f with the document, which must be neither changed nor kept.
func (m Moment) View(f func(doc map[string]any)) { f(m.doc) }

// Input returns the input of policies.
func (m Moment) Input() map[string]any { return m.request.Input(m.Ownership(), m.Refusals()) }

// Together returns the moment for a request in a set.
func (m Moment) Together(set *question.Set) Moment {
	return m.over(set.In(m.doc))
}

// About returns the moment for another request.
func (m Moment) About(r *question.Request) Moment {
	if m.request = r; m.under != nil {
		under := m.under.About(r)
		m.under = &under
	}
	return m
}

// Plain returns the moment without the owners that the request's objects declare.
func (m Moment) Plain() Moment {
	m.plain = true
	return m
}

// Declared reports whether objects in the request's namespace declare owners.
func (m Moment) Declared() bool { return m.world.ownership.Declares(m.request.Within()) }

// Undeclared returns the moment without any owners declared in the request's namespace.
func (m Moment) Undeclared() Moment {
	return m.over(m.world.ownership.Undeclared(m.doc, m.request.Within())).Plain()
}

// Ownership returns the verdicts on the request's objects. A snapshot below manifests fills gaps only for
// finalizers that it has on the same kind.
func (m Moment) Ownership() Verdicts {
	verdicts := Verdicts{}
	for _, object := range m.objects() {
		maps.Copy(verdicts, m.world.verdicts(&unstructured.Unstructured{Object: object}, m.request.GroupResource(), m.request.SpecFinalizers(object)))
	}
	if m.under == nil {
		return verdicts
	}
	under := m.under.Ownership()
	for finalizer, verdict := range verdicts {
		v, _ := verdict.(map[string]any)
		recorded, _ := facts.Lookup(m.under.doc, "finalizers", finalizer, m.request.GroupResource().String()).(map[string]any)
		if v["state"] == Unasked && len(recorded) > 0 {
			verdicts[finalizer] = under[finalizer]
		}
	}
	return verdicts
}

// objects returns the request's objects; for an eviction, which has none, the pod in the facts.
func (m Moment) objects() []map[string]any {
	objects := m.request.Objects()
	if objects == nil && m.request.Trigger() == question.OnEviction {
		key := m.request.Key()
		finalizers, _ := facts.Lookup(m.doc, "pods", key.Namespace, key.Name, "finalizers").([]any)
		return []map[string]any{{"metadata": map[string]any{"namespace": key.Namespace, "name": key.Name, "finalizers": slices.Clone(finalizers)}}}
	}
	if !m.plain || m.request.Annotation(OwnerAnnotation) == "" {
		return objects
	}
	for i, object := range objects {
		without := &unstructured.Unstructured{Object: maps.Clone(object)}
		metadata, _ := object["metadata"].(map[string]any)
		without.Object["metadata"] = maps.Clone(metadata)
		annotations := without.GetAnnotations()
		delete(annotations, OwnerAnnotation)
		without.SetAnnotations(annotations)
		objects[i] = without.Object
	}
	return objects
}

// Refusals returns the request's immediate refusals.
func (m Moment) Refusals() []any {
	refusals := m.world.refusals.Of(m.request)
	if m.under != nil {
		refusals = append(refusals, m.under.Refusals()...)
	}
	return append(refusals, m.orphaned()...)
}

// orphaned returns the refusals of webhooks whose Services a command other than kubectl delete deletes before
// the request's object, and their configurations later, or never.
func (m Moment) orphaned() []any {
	if m.doc["setOrder"] == nil {
		return nil
	}
	key := m.request.Key()
	at, in := m.place(m.request.GroupResource().String(), key.Namespace, key.Name)
	if !in {
		return nil
	}
	return m.world.refusals.Once(m.request, func(hook, namespace, name string) bool {
		first, goes := m.place("services", namespace, name)
		kind, webhook, _ := strings.Cut(hook, "/")
		configuration, _, _ := strings.Cut(webhook, "/")
		last, ends := m.place(kind+"webhookconfigurations.admissionregistration.k8s.io", "", configuration)
		return goes && first < at && (!ends || last > at)
	})
}

// Guards returns the webhooks, TYPE/CONFIGURATION/NAME, with an unpredictable answer.
func (m Moment) Guards() []string { return m.world.refusals.Guards(m.request) }

// Knows reports whether the facts, not only the review, know the request's object.
func (m Moment) Knows() bool {
	resource, key := m.request.GroupResource(), m.request.Key()
	switch resource {
	case question.Namespaces, question.Nodes:
		if facts.Lookup(m.doc, resource.Resource, key.Name) != nil {
			return true
		}
	case question.Pods:
		if facts.Lookup(m.doc, "pods", key.Namespace, key.Name) != nil {
			return true
		}
	}
	old := &unstructured.Unstructured{Object: m.request.Old()}
	return slices.ContainsFunc(old.GetFinalizers(), func(finalizer string) bool {
		return m.world.ownership.Carries(resource.String(), key, old.GetUID(), finalizer)
	})
}

// verdicts takes declarations from the inventory if the object has no UID, as in an eviction: it is only
// named.
func (w *World) verdicts(obj *unstructured.Unstructured, res schema.GroupResource, specFinalizers []string) map[string]any {
	verdicts := w.ownership.Ownership(obj, res, specFinalizers)
	for finalizer, lacks := range w.references.Missing(res.String(), obj) {
		verdict, ok := verdicts[finalizer].(map[string]any)
		if !ok {
			continue
		}
		verdict = maps.Clone(verdict) // it is shared
		for field, values := range lacks {
			verdict[field] = values
		}
		verdicts[finalizer] = verdict
	}
	return verdicts
}
