package cluster

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestOwnerThatMayRunOutside tells the snapshot controller of a cloud's control
// plane, which no cluster shows, from one that ran in the cluster and is gone.
func TestOwnerThatMayRunOutside(t *testing.T) {
	const finalizer = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
	resource := schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}
	snapshot := strings.NewReplacer("gadgets", "volumesnapshots", "Gadget", "VolumeSnapshot", "x.io/cleanup", finalizer, "x.io", resource.Group).Replace(gadget)
	was := strings.NewReplacer("gadgets.x.io", resource.String(), "x.io/cleanup", finalizer).Replace(seen("system:serviceaccount:kube-system:snapshot-controller 1 1h"))
	for name, tc := range map[string]struct{ reason, cluster, state, certainty string }{
		"never seen": {"it may run in the control plane of a cloud", snapshot, Unknown, "may"},
		"seen, gone": {"it ran in the cluster, and nothing is left of it", snapshot + was, Absent, "will"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.cluster)
			got, _ := w.Ownership(objects(t, tc.cluster)[1], resource, nil)[finalizer].(map[string]any)
			if got["state"] != tc.state || got["certainty"] != tc.certainty {
				t.Errorf("%s\ngot %s (%s), want %s (%s): %v", tc.reason, got["state"], got["certainty"], tc.state, tc.certainty, got["evidence"])
			}
		})
	}
}
