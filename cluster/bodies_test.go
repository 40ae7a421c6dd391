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

// TestBodies: a snapshot holds of an object what policies read of it, and nothing of one
// that it would hold in part only.
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
	// told is the object as a snapshot tells of it; nil where it does not.
	told := func(alive bool, o *unstructured.Unstructured) map[string]any {
		text := gadget + as("one", anAccount, controls, running)
		if !alive {
			text = gadget
		}
		w := world(t, text)
		w.TakeBodies(func(resource Resource, namespace, name string) *unstructured.Unstructured {
			if resource.String() != "gadgets.x.io" || namespace != "a" || name != "it" {
				t.Errorf("it reads %s %s/%s", resource, namespace, name)
			}
			return o
		})
		if strings.Contains(string(written(t, w)), "secret") {
			t.Error("the snapshot holds what no policy reads")
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
				t.Errorf("it is not known, and told of: %v", found)
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
	if diff := cmp.Diff(want, told(true, with(nil))); diff != "" {
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
		"what should be a list is a map": func(spec map[string]any) { spec["wheelRefs"] = map[string]any{"first": ref("Wheel", "w")} },
		"a map of them stands further down": func(spec map[string]any) {
			spec["inner"] = map[string]any{"wheelRefs": map[string]any{"a": ref("Wheel", "w")}}
		},
	} {
		if found := told(true, with(change)); found != nil {
			t.Errorf("%s: it is told as %v", reason, found)
		}
	}
	if told(true, nil) != nil {
		t.Error("it could not be read, and is known")
	}
	if told(true, with(func(spec map[string]any) { spec["a.b"] = "text" })) == nil {
		t.Error("a key with a dot that names nothing is no reason not to know it")
	}
	if found := told(false, with(nil)); found != nil {
		t.Errorf("nobody is alive for whom it matters, and it is told as %v", found)
	}
}

// TestReadBodies asks the API server for them, each by its name.
func TestReadBodies(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion": "x.io/v1", "kind": "Gadget", "metadata": {"name": "it", "namespace": "a"}, "spec": {"partRef": {"kind": "Part", "name": "p"}}}`))
	}))
	t.Cleanup(server.Close)
	w := world(t, gadget+as("one", anAccount, controls, running))
	if err := w.ReadBodies(t.Context(), &rest.Config{Host: server.URL}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/api/v1/events", "/apis/x.io/v1/namespaces/a/gadgets/it"}, asked); diff != "" {
		t.Errorf("asked: -want +got\n%s", diff)
	}
	if at(w, "bodies", "a", "gadgets.x.io", "it", "names") == nil {
		t.Error("what it names is not kept")
	}
}
