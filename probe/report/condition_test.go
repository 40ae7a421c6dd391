package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestTeller: the condition follows each report, its time of change and the events only what
// changes. The conditions of others stay.
func TestTeller(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}).CoreV1()
	teller := Teller{Client: client}
	start := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	held := Finding{Cause: Busy, Certainty: Will, Pod: &Pod{Namespace: "demo", Name: "web-0"}}
	note := Finding{Cause: Stuck, Certainty: Note}
	for i, step := range []struct {
		findings []Finding
		want     corev1.NodeCondition
		since    int // minutes
		events   []string
	}{
		{[]Finding{note}, corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: "PodsCanGo", Message: "nothing"}, 0, nil},
		{[]Finding{held}, corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: "PodHeldOnNode", Message: "busy"}, 1, []string{"Warning PodHeldOnNode busy"}},
		{[]Finding{held, held}, corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: "PodHeldOnNode", Message: "busy, and one more"}, 1, []string{"Warning PodHeldOnNode busy"}},
		{nil, corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: "PodsCanGo", Message: "nothing"}, 3, []string{"Warning PodHeldOnNode busy", "Normal PodsCanGo nothing"}},
	} {
		r := New("n1")
		r.Time = start.Add(time.Duration(i) * time.Minute)
		r.Findings = step.findings
		if err := teller.Tell(t.Context(), r, step.want.Message); err != nil {
			t.Fatal(err)
		}
		node, err := client.Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		step.want.Type = Condition
		step.want.LastHeartbeatTime, step.want.LastTransitionTime = metav1.NewTime(r.Time), metav1.NewTime(start.Add(time.Duration(step.since)*time.Minute))
		if diff := cmp.Diff([]corev1.NodeCondition{step.want, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, node.Status.Conditions); diff != "" {
			t.Errorf("step %d: -want +got\n%s", i, diff)
		}
		events, err := client.Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, e := range events.Items {
			told = append(told, e.Type+" "+e.Reason+" "+e.Message)
		}
		if diff := cmp.Diff(step.events, told); diff != "" {
			t.Errorf("step %d: events: -want +got\n%s", i, diff)
		}
	}
}
