package facts

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TimesSeen returns how often an event was seen: core/v1 counts, events.k8s.io/v1 has a series.
func TimesSeen(e *corev1.Event) int {
	n := int(e.Count)
	if e.Series != nil {
		n = max(n, int(e.Series.Count))
	}
	return max(n, 1)
}

func FirstSeen(e *corev1.Event) time.Time {
	first := LastSeen(e)
	for _, at := range []time.Time{e.CreationTimestamp.Time, e.FirstTimestamp.Time, e.EventTime.Time} {
		if !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// FromKubelet reports whether a kubelet sent an Event, by its own account, and of which node.
func FromKubelet(e *corev1.Event) (node string, ok bool) {
	return cmp.Or(e.Source.Host, e.ReportingInstance), cmp.Or(e.Source.Component, e.ReportingController) == "kubelet"
}

func LastSeen(e *corev1.Event) time.Time {
	last := []time.Time{e.CreationTimestamp.Time, e.FirstTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		last = append(last, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(last, time.Time.Compare)
}
