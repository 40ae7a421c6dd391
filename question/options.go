package question

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cascades are the propagation policies, by kubectl's names.
var Cascades = map[string]metav1.DeletionPropagation{
	"background": metav1.DeletePropagationBackground,
	"foreground": metav1.DeletePropagationForeground,
	"orphan":     metav1.DeletePropagationOrphan,
}

func DeleteOptions(propagation metav1.DeletionPropagation) map[string]any {
	return map[string]any{"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": string(propagation)}
}

// Background is for kubectl delete without flags.
func Background() map[string]any { return DeleteOptions(metav1.DeletePropagationBackground) }

// FromFlags returns kubectl delete's options. A negative grace period, in seconds, means the object's own; 0
// without force becomes 1, as in kubectl.
func FromFlags(cascade string, grace int64, force bool) (map[string]any, error) {
	propagation, ok := Cascades[strings.ToLower(cascade)]
	if !ok {
		return nil, fmt.Errorf("--cascade is %q: want background, foreground or orphan", cascade)
	}
	options := DeleteOptions(propagation)
	switch {
	case force && grace > 0:
		return nil, errors.New("--force and a --grace-period greater than 0 contradict each other: drop one")
	case force:
		options["gracePeriodSeconds"] = int64(0)
	case grace == 0:
		options["gracePeriodSeconds"] = int64(1)
	case grace > 0:
		options["gracePeriodSeconds"] = grace
	}
	return options, nil
}
