package cluster

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestSeenAndUnable: who was seen to remove a finalizer, and runs, is no all-clear once its
// rights or its service account are gone.
func TestSeenAndUnable(t *testing.T) {
	everywhere := strings.Replace(seen("system:serviceaccount:ops:one 1 1h"), `"objects"`, `"everywhere":true,"objects"`, 1)
	tests := map[string]struct {
		reason, text, want string
	}{
		"all is there":          {"it may, and it runs", as("one", anAccount, running, controls), Alive},
		"no binding":            {"it had its rights from there", as("one", anAccount, running), Barred},
		"no role":               {"the binding gives nothing", as("one", anAccount, running, strings.Replace(controls, "kind: ClusterRole, metadata: {name: SA}", "kind: ClusterRole, metadata: {name: other}", 1)), Barred},
		"no service account":    {"its tokens are refused", as("one", running, controls), Barred},
		"another has the right": {"that proves nothing of this one", as("one", anAccount, running) + as("two", anAccount, running, strings.Replace(controls, "gadgets, gadgets/status", "gadgets", 1)), Barred},
		"wide rights":           {"a cluster-admin may do all", as("one", anAccount, running, strings.Replace(controls, "apiGroups: [x.io]", "apiGroups: ['*']", 1)), Alive},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := gadget + tc.text + everywhere
			w, err := FromObjects(Options{Now: func() time.Time { return time.Unix(0, 0) }}, objects(t, text))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := w.Ownership(objects(t, text)[1], schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
			if got["state"] != tc.want {
				t.Errorf("%s: got %v: %v", tc.reason, got["state"], got["evidence"])
			}
		})
	}
}
