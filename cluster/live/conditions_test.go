package live

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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/question"
)

const (
	gadgetDefinition = `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.x.io}, spec: {group: x.io, scope: Namespaced, names: {kind: Gadget, plural: gadgets}, versions: [{name: v1, served: true, storage: true}]}}
`
	gadgetOwner = `
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: one, namespace: ops}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: one}, rules: [{apiGroups: [x.io], resources: [gadgets, gadgets/status], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: one}, roleRef: {kind: ClusterRole, name: one}, subjects: [{kind: ServiceAccount, name: one, namespace: ops}]}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: one, namespace: ops}, spec: {replicas: 1, template: {spec: {serviceAccountName: one, containers: [{name: c, image: i}]}}}, status: {readyReplicas: 1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: one-1, namespace: ops}, spec: {nodeName: n1, serviceAccountName: one, containers: [{name: c, image: i}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
`
)

// gadgets returns manifests of Gadgets with a finalizer.
func gadgets(names ...string) (text string) {
	for _, name := range names {
		text += fmt.Sprintf("---\n{apiVersion: x.io/v1, kind: Gadget, metadata: {name: %s, namespace: a, finalizers: [x.io/cleanup]}}\n", name)
	}
	return gadgetDefinition + text
}

func worldOf(t *testing.T, manifests string) *cluster.World {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, text := range strings.Split(manifests, "---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
	w, err := cluster.FromObjects(cluster.Options{MaxNames: 500}, objects)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func conditionsIn(w *cluster.World, path ...string) (conditions any) {
	w.View(func(doc map[string]any) { conditions = facts.Lookup(doc, append([]string{"conditions"}, path...)...) })
	return conditions
}

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
	read := func(manifests string) map[string]any {
		reads = nil
		w := worldOf(t, manifests)
		if err := ReadConditions(t.Context(), config, w, "a", slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		conditions, _ := conditionsIn(w, "a", "gadgets.x.io").(map[string]any)
		slices.Sort(reads)
		return conditions
	}

	conditions := read(gadgets("a", "b", "c") + gadgetOwner)
	if diff := cmp.Diff([]string{"/api/v1/namespaces/a/events", "/apis/x.io/v1/namespaces/a/gadgets/a", "/apis/x.io/v1/namespaces/a/gadgets/b", "/apis/x.io/v1/namespaces/a/gadgets/c"}, reads); diff != "" {
		t.Errorf("reads: -want +got\n%s", diff)
	}
	if len(conditions) != 2 || conditions["b"] != nil || len(conditions["c"].([]any)) != 0 {
		t.Errorf("conditions of %d objects, of c: %v", len(conditions), conditions["c"])
	}
	list := conditions["a"].([]any)
	want := map[string]any{"created": "2026-11-21T09:00:00Z", "type": "Ready", "status": "False", "reason": "NotFound", "message": strings.Repeat("é", 1<<9)}
	if diff := cmp.Diff(want, list[0]); diff != "" || len(list) != question.MaxConditions-1 {
		t.Errorf("%d conditions, first: -want +got\n%s", len(list), diff)
	}

	if read(gadgets("a")); reads != nil {
		t.Errorf("no live owner could report, but read %v", reads)
	}
	const most = 50 // as in package cluster
	var many []string
	for i := range 120 {
		many = append(many, fmt.Sprintf("g%d", i))
	}
	if conditions := read(gadgets(many...) + gadgetOwner); len(conditions) != most {
		t.Errorf("read %d objects, want %d", len(conditions), most)
	}
}
