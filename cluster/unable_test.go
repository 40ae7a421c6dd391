package cluster

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestSeenAndUnable checks that an account that was seen to remove a finalizer, but does not run or
// has lost its rights or its service account, is not alive. It is certainly the owner if
// administrators vouch for it and no other candidate exists.
func TestSeenAndUnable(t *testing.T) {
	local := seen("system:serviceaccount:ops:one 1 1h")
	everywhere := strings.Replace(local, `"objects"`, `"everywhere":true,"objects"`, 1)
	wide := strings.Replace(controls, "apiGroups: [x.io]", "apiGroups: ['*']", 1)
	another := as("two", anAccount, strings.ReplaceAll(running, "image: i", "image: other"))
	tests := map[string]struct {
		reason, text     string
		state, certainty string
	}{
		"everything exists":     {"it may, and it runs", as("one", anAccount, running, controls) + everywhere, Alive, "will"},
		"no binding":            {"it had its rights from there", as("one", anAccount, running) + everywhere, Barred, "will"},
		"no role":               {"the binding gives nothing", as("one", anAccount, running, strings.Replace(controls, "kind: ClusterRole, metadata: {name: SA}", "kind: ClusterRole, metadata: {name: other}", 1)) + everywhere, Barred, "will"},
		"no service account":    {"its tokens are refused", as("one", running, controls) + everywhere, Barred, "will"},
		"another has the right": {"that proves nothing about this one", as("one", anAccount, running) + as("two", anAccount, running, strings.Replace(controls, "gadgets, gadgets/status", "gadgets", 1)) + everywhere, Barred, "may"},
		"no binding, moved":     {"the same image runs under another account", as("one", anAccount, running) + as("two", anAccount, running) + everywhere, Barred, "may"},
		"wide rights":           {"a cluster-admin may do all", as("one", anAccount, running, wide) + everywhere, Alive, "will"},

		"scaled to zero":          {"nothing else is known", as("one", anAccount, scaledToZero) + everywhere, Down, "will"},
		"scaled to zero, local":   {"a tenant may provoke a sighting, and scale to zero", as("one", anAccount, scaledToZero) + local, Down, "may"},
		"scaled to zero, moved":   {"the same image runs under another account", as("one", anAccount, scaledToZero) + as("two", anAccount, running) + everywhere, Down, "may"},
		"scaled to zero, another": {"near miss: it is of another image", as("one", anAccount, scaledToZero) + another + everywhere, Down, "will"},
		"no workload":             {"it may have cleaned up once, by hand", as("one", anAccount) + everywhere, Down, "may"},

		"gone":                 {"nothing that runs may do it", another + everywhere, Absent, "will"},
		"gone, local":          {"a tenant may provoke a sighting, and leave", another + local, Absent, "may"},
		"gone, a successor":    {"an account with all rights may be its successor", another + as("two", wide) + everywhere, Absent, "may"},
		"gone, one starts":     {"a workload that is starting may be, too", as("two", anAccount, wide, notReady) + everywhere, Absent, "may"},
		"gone, one is idle":    {"near miss: a workload that is scaled to zero is not", as("two", anAccount, wide, scaledToZero) + everywhere, Absent, "will"},
		"gone, roles not seen": {"another account may have the right", another + everywhere + strings.Replace(blindness, "resource: pods", "resource: clusterroles.rbac.authorization.k8s.io", 1), Unknown, "may"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := gadget + tc.text
			w, err := FromObjects(Options{Now: func() time.Time { return time.Unix(0, 0) }}, objects(t, text))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := w.Ownership(objects(t, text)[1], schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
			if got["state"] != tc.state || got["certainty"] != tc.certainty {
				t.Errorf("%s: got %v (%v), want %s (%s): %v", tc.reason, got["state"], got["certainty"], tc.state, tc.certainty, got["evidence"])
			}
		})
	}
}
