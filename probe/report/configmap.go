package report

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Read reads the report in a ConfigMap. It takes the time from the managed fields if present, because a
// node's clock may be wrong.
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
