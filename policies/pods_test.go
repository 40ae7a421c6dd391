package policies_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// crowd returns a namespace of n pods of one Deployment, on a node that does not answer.
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

// TestManyPods checks that the findings about many pods are those about few, except for the number.
func TestManyPods(t *testing.T) {
	race.Skip(t)
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

// BenchmarkManyPods reviews a namespace of many pods, all on a node that does not answer.
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

// deletions returns the findings about a pod that is deleted, and about its namespace.
func deletions(t *testing.T, engine *policies.Engine, pod map[string]any) (ofPod, ofNamespace policies.Result) {
	t.Helper()
	metadata, ok := pod["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	metadata["name"], metadata["namespace"] = "web", "demo"
	pod["apiVersion"], pod["kind"], pod["metadata"] = "v1", "Pod", metadata
	world, err := cluster.FromObjects(cluster.Options{Now: func() time.Time { return time.Unix(0, 0) }}, []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "demo"}}},
		{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n1"}, "status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}}},
		{Object: pod},
	})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(resource, name string, old any) policies.Result {
		result, err := engine.Evaluate(t.Context(), policies.Delete, map[string]any{"request": map[string]any{
			"operation": "DELETE", "name": name, "namespace": "demo", "oldObject": old,
			"resource": map[string]any{"group": "", "version": "v1", "resource": resource},
		}}, world)
		if err != nil || len(result.Errors) > 0 {
			t.Fatal(err, result.Errors)
		}
		return result
	}
	return ask("pods", "web", pod), ask("namespaces", "demo", nil)
}

// TestGrace compares both calculations of how long a pod takes to stop: in Rego for the pod under
// review, with the grace period of the request, and in the facts for whole namespaces.
func TestGrace(t *testing.T) {
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	params := map[string]any{"slow-termination": map[string]any{"seconds": 1}}
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Params: params, Deadline: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	hook := func(preStop map[string]any) map[string]any {
		return map[string]any{"containers": []any{map[string]any{"name": "web", "lifecycle": map[string]any{"preStop": preStop}}}}
	}
	waits := map[string]any{"containerStatuses": []any{map[string]any{"name": "web", "state": map[string]any{"waiting": map[string]any{"reason": "ImagePullBackOff"}}}}}
	plain := map[string]any{"containers": []any{map[string]any{"name": "web"}}}
	for reason, tc := range map[string]struct {
		spec, status, annotations map[string]any
		want                      int // seconds until the containers have stopped; 0: at once
	}{
		"the default":                {spec: plain, want: 30},
		"a hook of any length":       {spec: hook(map[string]any{"exec": map[string]any{"command": []any{"x"}}}), want: 32},
		"a hook that is short":       {spec: hook(map[string]any{"sleep": map[string]any{"seconds": int64(5)}}), want: 30},
		"a hook that is longer":      {spec: hook(map[string]any{"sleep": map[string]any{"seconds": int64(500)}}), want: 32},
		"a sidecar":                  {spec: map[string]any{"initContainers": []any{map[string]any{"name": "proxy", "restartPolicy": "Always"}}, "containers": plain["containers"]}, want: 32},
		"less than the minimum":      {spec: map[string]any{"terminationGracePeriodSeconds": int64(1), "containers": plain["containers"]}, want: 2},
		"negative is one":            {spec: map[string]any{"terminationGracePeriodSeconds": int64(-60), "containers": plain["containers"]}, want: 2},
		"none":                       {spec: map[string]any{"terminationGracePeriodSeconds": int64(0), "containers": plain["containers"]}},
		"nothing runs":               {spec: plain, status: waits},
		"a mirror of its node's own": {spec: plain, annotations: map[string]any{"kubernetes.io/config.mirror": "x"}},
		"finished":                   {spec: plain, status: map[string]any{"phase": "Succeeded"}},
	} {
		spec, status := maps.Clone(tc.spec), map[string]any{"phase": "Running"}
		spec["nodeName"] = "n1"
		maps.Copy(status, tc.status)
		metadata := map[string]any{}
		if tc.annotations != nil {
			metadata["annotations"] = tc.annotations
		}
		ofPod, ofNamespace := deletions(t, engine, map[string]any{"metadata": metadata, "spec": spec, "status": status})
		estimate := func(result policies.Result, beyond int) int {
			for _, f := range result.Findings {
				if f.Policy == "slow-termination" {
					return *f.EstimateSeconds - beyond
				}
			}
			return 0
		}
		if got := estimate(ofPod, 1); got != tc.want {
			t.Errorf("%s: the pod takes %d s, want %d", reason, got, tc.want)
		}
		if got := estimate(ofNamespace, 11); got != tc.want {
			t.Errorf("%s: the pods of the namespace take %d s, want %d", reason, got, tc.want)
		}
	}
}

// TestImmutable compares both searches for chattr in a command: in Rego in the manifest that is
// applied, and in the facts in every pod.
func TestImmutable(t *testing.T) {
	engine := newEngine(t)
	for command, want := range map[string]bool{
		"chattr +i /v/f": true, "chattr -R +ai /v": true, "chattr -R -V +a /v": true, "cd /v && chattr  +i f": true,
		"chattr -i /v/f": false, "chattr +A /v": false, "mychattr +i /v/f": false, "chattr": false, "echo +i": false,
	} {
		pod := map[string]any{
			"spec": map[string]any{
				"nodeName": "n1", "volumes": []any{map[string]any{"name": "v", "emptyDir": map[string]any{}}},
				"containers": []any{map[string]any{
					"name": "web", "command": []any{"sh", "-c", command}, "securityContext": map[string]any{"privileged": true},
					"volumeMounts": []any{map[string]any{"name": "v", "mountPath": "/v"}},
				}},
			},
			"status": map[string]any{"phase": "Running"},
		}
		ofPod, ofNamespace := deletions(t, engine, pod)
		applied, err := engine.Evaluate(t.Context(), policies.Apply, map[string]any{"request": map[string]any{
			"operation": "CREATE", "name": "web", "namespace": "demo", "object": pod,
			"resource": map[string]any{"group": "", "version": "v1", "resource": "pods"},
		}}, policies.Document{})
		if err != nil || len(applied.Errors) > 0 {
			t.Fatal(err, applied.Errors)
		}
		finds := func(result policies.Result, policy string) bool {
			return slices.ContainsFunc(result.Findings, func(f policies.Finding) bool { return f.Policy == policy })
		}
		got := []bool{finds(applied, "immutable-file-attribute"), finds(ofPod, "immutable-files"), finds(ofNamespace, "immutable-files")}
		if diff := cmp.Diff([]bool{want, want, want}, got); diff != "" {
			t.Errorf("%q, applied, deleted, deleted with its namespace: -want, +got:\n%s", command, diff)
		}
	}
}
