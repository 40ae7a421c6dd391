package question

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFromFlags(t *testing.T) {
	options := func(propagation string, grace any) map[string]any {
		m := map[string]any{"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": propagation}
		if grace != nil {
			m["gracePeriodSeconds"] = grace
		}
		return m
	}
	for _, tt := range []struct {
		reason, cascade string
		grace           int64
		force           bool
		want            map[string]any
	}{
		{"defaults", "background", -1, false, options("Background", nil)},
		{"foreground", "Foreground", 5, false, options("Foreground", int64(5))},
		{"orphan by force", "orphan", -1, true, options("Orphan", int64(0))},
		{"kubectl makes 0 without force 1", "background", 0, false, options("Background", int64(1))},
		{"0 with force", "background", 0, true, options("Background", int64(0))},
		{"contradiction", "background", 5, true, nil},
		{"nonsense", "sideways", -1, false, nil},
	} {
		got, err := FromFlags(tt.cascade, tt.grace, tt.force)
		if diff := cmp.Diff(tt.want, got); diff != "" || (err == nil) != (tt.want != nil) {
			t.Errorf("%s: error %v, -want, +got:\n%s", tt.reason, err, diff)
		}
	}
}
