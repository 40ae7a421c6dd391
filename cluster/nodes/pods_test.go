package nodes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
)

// TestDrainedPods checks that drains skip pods of DaemonSets and list pods that take time to stop, and that
// pods of one name in two namespaces are distinct.
func TestDrainedPods(t *testing.T) {
	doc := facts.Document{}
	p := New(doc, Options{MaxNames: 2, Dependents: dependents.New(doc, 2)})
	keep := func(namespace, name, owner string, grace int64) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
		if owner != "" {
			controls := true
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "o", Controller: &controls}}
		}
		p.KeepPod(pod)
	}
	keep("a", "web", "ReplicaSet", 30)
	keep("b", "web", "", 30)
	keep("b", "slow", "StatefulSet", 33)
	keep("b", "at-once", "", 0)
	keep("b", "agent", "DaemonSet", 90)
	want := map[string]any{
		"30": map[string]any{"count": 2, "names": []any{"a/web", "b/web"}},
		"33": map[string]any{"count": 1, "names": []any{"b/slow"}},
	}
	if diff := cmp.Diff(want, facts.Lookup(doc, "drainedByGrace", "n1")); diff != "" {
		t.Errorf("drained: -want, +got:\n%s", diff)
	}
	for _, name := range []types.NamespacedName{{Namespace: "a", Name: "web"}, {Namespace: "b", Name: "web"}, {Namespace: "b", Name: "slow"}, {Namespace: "b", Name: "agent"}} {
		p.ForgetPod(name)
	}
	if left := facts.Lookup(doc, "drainedByGrace", "n1"); left != nil {
		t.Errorf("left of nothing: %v", left)
	}
}

// TestPodSections checks that the sections follow a pod through updates without changes, a move to another
// node under the same name, and its removal.
func TestPodSections(t *testing.T) {
	doc := facts.Document{}
	p := New(doc, Options{MaxNames: 1, Dependents: dependents.New(doc, 1)})
	pod := func(name, node string, grace int64) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}}},
			Spec:       corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	record := func(node string) map[string]any {
		return map[string]any{"phase": "Running", "node": node, "owner": map[string]any{"kind": "ReplicaSet", "name": "web"}, "workload": "ReplicaSet/web"}
	}
	with := func(record map[string]any, field string, value any) map[string]any {
		record[field] = value
		return record
	}
	group := func(count int, name string) map[string]any {
		return map[string]any{"count": count, "names": []any{name}}
	}
	for _, step := range []struct {
		reason                       string
		do                           func()
		pods, byNode, stops, drained map[string]any
	}{
		{"two on one node", func() { p.KeepPod(pod("y", "n1", 30)); p.KeepPod(pod("x", "n1", 30)) },
			map[string]any{"a": map[string]any{"x": record("n1"), "y": record("n1")}},
			map[string]any{"a": map[string]any{"n1": group(2, "x")}},
			map[string]any{"a": map[string]any{"30": group(2, "x")}},
			map[string]any{"n1": map[string]any{"30": group(2, "a/x")}}},
		{"the same again, and one is another pod of the same name", func() { p.KeepPod(pod("y", "n1", 30)); p.KeepPod(pod("x", "n2", 30)) },
			map[string]any{"a": map[string]any{"x": record("n2"), "y": record("n1")}},
			map[string]any{"a": map[string]any{"n1": group(1, "y"), "n2": group(1, "x")}},
			map[string]any{"a": map[string]any{"30": group(2, "x")}},
			map[string]any{"n1": map[string]any{"30": group(1, "a/y")}, "n2": map[string]any{"30": group(1, "a/x")}}},
		{"one that takes longer, and is named all the same", func() { p.KeepPod(pod("y", "n1", 90)); p.KeepPod(pod("w", "n1", 30)) },
			map[string]any{"a": map[string]any{"w": record("n1"), "x": record("n2"), "y": with(record("n1"), "gracePeriodSeconds", 90)}},
			map[string]any{"a": map[string]any{"n1": group(2, "w"), "n2": group(1, "x")}},
			map[string]any{"a": map[string]any{"30": group(2, "w"), "90": group(1, "y")}},
			map[string]any{"n1": map[string]any{"30": group(1, "a/w"), "90": group(1, "a/y")}, "n2": map[string]any{"30": group(1, "a/x")}}},
		{"one that no kubelet is waited for, and one on no node", func() {
			p.KeepPod(pod("y", "n1", 0))
			p.KeepPod(pod("x", "", 30))
			p.ForgetPod(types.NamespacedName{Namespace: "a", Name: "w"})
		},
			map[string]any{"a": map[string]any{
				"x": map[string]any{"phase": "Running", "owner": record("")["owner"], "workload": "ReplicaSet/web"},
				"y": map[string]any{"phase": "Running", "node": "n1", "gracePeriodSeconds": 0, "owner": record("")["owner"], "workload": "ReplicaSet/web"},
			}}, map[string]any{}, map[string]any{}, map[string]any{}},
		{"gone", func() {
			p.ForgetPod(types.NamespacedName{Namespace: "a", Name: "x"})
			p.ForgetPod(types.NamespacedName{Namespace: "a", Name: "y"})
		}, map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}},
	} {
		step.do()
		for section, want := range map[string]map[string]any{"pods": step.pods, "podsByNode": step.byNode, "podsByGrace": step.stops, "drainedByGrace": step.drained} {
			if diff := cmp.Diff(want, facts.Lookup(doc, section)); diff != "" {
				t.Errorf("%s: %s: -want, +got:\n%s", step.reason, section, diff)
			}
		}
	}
}
