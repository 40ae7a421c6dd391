package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/probe/report"
)

// condition is a type by the conventions of node-problem-detector: True is bad.
const condition = "PodsCannotGo"

// newClient returns a client for core/v1 only: a clientset with all groups would be four times the size of
// this program.
func newClient(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.Timeout = patience
	return rest.RESTClientFor(config)
}

type publisher struct {
	client    rest.Interface
	namespace string                 // termguard's
	condition bool                   // set the node condition, too
	last      corev1.ConditionStatus // "" before the first
}

func (p *publisher) publish(ctx context.Context, r report.Report) error {
	err := p.write(ctx, r)
	if p.condition {
		err = errors.Join(err, p.mark(ctx, r))
	}
	return err
}

// write overwrites the ConfigMap, which only the probes of that node write.
func (p *publisher) write(ctx context.Context, r report.Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: report.Prefix + r.Node, Labels: map[string]string{report.Label: "true", "app.kubernetes.io/name": "termguard"}},
		Data:       map[string]string{report.Key: string(text)},
	}
	update := func() error {
		return p.client.Put().Namespace(p.namespace).Resource("configmaps").Name(cm.Name).Body(cm).Do(ctx).Error()
	}
	err = update()
	if apierrors.IsNotFound(err) {
		err = p.client.Post().Namespace(p.namespace).Resource("configmaps").Body(cm).Do(ctx).Error()
	}
	if apierrors.IsAlreadyExists(err) { // by another probe of this node, as during a rollout
		err = update()
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s (the probe needs create and update there): %w", cm.Name, err)
	}
	return nil
}

// mark updates the node's condition, and records its changes as events. Messages contain no paths: anyone who
// may read nodes can read both.
func (p *publisher) mark(ctx context.Context, r report.Report) error {
	now, message := metav1.NewTime(r.Time), r.Line()
	c := map[string]any{"type": condition, "status": corev1.ConditionFalse, "reason": "PodsCanGo", "message": message, "lastHeartbeatTime": now}
	status, severity := corev1.ConditionFalse, corev1.EventTypeNormal
	if len(r.Blocking()) > 0 {
		status, severity = corev1.ConditionTrue, corev1.EventTypeWarning
		c["status"], c["reason"] = status, "PodHeldOnNode"
	}
	changed := p.last != status
	if changed {
		c["lastTransitionTime"] = now // a patch without it keeps the old time
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{c}}})
	if err != nil {
		return err
	}
	if err := p.client.Patch(types.StrategicMergePatchType).Resource("nodes").Name(r.Node).SubResource("status").Body(patch).Do(ctx).Error(); err != nil {
		return fmt.Errorf("write condition %s of node %s (the probe needs patch on nodes/status): %w", condition, r.Node, err)
	}
	if first := p.last == ""; !changed || first && status == corev1.ConditionFalse {
		p.last = status
		return nil
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", r.Node, r.Time.UnixNano()), Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: r.Node, UID: types.UID(r.Node)}, // as kubelets do
		Reason:         c["reason"].(string), Message: message, Type: severity,
		Source:         corev1.EventSource{Component: "termguard-probe", Host: r.Node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if err := p.client.Post().Namespace(metav1.NamespaceDefault).Resource("events").Body(event).Do(ctx).Error(); err != nil {
		return fmt.Errorf("record an Event about node %s (the probe needs create on events in %s): %w", r.Node, metav1.NamespaceDefault, err)
	}
	p.last = status
	return nil
}
