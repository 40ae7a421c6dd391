package policies_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// crowd is a namespace of n pods of one Deployment, on a node that does not
// answer.
func crowd(t testing.TB, n int) *cluster.World {
	t.Helper()
	objects := []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "demo"}}},
		{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n1"}}},
	}
	owned := func(name, uid, owner, ownerUID string) map[string]any {
		return map[string]any{"name": name, "namespace": "demo", "uid": uid, "ownerReferences": []any{map[string]any{
			"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": ownerUID, "controller": true, "blockOwnerDeletion": true,
		}}}
	}
	objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": owned("web", "r1", "Deployment", "d1"),
	}})
	for i := range n {
		name := fmt.Sprintf("web-%05d", i)
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": owned(name, name, "ReplicaSet", "r1"),
			"spec":   map[string]any{"nodeName": "n1", "terminationGracePeriodSeconds": int64(30 + i%3*100)},
			"status": map[string]any{"phase": "Running"},
		}})
	}
	world, err := cluster.FromObjects(cluster.Options{Now: func() time.Time { return time.Unix(0, 0) }}, objects)
	if err != nil {
		t.Fatal(err)
	}
	return world
}

var crowded = map[string]map[string]any{
	"namespace": {"operation": "DELETE", "name": "demo", "namespace": "demo", "resource": map[string]any{"group": "", "version": "v1", "resource": "namespaces"}},
	"foreground": {
		"operation": "DELETE", "name": "web", "namespace": "demo", "resource": map[string]any{"group": "apps", "version": "v1", "resource": "deployments"},
		"oldObject": map[string]any{"metadata": map[string]any{"name": "web", "uid": "d1"}},
		"options":   map[string]any{"propagationPolicy": "Foreground"},
	},
}

// TestManyPods holds that what is said of many pods is what is said of few, with
// their number.
func TestManyPods(t *testing.T) {
	engine, world := newEngine(t), crowd(t, 10_000)
	want := map[string]map[string]bool{
		"namespace":  {"unreachable-node": true, "slow-termination": true},
		"foreground": {"foreground-deletion-blocked": true},
	}
	for name, request := range crowded {
		result, err := engine.Evaluate(t.Context(), policies.Delete, map[string]any{"request": request}, world)
		if err != nil || len(result.Errors) > 0 {
			t.Fatalf("%s: %v %v", name, err, result.Errors)
		}
		for _, f := range result.Findings {
			if !want[name][f.Policy] || len(f.Objects) > 6 {
				t.Errorf("%s: unexpected: %+v", name, f)
			}
			delete(want[name], f.Policy)
		}
		if len(want[name]) > 0 {
			t.Errorf("%s: nothing found by %v", name, want[name])
		}
	}
}

// BenchmarkManyPods is one review in a namespace of many pods, all of them on a
// node that does not answer.
func BenchmarkManyPods(b *testing.B) {
	engine := newEngine(b)
	for _, n := range []int{10, 10_000} {
		world := crowd(b, n)
		for name, request := range crowded {
			b.Run(fmt.Sprintf("%s/pods=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if _, err := engine.Evaluate(b.Context(), policies.Delete, map[string]any{"request": request}, world); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
