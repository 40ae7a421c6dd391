package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestElections checks whether a running owner of gadgets may be elected leader, and which role and
// binding that needs.
func TestElections(t *testing.T) {
	const (
		lease = `
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: leader, namespace: ops}, spec: {holderIdentity: one-1_f2a5, renewTime: "1970-01-01T00:00:00.000000Z"}}
`
		elects = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: elects, namespace: IN}, rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [VERB]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: elects, namespace: IN}, roleRef: {kind: Role, name: elects}, subjects: [{kind: ServiceAccount, name: one, namespace: ops}]}
`
		binding, role = "ops/rolebindings.rbac.authorization.k8s.io/elects", "ops/roles.rbac.authorization.k8s.io/elects"
		cluster       = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: all}, rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: all}, roleRef: {kind: ClusterRole, name: all}, subjects: [{kind: ServiceAccount, name: one, namespace: ops}]}
`
	)
	scales := strings.NewReplacer("name: all", "name: scales", `resources: ["*"]`, `resources: ["*/scale"]`).Replace(cluster)
	may := func(verb, in string) string { return strings.NewReplacer("VERB", verb, "IN", in).Replace(elects) }
	held := func(by string) string { return strings.Replace(lease, "one-1_", by+"_", 1) }
	operator := gadget + as("one", anAccount, controls, running)
	hidden := strings.Replace(blindness, "resource: pods", "resource: roles.rbac.authorization.k8s.io", 1)
	tests := map[string]struct {
		reason, cluster string
		want            string
		rests           []string
	}{
		"no role":             {"it holds a lease that it cannot renew", operator + lease, Barred, nil},
		"a role":              {"near miss: it has the right", operator + lease + may("update", "ops"), Alive, []string{binding, role}},
		"patches":             {"which is enough", operator + lease + may("patch", "ops"), Alive, []string{binding, role}},
		"reads":               {"which is not", operator + lease + may("get", "ops"), Barred, nil},
		"elsewhere":           {"its lease is not there", operator + lease + may("update", "a"), Barred, nil},
		"everything":          {"a cluster-admin may", operator + lease + cluster, Alive, nil},
		"two roles":           {"either may be deleted", operator + lease + cluster + may("update", "ops"), Alive, nil},
		"scales":              {"which renews nothing", operator + lease + scales, Barred, nil},
		"no lease":            {"it uses no leader election", operator + may("update", "ops"), Alive, nil},
		"another's":           {"it uses no leader election", operator + held("two-1"), Alive, nil},
		"a longer name":       {"the lease of another Deployment's pod", operator + held("one-more-6d5f-x2x"), Alive, nil},
		"its pod was deleted": {"the next one cannot take it over", operator + held("one-6d5f-x2x"), Barred, nil},
		"of its namespace":    {"a lease may lie elsewhere, and its right, too", operator + strings.Replace(lease, "namespace: ops", "namespace: a", 1), Alive, nil},
		"roles are not seen":  {"an unseen role may exist", operator + lease + hidden, Alive, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.cluster)
			got, _ := w.Ownership(objects(t, tc.cluster)[1], schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
			if got["state"] != tc.want {
				t.Errorf("%s: got %v, want %s: %v", tc.reason, got["state"], tc.want, got["evidence"])
			}
			if barred, _ := got["barred"].(map[string]any); (barred["lease"] == "ops/leader") != (tc.want == Barred) || got["certainty"] == "will" && tc.want == Barred {
				t.Errorf("%s: barred is %v, %v", tc.reason, barred, got["certainty"])
			}
			removers, _ := at(w, "removers", "ops").(map[string]any)
			var rests []string
			for what := range removers {
				if strings.HasSuffix(what, "/elects") {
					rests = append(rests, "ops/"+what)
				}
			}
			slices.Sort(rests)
			if diff := cmp.Diff(tc.rests, rests); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
