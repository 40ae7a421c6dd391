package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

// TestActsFollow adds and removes the rights on other objects that an owner needs.
func TestActsFollow(t *testing.T) {
	entries, err := catalog.Parse([]byte(`
- finalizer: x.io/act
  resources: [gadgets.x.io]
  owner: gadgeteer
  component: in-cluster
  source: x
  acts: [{verbs: {get: hangs, delete: may}, path: "spec.parts[*]", names: "(?P<namespace>[a-z]*)/(?P<kind>[A-Za-z]+)[.]?(?P<group>.*)", as: spec.account, source: x}]
  workloads: [{kind: Deployment, name: gadgeteer}]
`))
	if err != nil {
		t.Fatal(err)
	}
	w, err := FromObjects(Options{Catalog: entries}, objects(t, strings.Join([]string{
		"{apiVersion: x.io/v1, kind: Gadget, metadata: {name: g, namespace: a, finalizers: [x.io/act]}, spec: {account: sa, parts: [b/ConfigMap, b/Unknown.x.io]}}",
		"{apiVersion: x.io/v1, kind: Gadget, metadata: {name: gone, namespace: a, finalizers: [x.io/act]}, spec: {account: nobody, parts: [b/ConfigMap]}}",
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: sa, namespace: a}}",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: cluster-admin}, rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}",
	}, "\n---\n")))
	if err != nil {
		t.Fatal(err)
	}
	rbac := rbacv1.SchemeGroupVersion
	roles, bindings := namespaced(rbac, "roles"), namespaced(rbac, "rolebindings")
	role := func(verbs ...string) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "parts"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs}}}
	}
	binding := func(name string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbac.Group, Kind: "Role", Name: "parts"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "a", Name: "sa"}},
		}
	}
	const (
		lacks = "a x.io/act gadgets.x.io %: 1 [g]"
		only  = "b %.rbac.authorization.k8s.io # a x.io/act gadgets.x.io: 1 [g]"
	)
	on := func(resource, name string) string {
		return strings.Replace(strings.Replace(only, "%", resource, 1), "#", name, 1)
	}
	hangs := []string{strings.Replace(lacks, "%", "hangs get ConfigMap in namespace b as service account a/sa", 1)}
	may := []string{strings.Replace(lacks, "%", "may delete ConfigMap in namespace b as service account a/sa", 1)}
	for _, step := range []struct {
		reason            string
		do                func()
		unallowed, needed []string
	}{
		{"nothing lets it", func() {}, hangs, nil},
		{"a binding to a role that is not there", func() { apply(t, w, bindings, binding("one"), true) }, hangs, nil},
		{"the role lets it read", func() { apply(t, w, roles, role("get", "update"), true) }, may, []string{on("rolebindings", "one"), on("roles", "parts")}},
		{"and delete", func() { apply(t, w, roles, role("get", "delete"), false) }, nil, []string{on("rolebindings", "one"), on("roles", "parts")}},
		{"a second binding", func() { apply(t, w, bindings, binding("two"), true) }, nil, []string{on("roles", "parts")}},
		{"bindings are hidden", func() { w.SetUnseen(bindings, facts.UnseenError, "x") }, nil, nil},
		{"they are listed again, without any", func() { w.Begin(bindings); w.End(bindings) }, hangs, nil},
		{"so is the account", func() {
			accounts := namespaced(metav1.SchemeGroupVersion, "serviceaccounts")
			accounts.Group, accounts.Version = "", "v1"
			w.Begin(accounts)
			w.End(accounts)
		}, nil, nil},
	} {
		step.do()
		w.Settle()
		for section, want := range map[string][]string{"unallowed": step.unallowed, "needed": step.needed} {
			if diff := cmp.Diff(append([]string{}, want...), sectionLines(w, section)); diff != "" {
				t.Errorf("%s: %s: -want +got\n%s", step.reason, section, diff)
			}
		}
	}
}
