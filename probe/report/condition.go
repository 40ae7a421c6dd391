package report

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Condition is what a Teller writes, by the conventions of node-problem-detector: True is
// bad, and the reason says what True and False mean.
const Condition = "PodsCannotGo"

// Teller keeps the condition of a node current, and tells of its changes in events. Anybody
// who may read nodes reads both, so messages hold no paths.
type Teller struct {
	Client typedcorev1.CoreV1Interface
	last   corev1.ConditionStatus // "" before the first
}

// Tell writes what a report comes to, with a message for people.
func (t *Teller) Tell(ctx context.Context, r Report, message string) error {
	now := metav1.NewTime(r.Time)
	c := map[string]any{"type": Condition, "status": corev1.ConditionFalse, "reason": "PodsCanGo", "message": message, "lastHeartbeatTime": now}
	status, severity := corev1.ConditionFalse, corev1.EventTypeNormal
	if len(r.Holding()) > 0 {
		status, severity = corev1.ConditionTrue, corev1.EventTypeWarning
		c["status"], c["reason"] = status, "PodHeldOnNode"
	}
	changed := t.last != status
	if changed {
		c["lastTransitionTime"] = now // what a patch leaves out stays
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{c}}})
	if err != nil {
		return err
	}
	if _, err := t.Client.Nodes().PatchStatus(ctx, r.Node, patch); err != nil {
		return fmt.Errorf("write condition %s of node %s (the probe needs patch on nodes/status): %w", Condition, r.Node, err)
	}
	if first := t.last == ""; !changed || first && status == corev1.ConditionFalse {
		t.last = status
		return nil
	}
	_, err = t.Client.Events(metav1.NamespaceDefault).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", r.Node, r.Time.UnixNano()), Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: r.Node, UID: types.UID(r.Node)}, // as kubelets do
		Reason:         c["reason"].(string), Message: message, Type: severity,
		Source:         corev1.EventSource{Component: "termguard-probe", Host: r.Node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("tell of node %s in an event (the probe needs create on events in %s): %w", r.Node, metav1.NamespaceDefault, err)
	}
	t.last = status
	return nil
}
