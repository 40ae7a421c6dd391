package cluster

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/question"
)

// TestBodies checks that a snapshot has the fields of an object that policies read, and omits an
// object of which it would have only some.
func TestBodies(t *testing.T) {
	object := map[string]any{
		"apiVersion": "x.io/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": "it", "namespace": "a", "creationTimestamp": "2026-11-21T09:00:00Z", "finalizers": []any{"x.io/cleanup"}},
		"spec": map[string]any{
			"password":  "secret",
			"partRef":   map[string]any{"kind": "Part", "name": "p", "uid": "u"},
			"wheelRefs": []any{map[string]any{"kind": "Wheel", "name": "w1"}, map[string]any{"kind": "Wheel", "name": "w2"}, "odd"},
			"inner":     map[string]any{"seatRef": map[string]any{"kind": "Seat", "name": "s"}, "deep": map[string]any{"lostRef": map[string]any{"kind": "Lost", "name": "l"}}},
		},
		"status": map[string]any{
			"conditions": []any{map[string]any{"type": "Ready", "status": "False"}},
			"resources":  []any{map[string]any{"apiVersion": "x.io/v1", "kind": "Part", "namespace": "a", "name": "q", "ready": true}},
			"phase":      "Failed",
		},
	}
	with := func(change func(spec map[string]any)) *unstructured.Unstructured {
		copied := (&unstructured.Unstructured{Object: object}).DeepCopy()
		if change != nil {
			change(copied.Object["spec"].(map[string]any))
		}
		return copied
	}
	// inSnapshot returns the object as a snapshot has it, nil if it is omitted.
	inSnapshot := func(alive bool, o *unstructured.Unstructured) map[string]any {
		text := gadget + as("one", anAccount, controls, running)
		if !alive {
			text = gadget
		}
		w := world(t, text)
		w.TakeBodies(func(resource Resource, namespace, name string) *unstructured.Unstructured {
			if resource.String() != "gadgets.x.io" || namespace != "a" || name != "it" {
				t.Errorf("unexpected read of %s %s/%s", resource, namespace, name)
			}
			return o
		})
		if strings.Contains(string(written(t, w)), "secret") {
			t.Error("the snapshot has an object that no policy reads")
		}
		read, err := FromDocument(document(t, w))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]any{"metadata": map[string]any{"namespace": "a", "name": "it"}}
		bodied := false
		read.Read(func(f Facts) {
			bodied = f.Bodied("a", "gadgets.x.io", "it")
			f.Embody("gadgets.x.io", found)
		})
		delete(found, "metadata")
		if !bodied {
			if len(found) > 0 {
				t.Errorf("the snapshot has an unread object: %v", found)
			}
			return nil
		}
		return found
	}
	ref := func(kind, name string) map[string]any { return map[string]any{"kind": kind, "name": name} }
	want := map[string]any{
		"spec": map[string]any{
			"partRef": ref("Part", "p"), "wheelRefs": []any{ref("Wheel", "w1"), ref("Wheel", "w2")},
			"inner": map[string]any{"seatRef": ref("Seat", "s")},
		},
		"status": map[string]any{
			"conditions": []any{map[string]any{"created": "2026-11-21T09:00:00Z", "type": "Ready", "status": "False"}},
			"resources":  []any{map[string]any{"apiVersion": "x.io/v1", "kind": "Part", "namespace": "a", "name": "q"}},
		},
	}
	if diff := cmp.Diff(want, inSnapshot(true, with(nil))); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	many := make([]any, maxMentions+1)
	for i := range many {
		many[i] = ref("Wheel", "w")
	}
	for reason, change := range map[string]func(spec map[string]any){
		"it names more than is kept": func(spec map[string]any) { spec["wheelRefs"] = many },
		"a key has a dot":            func(spec map[string]any) { spec["a.bRef"] = ref("Part", "p") },
		"a key above has one":        func(spec map[string]any) { spec["a.b"] = map[string]any{"cRef": ref("Part", "p")} },
		"a name is longer than any can be": func(spec map[string]any) {
			spec["partRef"] = ref("Part", strings.Repeat("p", question.MaxConditionText+1))
		},
		"a map in place of a list": func(spec map[string]any) { spec["wheelRefs"] = map[string]any{"first": ref("Wheel", "w")} },
		"a map of them stands further down": func(spec map[string]any) {
			spec["inner"] = map[string]any{"wheelRefs": map[string]any{"a": ref("Wheel", "w")}}
		},
	} {
		if found := inSnapshot(true, with(change)); found != nil {
			t.Errorf("%s: got %v", reason, found)
		}
	}
	if inSnapshot(true, nil) != nil {
		t.Error("the snapshot has an object that could not be read")
	}
	if inSnapshot(true, with(func(spec map[string]any) { spec["a.b"] = "text" })) == nil {
		t.Error("an unrelated key with a dot made the object unknown")
	}
	if found := inSnapshot(false, with(nil)); found != nil {
		t.Errorf("got %v, although no live owner needs it", found)
	}
}

// TestReadBodies checks that bodies are read from the API server by name.
func TestReadBodies(t *testing.T) {
	var reads []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads = append(reads, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion": "x.io/v1", "kind": "Gadget", "metadata": {"name": "it", "namespace": "a"}, "spec": {"partRef": {"kind": "Part", "name": "p"}}}`))
	}))
	t.Cleanup(server.Close)
	w := world(t, gadget+as("one", anAccount, controls, running))
	if err := w.ReadBodies(t.Context(), &rest.Config{Host: server.URL}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/api/v1/events", "/apis/x.io/v1/namespaces/a/gadgets/it"}, reads); diff != "" {
		t.Errorf("reads: -want +got\n%s", diff)
	}
	if at(w, "bodies", "a", "gadgets.x.io", "it", "names") == nil {
		t.Error("the named objects are not kept")
	}
}
