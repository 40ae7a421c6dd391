package nodes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
)

// TestStops removes pods like a kubelet, and in ways that do not show how long their program takes to stop.
func TestStops(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	leaving := func(change func(*corev1.Pod)) *corev1.Pod {
		o := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "a", Name: "web-1", DeletionTimestamp: &metav1.Time{Time: noon.Add(30 * time.Second)}, DeletionGracePeriodSeconds: new(int64(30)),
				Labels:          map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "7d9f"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-7d9f", Controller: new(true)}},
			},
			Spec:   corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c"}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}},
		}
		if change != nil {
			change(o)
		}
		return o
	}
	for name, tc := range map[string]struct {
		reason   string
		change   func(*corev1.Pod)
		workload string // "" if nothing is recorded
	}{
		"of a Deployment": {"its ReplicaSets come and go", nil, "Deployment/web"},
		"of a StatefulSet": {"it is the controller", func(o *corev1.Pod) {
			o.Labels = nil
			o.OwnerReferences[0].Kind = "StatefulSet"
			o.OwnerReferences[0].Name = "db"
		}, "StatefulSet/db"},
		"of a ReplicaSet alone": {"no Deployment made it", func(o *corev1.Pod) { o.Labels = nil }, "ReplicaSet/web-7d9f"},
		"alone":                 {"it is one of nothing", func(o *corev1.Pod) { o.OwnerReferences = nil }, ""},
		"forced":                {"its containers had not ended: only the object was removed", func(o *corev1.Pod) { o.Status.ContainerStatuses[0].State = corev1.ContainerState{} }, ""},
		"not deleted before":    {"its deletion was not seen", func(o *corev1.Pod) { o.DeletionTimestamp, o.DeletionGracePeriodSeconds = nil, nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			doc := facts.Document{}
			p := New(doc, Options{MaxNames: 5, Dependents: dependents.New(doc, 5)})
			p.KeepPod(leaving(tc.change))
			p.RecordDeletion(types.NamespacedName{Namespace: "a", Name: "web-1"}, noon.Add(1300*time.Millisecond))
			var want []Stop
			if tc.workload != "" {
				want = []Stop{{"a", tc.workload, noon, noon.Add(1300 * time.Millisecond)}}
			}
			if diff := cmp.Diff(want, p.Stops()); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if again := p.Stops(); again != nil {
				t.Errorf("reported twice: %v", again)
			}
		})
	}
}
