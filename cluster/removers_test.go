package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRemovers tells on what the removal of the finalizer of gadgets rests,
// besides the Deployment, its service account and their namespace.
func TestRemovers(t *testing.T) {
	const (
		role        = "/clusterroles.rbac.authorization.k8s.io/one"
		binding     = "/clusterrolebindings.rbac.authorization.k8s.io/one"
		alsoRole    = "\n---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: also}, rules: [RULE]}"
		alsoBinding = "\n---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: also}, roleRef: {kind: ClusterRole, name: ROLE}, subjects: [SUBJECT]}"
		itself      = "{kind: ServiceAccount, name: one, namespace: ops}"
		inA         = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: one, namespace: a}, rules: [{apiGroups: [x.io], resources: ["*"], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: one, namespace: a}, roleRef: {kind: Role, name: one}, subjects: [{kind: ServiceAccount, name: one, namespace: ops}]}
`
	)
	bound := func(role, subject string) string {
		return strings.NewReplacer("ROLE", role, "SUBJECT", subject).Replace(alsoBinding)
	}
	also := func(rule string) string {
		return strings.ReplaceAll(alsoRole, "RULE", rule) + bound("also", itself)
	}
	operator := gadget + as("one", anAccount, controls, running)
	tests := map[string]struct {
		reason  string
		cluster string
		want    []string
	}{
		"one binding":     {"nothing else gives the right", operator, []string{binding, role}},
		"two bindings":    {"either may go, and the role may not", operator + bound("one", itself), []string{role}},
		"as a user":       {"service accounts are users", operator + bound("one", `{kind: User, name: "system:serviceaccount:ops:one"}`), []string{role}},
		"as a group":      {"and members of groups", operator + bound("one", `{kind: Group, name: "system:serviceaccounts:ops"}`), []string{role}},
		"another's group": {"of which it is not", operator + bound("one", `{kind: Group, name: "system:serviceaccounts:a"}`), []string{binding, role}},
		"another's":       {"it is not about who else may", operator + bound("one", "{kind: ServiceAccount, name: other, namespace: ops}"), []string{binding, role}},
		"no such role":    {"a binding to nothing gives nothing", operator + bound("also", itself), []string{binding, role}},
		"two roles":       {"either may go", operator + also("{apiGroups: [x.io], resources: [gadgets], verbs: [patch]}"), nil},
		"everything":      {"a cluster-admin in other words", operator + also(`{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}`), nil},
		"other resource":  {"of the same group", operator + also("{apiGroups: [x.io], resources: [widgets], verbs: [update]}"), []string{binding, role}},
		"other group":     {"with the same resource", operator + also("{apiGroups: [y.io], resources: [gadgets], verbs: [update]}"), []string{binding, role}},
		"reads":           {"this removes nothing", operator + also("{apiGroups: [x.io], resources: [gadgets], verbs: [get, list, watch, delete]}"), []string{binding, role}},
		"status":          {"of a custom resource, it leaves finalizers alone", operator + also("{apiGroups: [x.io], resources: [gadgets/status], verbs: [update]}"), []string{binding, role}},
		"namespaced":      {"who may in that namespace, may not elsewhere", gadget + as("one", anAccount, running) + inA, []string{"a/rolebindings.rbac.authorization.k8s.io/one", "a/roles.rbac.authorization.k8s.io/one"}},
		"both":            {"in the namespace and everywhere", operator + inA, nil},
		"hidden":          {"perhaps another is among what cannot be seen", operator + strings.Replace(blindness, "resource: pods", "resource: rolebindings.rbac.authorization.k8s.io", 1), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.cluster)
			removers, _ := at(w, "removers").(map[string]any)
			var got []string
			for namespace, whats := range removers {
				for what := range whats.(map[string]any) {
					if strings.Contains(what, ".rbac.authorization.k8s.io") {
						got = append(got, namespace+"/"+what)
					}
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if _, found := at(w, "removers", "ops", "serviceaccounts/one").(map[string]any); !found {
				t.Error("nothing rests on the service account: nobody is taken for the owner")
			}
		})
	}
}
