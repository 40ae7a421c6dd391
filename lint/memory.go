package lint

import (
	"encoding/json"
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/termguard/termguard/lint/source"
)

// What a set keeps of its objects. A small one holds the text of its documents, and its
// objects whole. A large one, of more than maxLoaded, holds one document at a time: an object
// is made once and its text released; trimmed to its metadata, until it is asked about; or,
// where the facts hold no more of it than a count, packed as JSON.

// plain is where an object stands of which the facts hold no more than a count.
type plain struct {
	kind      schema.GroupVersionKind
	namespace string
}

// maxLoaded bounds the text that a set holds while it is linted, with some fifty
// times as much for what is parsed of it: what is beyond is read again when it
// is asked about.
const maxLoaded = 256 << 10

// release forgets the text that is held: what is still wanted of it is read again.
func (s *set) release() {
	for _, o := range s.objects {
		o.Release()
	}
}

// make takes from objects what is asked for, so that they need not be read again
// for it, and releases them.
func (s *set) make(objects []*source.Object) {
	_, err := s.run.engine()
	if err == nil && s.made == nil {
		s.made = map[*source.Object]*subject{}
	}
	for _, o := range objects {
		if err == nil { // else it ends the run
			s.made[o] = s.subject(o)
		}
	}
	objects[0].Release()
}

// load makes an object readable. A large set holds one document at a time, for to
// read it again for each of its objects would take the square of their number.
func (s *set) load(o *source.Object) error {
	if s.loaded > maxLoaded && s.held != o.Text {
		if s.held != nil {
			s.held.Release()
		}
		s.held = o.Text
	}
	return o.Load()
}

// pack keeps an object of a large set in a tenth of the memory, unless it is the
// first of its kind in its namespace: the facts need only count the others.
func (s *set) pack(sub *subject) {
	at := plain{sub.object.GroupVersionKind(), sub.Namespace}
	if !s.plain[at] {
		if s.plain == nil {
			s.plain = map[plain]bool{}
		}
		s.plain[at] = true
		return
	}
	if packed, err := json.Marshal(sub.object.Object["metadata"]); err == nil {
		sub.packed, sub.object = packed, nil
	}
}

// packed are the objects that are, one at a time.
func packed(subjects []*subject) iter.Seq[*unstructured.Unstructured] {
	return func(yield func(*unstructured.Unstructured) bool) {
		for _, sub := range subjects {
			if sub.packed == nil {
				continue
			}
			sub.unpack()
			object := sub.object
			sub.object = nil
			if !yield(object) {
				return
			}
		}
	}
}

// unpack makes the object of a subject that is kept without one; done forgets it.
func (sub *subject) unpack() (done func()) {
	if sub.object != nil {
		return func() {}
	}
	object := map[string]any{"apiVersion": sub.APIVersion, "kind": sub.Kind}
	if sub.implied {
		name := sub.id.Name
		object = map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name}},
			"spec":     map[string]any{"finalizers": []any{"kubernetes"}}, "status": map[string]any{"phase": "Active"},
		}
	} else {
		var metadata map[string]any
		_ = kjson.UnmarshalCaseSensitivePreserveInts(sub.packed, &metadata) // it was written by pack
		object["metadata"] = metadata
	}
	sub.object = &unstructured.Unstructured{Object: object}
	return func() { sub.object = nil }
}

// trim forgets all of an object but its metadata; complete reads it again.
func (sub *subject) trim() {
	if sub.whole {
		sub.trimmed = true
		sub.object.Object = map[string]any{"apiVersion": sub.APIVersion, "kind": sub.Kind, "metadata": sub.object.Object["metadata"]}
	}
}

func (s *set) complete(sub *subject) error {
	if !sub.trimmed {
		return nil
	}
	if err := s.load(sub.Object); err != nil {
		return err
	}
	value, err := s.value(sub.Object)
	if err != nil {
		return err
	}
	if !s.run.kind(sub.object).reduced {
		delete(value, "status")
	}
	value["metadata"] = sub.object.Object["metadata"]
	sub.object.Object, sub.trimmed = value, false
	return nil
}

// whole reads objects again of which only the metadata was read, up to maxLoaded bytes
// of them.
func (s *set) whole(subjects []*subject) func(*unstructured.Unstructured) *unstructured.Unstructured {
	of := sync.OnceValue(func() map[*unstructured.Unstructured]*subject {
		found := map[*unstructured.Unstructured]*subject{}
		for _, sub := range subjects {
			if sub.object != nil && !sub.whole {
				found[sub.object] = sub
			}
		}
		return found
	})
	left := maxLoaded
	return func(object *unstructured.Unstructured) *unstructured.Unstructured {
		sub := of()[object]
		if sub == nil {
			return object
		}
		if left <= 0 || s.load(sub.Object) != nil {
			return object
		}
		left -= sub.Size()
		value, err := s.value(sub.Object)
		if err != nil || !wellFormed(value) {
			return object
		}
		value["metadata"] = object.Object["metadata"]
		return &unstructured.Unstructured{Object: value}
	}
}
