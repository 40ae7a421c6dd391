package report

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Write writes a report into the ConfigMap of its node, and makes it where there is
// none. The probe is the only writer, so the newest report wins.
func Write(ctx context.Context, configMaps typedcorev1.ConfigMapInterface, r Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: Prefix + r.Node, Labels: map[string]string{Label: "true", "app.kubernetes.io/name": "termguard"}},
		Data:       map[string]string{Key: string(text)},
	}
	_, err = configMaps.Update(ctx, cm, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = configMaps.Create(ctx, cm, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s (the probe needs create and update there): %w", cm.Name, err)
	}
	return nil
}

// Read is the report in a ConfigMap. Its time is the API server's where that is known,
// for the clock of a node may be wrong.
func Read(cm *corev1.ConfigMap) (Report, error) {
	node, ok := NodeOf(cm.Name)
	if !ok {
		return Report{}, fmt.Errorf("ConfigMap %s: its name does not begin with %s", cm.Name, Prefix)
	}
	r, err := Decode([]byte(cm.Data[Key]), node)
	if err != nil {
		return Report{}, fmt.Errorf("ConfigMap %s: %w", cm.Name, err)
	}
	var written metav1.Time
	for _, m := range cm.ManagedFields {
		if m.Time != nil && written.Before(m.Time) {
			written = *m.Time
		}
	}
	if !written.IsZero() {
		r.Time = written.Time
	}
	return r, nil
}
