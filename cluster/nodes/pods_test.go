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

// A drain evicts what no DaemonSet runs, and waits for what takes time to stop. Two pods
// of one name, in two namespaces, are two.
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
