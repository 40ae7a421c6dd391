package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/nodes"
	"github.com/termguard/termguard/internal/race"
)

// failureEvent returns the i-th event of a flood.
func failureEvent(i int, node string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprintf("e%05d", i)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: "web-0"},
		Reason:         "FailedKillPod", Message: strings.Repeat("é", 600),
		LastTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
		Source:        corev1.EventSource{Component: "kubelet", Host: node},
	}
}

// TestEventFlood checks that the newest few of 10,000 events are kept for each node, that they do
// not count as content, and that nothing is left after they are deleted.
func TestEventFlood(t *testing.T) {
	race.Skip(t)
	const events = 10_000
	for name, onNodes := range map[string]int{"one node": 1, "many nodes": 1000} {
		t.Run(name, func(t *testing.T) {
			w := NewWorld(Options{})
			w.Begin(eventsResource)
			w.End(eventsResource)
			var flood []*corev1.Event
			for i := range events {
				flood = append(flood, failureEvent(i, fmt.Sprint("n", i%onNodes)))
				if err := w.Apply(eventsResource, flood[i], true); err != nil {
					t.Fatal(err)
				}
			}
			want := min(nodes.MaxKubeletEvents, onNodes*nodes.MaxNodeEvents)
			kept := 0
			for _, ofNode := range at(w, "kubeletEvents").(map[string]any) {
				kept += len(ofNode.(map[string]any))
			}
			if diff := cmp.Diff([]int{want, want}, []int{kept, len(w.inventory.resources["events"].kept.Keys(func(keptObject) bool { return true }))}); diff != "" {
				t.Errorf("kept in facts, inventory: -want +got\n%s", diff)
			}
			newest, _ := at(w, "kubeletEvents", fmt.Sprint("n", (events-1)%onNodes), fmt.Sprintf("demo/e%05d", events-1)).(map[string]any)
			if message, _ := newest["message"].(string); len(message) > facts.MaxText+len("…") || !strings.HasSuffix(message, "é…") {
				t.Errorf("newest event missing, or its message cut within a character: %q", message)
			}
			if counts := at(w, "counts", "demo"); counts != nil {
				t.Errorf("events count as content of their namespace: %v", counts)
			}
			for _, e := range flood {
				if err := w.Remove(eventsResource, e); err != nil {
					t.Fatal(err)
				}
			}
			left := []any{len(at(w, "kubeletEvents").(map[string]any)), len(w.inventory.resources["events"].kept.Keys(func(keptObject) bool { return true }))}
			if diff := cmp.Diff([]any{0, 0}, left); diff != "" {
				t.Errorf("left behind: -want +got\n%s", diff)
			}
		})
	}
}
