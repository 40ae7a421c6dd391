package ownership

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
)

// TestGrants reads one role and one binding of it: which subjects may update the resource, in which
// namespace, and which count as its controllers.
func TestGrants(t *testing.T) {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "ops", Name: "op"}
	cases := map[string]struct {
		reason    string
		role      string // its name, "" for op
		group     string
		resources string
		verbs     string
		subject   rbacv1.Subject
		in        string // the namespace of a RoleBinding, "" for a ClusterRoleBinding
		// holders may update gadgets.x.io in namespace demo, and in all namespaces as far as one
		// user may.
		holders    []grantee
		everywhere bool
	}{
		"Controller":  {"it writes the object and its status", "", "x.io", "gadgets gadgets/status", "update patch", account, "", []grantee{{"ops/op", "", true, false}}, true},
		"User":        {"an account that writes no subresource only uses the objects", "", "x.io", "gadgets", "update", account, "", []grantee{{"ops/op", "", false, false}}, true},
		"Reader":      {"to list them gives no right", "", "x.io", "gadgets", "get list watch", account, "", nil, false},
		"StatusOnly":  {"of a custom resource, the status takes no metadata", "", "x.io", "gadgets/status", "update", account, "", nil, false},
		"Namespaced":  {"a RoleBinding applies in its namespace", "", "x.io", "gadgets", "patch", account, "demo", []grantee{{"ops/op", "demo", false, false}}, false},
		"Elsewhere":   {"and in no other", "", "x.io", "gadgets", "patch", account, "prod", nil, false},
		"OtherGroup":  {"a plural of the same name in another group is another resource", "", "y.io", "gadgets", "update", account, "", nil, false},
		"AllOfGroup":  {"a wildcard within a group may be a controller's", "", "x.io", "*", "*", account, "", []grantee{{"ops/op", "", true, true}}, true},
		"AllGroups":   {"a wildcard over groups is a cluster-admin in other words", "", "*", "*", "*", account, "", nil, true},
		"BuiltInRole": {"an account with edit controls no resource in particular", "edit", "x.io", "gadgets", "*", account, "", nil, true},
		"AsUser":      {"a service account may be named as the user that it is", "", "x.io", "gadgets", "update", rbacv1.Subject{Kind: rbacv1.UserKind, Name: "system:serviceaccount:ops:op"}, "", []grantee{{"ops/op", "", false, false}}, true},
		"SomeUser":    {"a person is no controller", "", "x.io", "gadgets", "update", rbacv1.Subject{Kind: rbacv1.UserKind, Name: "ops/op"}, "", nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			doc := facts.Document{}
			p := New(doc, Options{Catalog: catalog.Default(), Sight: facts.NewSight(doc), Dependents: dependents.New(doc, 1), MaxNames: 1, Touched: func(string, string) {}})
			role := tc.role
			if role == "" {
				role = "op"
			}
			keepAll(p, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{tc.group}, Resources: strings.Fields(tc.resources), Verbs: strings.Fields(tc.verbs),
			}}})
			ref, subjects := rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, []rbacv1.Subject{tc.subject}
			if tc.in == "" {
				keepAll(p, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: ref, Subjects: subjects})
			} else {
				keepAll(p, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tc.in, Name: "b"}, RoleRef: ref, Subjects: subjects})
			}
			p.Settle(func() {})
			if diff := cmp.Diff(tc.holders, p.mayUpdate("gadgets.x.io", "demo"), cmp.AllowUnexported(grantee{})); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if got := p.UpdatesEverywhere("system:serviceaccount:ops:op", nil, "gadgets.x.io"); got != tc.everywhere {
				t.Errorf("%s: it updates them everywhere: %v, want %v", tc.reason, got, tc.everywhere)
			}
		})
	}
}
