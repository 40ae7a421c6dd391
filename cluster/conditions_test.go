package cluster

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/question"
)

// TestReadConditions reads the conditions of gadgets whose owner is alive.
func TestReadConditions(t *testing.T) {
	var mu sync.Mutex
	var reads []string
	status := map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "False", "reason": "NotFound", "message": strings.Repeat("é", 1<<20), "observedGeneration": 1, "lastTransitionTime": 7},
		"nonsense",
	}}
	for range 100 {
		status["conditions"] = append(status["conditions"].([]any), map[string]any{"type": "X"})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		reads = append(reads, r.URL.Path)
		mu.Unlock()
		if path.Base(r.URL.Path) == "b" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		object := map[string]any{"apiVersion": "x.io/v1", "kind": "Gadget", "metadata": map[string]any{"name": path.Base(r.URL.Path), "creationTimestamp": "2026-11-21T09:00:00Z"}, "status": map[string]any{}}
		switch path.Base(r.URL.Path) {
		case "a": // alone, as the race detector makes much text slow
			object["status"] = status
		case "c":
			object["status"] = map[string]any{"conditions": "none"}
		}
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, QPS: -1}
	operator := as("one", anAccount, controls, running)
	several := func(names ...string) string {
		text := strings.Replace(gadget, "{apiVersion: x.io/v1, kind: Gadget, metadata: {name: it, namespace: a, finalizers: [x.io/cleanup]}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: a, finalizers: [x.io/cleanup]}}", 1)
		for _, name := range names {
			text += fmt.Sprintf("---\n{apiVersion: x.io/v1, kind: Gadget, metadata: {name: %s, namespace: a, finalizers: [x.io/cleanup]}}\n", name)
		}
		return text
	}
	read := func(cluster string) map[string]any {
		reads = nil
		w, err := FromObjects(Options{MaxNames: 500}, objects(t, cluster))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.ReadConditions(t.Context(), config, "a", slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		found, _ := at(w, "conditions", "a", "gadgets.x.io").(map[string]any)
		slices.Sort(reads)
		return found
	}

	found := read(several("a", "b", "c") + operator)
	if diff := cmp.Diff([]string{"/api/v1/namespaces/a/events", "/apis/x.io/v1/namespaces/a/gadgets/a", "/apis/x.io/v1/namespaces/a/gadgets/b", "/apis/x.io/v1/namespaces/a/gadgets/c"}, reads); diff != "" {
		t.Errorf("reads: -want +got\n%s", diff)
	}
	if len(found) != 2 || found["b"] != nil || len(found["c"].([]any)) != 0 {
		t.Errorf("conditions of %d objects, of c: %v", len(found), found["c"])
	}
	list := found["a"].([]any)
	want := map[string]any{"created": "2026-11-21T09:00:00Z", "type": "Ready", "status": "False", "reason": "NotFound", "message": strings.Repeat("é", 1<<9)}
	if diff := cmp.Diff(want, list[0]); diff != "" || len(list) != question.MaxConditions-1 {
		t.Errorf("%d conditions, first: -want +got\n%s", len(list), diff)
	}

	if read(several("a")); reads != nil {
		t.Errorf("no live owner could report, but read %v", reads)
	}
	var many []string
	for i := range 120 {
		many = append(many, fmt.Sprintf("g%d", i))
	}
	if found := read(several(many...) + operator); len(found) != maxConditioned {
		t.Errorf("read %d objects, want %d", len(found), maxConditioned)
	}
}
