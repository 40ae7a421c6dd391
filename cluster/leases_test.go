package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestLeases: a controller that renews its lease is up, wherever it runs.
func TestLeases(t *testing.T) {
	const seconds = time.Second
	held := func(name, holder string, renewed time.Duration) coordinationv1.Lease {
		at := metav1.NewMicroTime(time.Unix(1e9, 0).Add(renewed))
		duration := int32(15)
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &duration}}
	}
	// Each list comes 15 s after the one before it.
	type lists [][]coordinationv1.Lease
	tests := map[string]struct {
		reason, cluster  string
		lists            lists
		state, certainty string
		evidence         string
	}{
		"none":                           {"nobody holds one", gadget, lists{{}}, Absent, "may", "no controller"},
		"just renewed":                   {"a controller outside the cluster holds one named after the API group", gadget, lists{{held("a1b2c3d4.x.io", "laptop_1", -2*seconds)}}, Alive, "will", "lease ops/a1b2c3d4.x.io, named after API group x.io, is held by laptop_1"},
		"long ago":                       {"stale", gadget, lists{{held("a1b2c3d4.x.io", "laptop_1", -300*seconds)}}, Absent, "may", "no controller"},
		"seen once, clock a little off":  {"a minute ahead is no matter", gadget, lists{{held("a1b2c3d4.x.io", "laptop_1", 60*seconds)}}, Alive, "will", "laptop_1"},
		"seen once, clock far off":       {"it cannot be told from a stale one", gadget, lists{{held("a1b2c3d4.x.io", "laptop_1", -3600*seconds)}}, Absent, "may", "no controller"},
		"renewed, clock far off":         {"seen to be renewed, whatever its clock says", gadget, lists{{held("a1b2c3d4.x.io", "laptop_1", -3600*seconds)}, {held("a1b2c3d4.x.io", "laptop_1", -3585*seconds)}}, Alive, "will", "laptop_1"},
		"renewed no longer":              {"not renewed for a minute", gadget, lists{{held("a1b2c3d4.x.io", "laptop_1", 0)}, {held("a1b2c3d4.x.io", "laptop_1", 0)}, {held("a1b2c3d4.x.io", "laptop_1", 0)}, {held("a1b2c3d4.x.io", "laptop_1", 0)}, {held("a1b2c3d4.x.io", "laptop_1", 0)}}, Absent, "may", "no controller"},
		"in the future, never renewed":   {"a skewed clock does not keep it alive for ever", gadget, lists{{held("a1b2c3d4.x.io", "laptop_1", 90*seconds)}, {held("a1b2c3d4.x.io", "laptop_1", 90*seconds)}, {held("a1b2c3d4.x.io", "laptop_1", 90*seconds)}, {held("a1b2c3d4.x.io", "laptop_1", 90*seconds)}, {held("a1b2c3d4.x.io", "laptop_1", 90*seconds)}}, Absent, "may", "no controller"},
		"given up":                       {"nobody holds it", gadget, lists{{held("a1b2c3d4.x.io", "", -2*seconds)}}, Absent, "may", "no controller"},
		"of another group":               {"it says nothing about this one", gadget, lists{{held("a1b2c3d4.xx.io", "laptop_1", -2*seconds)}}, Absent, "may", "no controller"},
		"of a pod that is gone":          {"killed, it did not give it up", gadget + as("one", anAccount, controls, scaledToZero), lists{{held("a1b2c3d4.x.io", "one-5d8-abcde_1", -2*seconds)}}, Down, "will", "has no pod"},
		"catalog and permissions differ": {"known workloads outweigh a lease: see the permissions' own pod", gadget + as("one", anAccount, controls, running), lists{{held("a1b2c3d4.x.io", "laptop_1", -300*seconds)}}, Alive, "will", "service account ops/one may update"},
		"held by a pod that is not ready": {
			"it renews its lease: no proof that it stays down",
			strings.Replace(gadget, "name: it,", "name: it, annotations: {termguard.dev/finalizer-owner: Deployment/ops/one},", 1) + as("one", anAccount, notReady, bad("p", waiting("CrashLoopBackOff"))),
			lists{{held("any", "p_1", -2*seconds)}},
			Down, "may", "pod ops/p renews lease ops/any",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			w, err := FromObjects(Options{Now: func() time.Time { return now }}, objects(t, tc.cluster))
			if err != nil {
				t.Fatal(err)
			}
			for i, list := range tc.lists {
				if i > 0 {
					now = now.Add(15 * seconds)
				}
				w.SetLeases(list)
			}
			w.Settle()
			got, _ := w.Ownership(objects(t, tc.cluster)[1], schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
			if got["state"] != tc.state || got["certainty"] != tc.certainty || !strings.Contains(fmt.Sprint(got["evidence"]), tc.evidence) {
				t.Errorf("%s\ngot %s (%s), want %s (%s) with %q: %v", tc.reason, got["state"], got["certainty"], tc.state, tc.certainty, tc.evidence, got["evidence"])
			}
		})
	}
}
