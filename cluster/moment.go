package cluster

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/references"
	"github.com/termguard/termguard/question"
)

// Moment is the facts as they stand while one question is answered, and what they tell of
// its request. It is over when the function that it is given to returns.
type Moment struct {
	Facts
	at      *viewed
	doc     map[string]any
	request *question.Request
	world   *World
	below   *Moment // what it is laid over, nil for nothing
	plain   bool    // what the objects of the request declare does not count
}

// Ask calls f with this moment, about a request. The facts stand still until f returns: it
// must not ask the World anything else, which may wait for who waits for f.
func (w *World) Ask(r *question.Request, f func(Moment)) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	f(w.moment(r))
}

// TryAsk is Ask where it takes no wait; elsewhere it does nothing, and returns false.
func (w *World) TryAsk(r *question.Request, f func(Moment)) bool {
	if !w.mu.TryRLock() {
		return false
	}
	defer w.mu.RUnlock()
	f(w.moment(r))
	return true
}

func (w *World) moment(r *question.Request) Moment {
	at := w.mu.view(w.doc, w.now())
	return Moment{at: at, request: r, world: w}.over(at.doc)
}

// over is the moment with another document.
func (m Moment) over(doc map[string]any) Moment {
	m.doc, m.Facts = doc, facts.Read(doc)
	return m
}

// Is tells whether nothing changed since another moment, about the same request, not even
// the time.
func (m Moment) Is(other Moment) bool { return m.at == other.at }

// View calls f with the document, which is for policies, and must be neither changed nor
// kept.
func (m Moment) View(f func(doc map[string]any)) { f(m.doc) }

// Input is what policies are asked about the request.
func (m Moment) Input() map[string]any { return m.request.Input(m.Ownership(), m.Refusals()) }

// Together is the same moment for a request that is one of a set.
func (m Moment) Together(set *question.Set) Moment {
	return m.over(set.In(m.doc))
}

// About is the same moment for another request.
func (m Moment) About(r *question.Request) Moment {
	if m.request = r; m.below != nil {
		below := m.below.About(r)
		m.below = &below
	}
	return m
}

// Plain is the same moment, as if the objects of the request did not declare who removes
// their finalizers.
func (m Moment) Plain() Moment {
	m.plain = true
	return m
}

// Declared tells whether other objects in the namespace of the request declare who removes
// their finalizers.
func (m Moment) Declared() bool { return m.world.ownership.Declares(m.request.Within()) }

// Undeclared is the same moment, as if no object in the namespace of the request declared
// who removes its finalizers.
func (m Moment) Undeclared() Moment {
	return m.over(m.world.ownership.Undeclared(m.doc, m.request.Within())).Plain()
}

// Ownership tells who removes the finalizers of the objects of the request, whether or not
// they are part of the inventory: the verdict of each finalizer, by its name, with what
// the owner needs and does not find. What manifests leave open, a snapshot that they are
// laid over may hold a verdict on. It holds those on finalizers that were on objects of
// the same kind when it was made, and cannot judge others.
func (m Moment) Ownership() Verdicts {
	verdicts := Verdicts{}
	for _, object := range m.objects() {
		maps.Copy(verdicts, m.world.verdicts(&unstructured.Unstructured{Object: object}, m.request.GroupResource(), m.request.SpecFinalizers(object)))
	}
	if m.below == nil {
		return verdicts
	}
	known := m.below.Ownership()
	for finalizer, verdict := range verdicts {
		v, _ := verdict.(map[string]any)
		recorded, _ := facts.Lookup(m.below.doc, "finalizers", finalizer, m.request.GroupResource().String()).(map[string]any)
		if v["state"] == Unasked && len(recorded) > 0 {
			verdicts[finalizer] = known[finalizer]
		}
	}
	return verdicts
}

// objects are those of the request: of an eviction, which carries none, the pod as far as
// the facts know it.
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

// Refusals are what refuses the request at once. A snapshot knows less: what it has on the
// deletes of the namespace controller, which may not hold for a person.
func (m Moment) Refusals() []any {
	found := m.world.refusals.Of(m.request)
	if m.world.snapshot && !m.request.UnderWay {
		found = append(found, m.recordedRefusals()...)
	}
	if m.below != nil {
		found = append(found, m.below.Refusals()...)
	}
	return append(found, m.orphaned()...)
}

// orphaned are the refusals of webhooks whose Services another command than kubectl delete
// deletes before the object of the request, and whose configurations it deletes after that, or
// not at all.
func (m Moment) orphaned() []any {
	if m.doc["setOrder"] == nil {
		return nil
	}
	key := m.request.Key()
	at, in := m.Place(m.request.GroupResource().String(), key.Namespace, key.Name)
	if !in {
		return nil
	}
	return m.world.refusals.Once(m.request, func(hook, namespace, name string) bool {
		first, goes := m.Place("services", namespace, name)
		kind, webhook, _ := strings.Cut(hook, "/")
		configuration, _, _ := strings.Cut(webhook, "/")
		last, ends := m.Place(kind+"webhookconfigurations.admissionregistration.k8s.io", "", configuration)
		return goes && first < at && (!ends || last > at)
	})
}

// Guards are the webhooks, TYPE/CONFIGURATION/NAME, of which nobody knows what they answer to
// the request before they are asked.
func (m Moment) Guards() []string { return m.world.refusals.Guards(m.request) }

// recordedRefusals are those of a snapshot for the same kind of request.
func (m Moment) recordedRefusals() (found []any) {
	if m.request.GroupResource() == question.Namespaces {
		return nil
	}
	for _, section := range []string{"blocked", "denied"} {
		prefix := map[string]string{"blocked": "webhook/", "denied": "policy/"}[section]
		sources, _ := facts.Lookup(m.world.doc, section, m.request.Namespace).(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(sources)) {
			calls, _ := sources[key].([]any)
			for _, call := range calls {
				call, _ := call.(map[string]any)
				if call["operation"] == string(m.request.Operation) && call["resource"] == m.request.GroupResource().String() && call["subresource"] == "" && call["last"] == nil && call["names"] == nil {
					found = append(found, map[string]any{"by": prefix + key, "certainty": "may", "cause": call["cause"], "why": call["why"]})
				}
			}
		}
	}
	return found
}

// Knows tells whether the facts know the object of the request, and not only the review
// does.
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

// beside are the things, of manifests, that the owner of a finalizer needs, and no finalizer keeps.
func (w *World) beside(finalizer, resource string, obj metav1.Object) (found []any) {
	u, whole := obj.(*unstructured.Unstructured)
	if !whole || w.options.Manifests == nil {
		return nil
	}
	for _, thing := range w.references.Waits(finalizer, resource, u) {
		if !w.ownership.Holds(thing.Resource, thing.NamespacedName) {
			found = append(found, map[string]any{"resource": thing.Resource, "namespace": thing.Namespace, "name": thing.Name})
		}
	}
	return found
}

// verdicts are those on the finalizers of one object, by finalizer. For a namespace,
// specFinalizers are those of spec.finalizers. An object without a UID is only named, as by
// an eviction: what it tells itself is what the inventory has.
func (w *World) verdicts(obj metav1.Object, res schema.GroupResource, specFinalizers []string) map[string]any {
	recorded := func(finalizer, resource, evidence string) any {
		return w.recorded(obj, finalizer, resource, evidence)
	}
	verdicts := w.ownership.Ownership(obj, res, specFinalizers, recorded)
	for finalizer, verdict := range verdicts {
		verdict, _ := verdict.(map[string]any)
		var missing, unallowed []any
		if w.snapshot {
			missing = references.Recorded(w.doc, finalizer, res.String(), obj)
			unallowed = references.RecordedRights(w.doc, finalizer, res.String(), obj)
		} else {
			missing = w.references.Missing(finalizer, res.String(), obj)
			unallowed = w.references.Unallowed(finalizer, res.String(), obj)
		}
		beside := w.beside(finalizer, res.String(), obj)
		if len(missing)+len(unallowed)+len(beside) == 0 {
			continue
		}
		verdict = maps.Clone(verdict) // which others share
		if len(beside) > 0 {
			verdict["beside"] = beside
		}
		if len(missing) > 0 {
			verdict["missing"] = missing
		}
		if len(unallowed) > 0 {
			verdict["unallowed"] = unallowed
		}
		verdicts[finalizer] = verdict
	}
	return verdicts
}
