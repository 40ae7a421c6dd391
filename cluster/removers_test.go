package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/internal/race"
)

// TestRemovers checks the dependencies of the removal of the gadgets' finalizer, besides the
// Deployment, its service account and their namespace.
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
		"another's group": {"a group that it is not in", operator + bound("one", `{kind: Group, name: "system:serviceaccounts:a"}`), []string{binding, role}},
		"another's":       {"other accounts' rights do not matter", operator + bound("one", "{kind: ServiceAccount, name: other, namespace: ops}"), []string{binding, role}},
		"no such role":    {"a binding to a missing role gives nothing", operator + bound("also", itself), []string{binding, role}},
		"two roles":       {"either may be deleted", operator + also("{apiGroups: [x.io], resources: [gadgets], verbs: [patch]}"), nil},
		"everything":      {"a cluster-admin in other words", operator + also(`{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}`), nil},
		"other resource":  {"of the same group", operator + also("{apiGroups: [x.io], resources: [widgets], verbs: [update]}"), []string{binding, role}},
		"other group":     {"with the same resource", operator + also("{apiGroups: [y.io], resources: [gadgets], verbs: [update]}"), []string{binding, role}},
		"reads":           {"this removes nothing", operator + also("{apiGroups: [x.io], resources: [gadgets], verbs: [get, list, watch, delete]}"), []string{binding, role}},
		"status":          {"of a custom resource, it leaves finalizers alone", operator + also("{apiGroups: [x.io], resources: [gadgets/status], verbs: [update]}"), []string{binding, role}},
		"namespaced":      {"rights in that namespace do not apply elsewhere", gadget + as("one", anAccount, running) + inA, []string{"a/rolebindings.rbac.authorization.k8s.io/one", "a/roles.rbac.authorization.k8s.io/one"}},
		"both":            {"in the namespace and everywhere", operator + inA, nil},
		"crashes":         {"without them it cannot be mended", gadget + as("one", anAccount, controls, notReady, bad("p", waiting("CrashLoopBackOff"))), []string{binding, role}},
		"scaled to zero":  {"nor scaled up", gadget + as("one", anAccount, controls, scaledToZero), []string{binding, role}},
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
			if _, ok := at(w, "removers", "ops", "serviceaccounts/one").(map[string]any); !ok {
				t.Error("no remover depends on the service account: the owner was not recognized")
			}
		})
	}
}

// TestRightsThatGo checks when the owner of the gadgets' finalizer may remove it only by rights
// that are deleted with their namespace.
func TestRightsThatGo(t *testing.T) {
	const (
		reads = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reads}, rules: [{apiGroups: [x.io], resources: ["*"], verbs: [get, list, watch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: reads}, roleRef: {kind: ClusterRole, name: reads}, subjects: [{kind: ServiceAccount, name: one, namespace: ops}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: writes}, rules: [{apiGroups: [x.io], resources: [gadgets, gadgets/status], verbs: [update]}]}
`
		local = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: NAME, namespace: IN, finalizers: [KEEPS]}, roleRef: {kind: ClusterRole, name: writes}, subjects: [{kind: ServiceAccount, name: one, namespace: ops}]}
`
		everywhere = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: everywhere}, roleRef: {kind: ClusterRole, name: writes}, subjects: [{kind: ServiceAccount, name: one, namespace: ops}]}
`
		toGroup = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: all}, roleRef: {kind: ClusterRole, name: writes}, subjects: [{kind: Group, name: "system:serviceaccounts"}]}
`
	)
	bound := func(name, in, keeps string) string {
		return strings.NewReplacer("NAME", name, "IN", in, "KEEPS", keeps).Replace(local)
	}
	operator := gadget + as("one", anAccount, running) + reads
	inside := strings.ReplaceAll(gadget, "namespace: a", "namespace: ops") + as("one", anAccount, running) + reads
	tests := map[string]struct {
		reason  string
		cluster string
		want    []any
	}{
		"one":        {"nothing else gives the right", operator + bound("b", "a", ""), []any{"b"}},
		"two":        {"both go", operator + bound("b", "a", "") + bound("c", "a", ""), []any{"b", "c"}},
		"kept":       {"a finalizer keeps it", operator + bound("b", "a", "y.io/f"), nil},
		"one kept":   {"which is enough", operator + bound("b", "a", "") + bound("c", "a", "y.io/f"), nil},
		"everywhere": {"a right that stays", operator + bound("b", "a", "") + everywhere, nil},
		"of a group": {"a right that stays", operator + bound("b", "a", "") + toGroup, nil},
		"elsewhere":  {"it is good for another namespace", operator + bound("b", "a", "") + bound("c", "other", ""), []any{"b"}},
		"inside":     {"the owner is deleted with the namespace", inside + bound("b", "ops", ""), nil},
		"hidden":     {"another may be among what cannot be seen", operator + bound("b", "a", "") + strings.Replace(blindness, "resource: pods", "resource: rolebindings.rbac.authorization.k8s.io", 1), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.cluster)
			var got []any
			w.View(func(doc map[string]any) {
				for _, namespace := range []string{"a", "ops"} {
					groups, _ := facts.Lookup(doc, "finalized", namespace, "x.io/cleanup", "gadgets.x.io").(map[string]any)
					for _, group := range groups {
						names, _ := group.(map[string]any)["ownership"].(map[string]any)["bindings"].([]any)
						got = append(got, names...)
					}
				}
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if _, indexed := at(w, "removers", "a", "rights").(map[string]any); indexed != (tc.want != nil) {
				t.Errorf("%s: removers have rights: %v", tc.reason, indexed)
			}
		})
	}
}

// TestBarred checks when a running owner that once removed the gadgets' finalizer no longer has the
// right.
func TestBarred(t *testing.T) {
	const rule = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NAME}, rules: [{apiGroups: [GROUP], resources: [RESOURCE], verbs: [VERBS]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: BINDING, metadata: {name: NAME, IN}, roleRef: {kind: ClusterRole, name: NAME}, subjects: [{kind: KIND, name: WHO, namespace: ops}]}
`
	may := func(name, group, resource, verbs string, other ...string) string {
		text := strings.NewReplacer("NAME", name, "GROUP", group, "RESOURCE", resource, "VERBS", verbs).Replace(rule)
		return strings.NewReplacer(append(other, "BINDING", "ClusterRoleBinding", ", IN", "", "KIND", "ServiceAccount", "WHO", "one")...).Replace(text)
	}
	in := func(namespace string) []string {
		return []string{"BINDING", "RoleBinding", ", IN", ", namespace: " + namespace}
	}
	const one, everything = "system:serviceaccount:ops:one", `"*"`
	const inForce = "\n---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: cluster-admin, labels: {kubernetes.io/bootstrapping: rbac-defaults}}, rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}\n"
	operator := gadget + as("one", anAccount, running) + seen(one+" 1 1h")
	reads := may("reads", "x.io", "gadgets", "get, list, watch")
	tests := map[string]struct {
		reason, cluster, want string
	}{
		"reads":           {"as its role says, and no more", operator + reads, Barred},
		"reads the group": {"the same", operator + may("reads", "x.io", everything, "list"), Barred},
		"deletes":         {"which takes no finalizer off", operator + reads + may("also", "x.io", "gadgets", "delete, create"), Barred},
		"other resource":  {"of the same group", operator + reads + may("also", "x.io", "widgets", "update"), Barred},
		"status":          {"of a custom resource, it leaves finalizers alone", operator + reads + may("also", "x.io", "gadgets/status", "update"), Barred},
		"elsewhere":       {"it is good for another namespace", operator + reads + may("also", "x.io", "gadgets", "update", in("b")...), Barred},
		"patches":         {"which is enough", operator + reads + may("also", "x.io", "gadgets", "patch"), Alive},
		"here":            {"in its namespace", operator + reads + may("also", "x.io", "gadgets", "update", in("a")...), Unknown},
		"one object":      {"it may be this one", operator + reads + strings.Replace(may("also", "x.io", "gadgets", "update"), "verbs", "resourceNames: [other], verbs", 1), Alive},
		"everything":      {"a cluster-admin in other words", operator + reads + may("also", everything, everything, everything), Alive},
		"of a group":      {"that it is in", operator + reads + may("also", "x.io", "gadgets", "update", "KIND", "Group", "WHO", "system:serviceaccounts"), Alive},
		"as others":       {"it may act as an account that may", operator + reads + may("also", `""`, "serviceaccounts", "impersonate"), Alive},
		"no role":         {"RBAC is not in force here", operator, Alive},
		"no role of its":  {"RBAC is in force, and gives it nothing", operator + inForce, Barred},
		"as default":      {"it may have other credentials", strings.ReplaceAll(gadget+as("default", anAccount, running)+seen(one+" 1 1h"), "ops:one", "ops:default") + inForce, Alive},
		"default, bound":  {"its rights are those of its account", strings.ReplaceAll(gadget+as("default", anAccount, running)+seen(one+" 1 1h"), "ops:one", "ops:default") + inForce + may("also", "x.io", "widgets", "update", "WHO", "default"), Barred},
		"reads all":       {"and updates nothing", operator + may("reads", everything, everything, "get, list, watch"), Barred},
		"reads elsewhere": {"and updates nothing here", operator + may("reads", "x.io", "gadgets", "list", in("b")...), Barred},
		"no such role":    {"its binding grants nothing", operator + strings.Replace(reads, "metadata: {name: reads}, rules", "metadata: {name: gone}, rules", 1), Barred},
		"another runs":    {"it may be the owner now", operator + reads + as("two", anAccount, controls, running), Alive},
		"another is down": {"and does nothing", operator + reads + as("two", anAccount, controls), Barred},
		"hidden":          {"a role may be among what cannot be seen", operator + reads + strings.Replace(blindness, "resource: pods", "resource: clusterroles.rbac.authorization.k8s.io", 1), Alive},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.cluster)
			obj := objects(t, tc.cluster)[1]
			got, _ := w.Ownership(obj, schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
			if got["state"] != tc.want {
				t.Errorf("%s: got %v, want %s: %v", tc.reason, got["state"], tc.want, got["evidence"])
			}
		})
	}
}

// TestBarredForSure checks when it is certain that a running owner cannot remove the gadgets'
// finalizer.
func TestBarredForSure(t *testing.T) {
	const (
		reads = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reads}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: reads}, roleRef: {kind: ClusterRole, name: reads}, subjects: [{kind: ServiceAccount, name: one, namespace: ops}]}
`
		given     = "\n---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: ops}}\n"
		inCluster = "in-cluster"
		external  = "external-controller"
	)
	tests := map[string]struct {
		reason, component, cluster string
		state, certainty           string
	}{
		"no right":           {"RBAC is in force and grants it nothing here", inCluster, as("one", anAccount, running) + reads, Barred, "will"},
		"a right":            {"near miss: that binding", inCluster, as("one", anAccount, running, controls) + reads, Alive, "will"},
		"elsewhere":          {"the owner may be another, outside", external, as("one", anAccount, running) + reads, Barred, "may"},
		"another may":        {"it may be the owner", inCluster, as("one", anAccount, running) + reads + as("two", anAccount, running, controls), Alive, "will"},
		"no account":         {"the API server refuses its tokens", inCluster, as("one", running, controls) + given, Barred, "will"},
		"an account":         {"near miss: it exists", inCluster, as("one", anAccount, running, controls) + given, Alive, "will"},
		"accounts not known": {"not even the one that each namespace has", inCluster, as("one", running, controls), Alive, "will"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			entry, err := catalog.Parse([]byte("- {finalizer: x.io/cleanup, resources: [gadgets.x.io], owner: X, component: " + tc.component + ", source: x, workloads: [{kind: Deployment, name: one, namespace: ops}]}"))
			if err != nil {
				t.Fatal(err)
			}
			text := gadget + tc.cluster
			w, err := FromObjects(Options{Catalog: entry, Now: func() time.Time { return time.Unix(0, 0) }}, objects(t, text))
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

// TestRemoversOfOwners checks that the owners of the Deployments that remove the gadgets'
// finalizer, and the owners' owners, are known.
func TestRemoversOfOwners(t *testing.T) {
	const (
		cluster    = "{apiVersion: y.io/v1, kind: Cluster, name: it, uid: cluster}"
		other      = "{apiVersion: y.io/v1, kind: Cluster, name: other, uid: other}"
		definition = `
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: clusters.y.io}, spec: {group: y.io, scope: Namespaced, names: {kind: Cluster, plural: clusters}, versions: [{name: v1, served: true, storage: true}]}}
`
		fleet = `
---
{apiVersion: y.io/v1, kind: Cluster, metadata: {name: it, namespace: ops, uid: cluster, ownerReferences: [OWNERS]}}
`
		second = `
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: two, namespace: ops, ownerReferences: [OWNERS]}, spec: {replicas: 1, template: {spec: {serviceAccountName: one, containers: [{name: c, image: i}]}}}, status: {readyReplicas: 1}}
`
	)
	owned := func(text, owners string) string { return strings.ReplaceAll(text, "OWNERS", owners) }
	operator := func(owners string) string {
		deployed := strings.Replace(running, "{name: SA, namespace: ops}", owned("{name: SA, namespace: ops, ownerReferences: [OWNERS]}", owners), 1)
		return gadget + definition + as("one", anAccount, controls, deployed)
	}
	both := []string{"/Cluster.y.io/it", "ops/Cluster.y.io/it"}
	tests := map[string]struct {
		reason  string
		cluster string
		want    []string
	}{
		"one":              {"whether it has a namespace its reference does not say", operator(cluster), both},
		"none":             {"it stands alone", operator(""), nil},
		"two":              {"the other keeps it", operator(cluster + ", " + other), nil},
		"above":            {"it is deleted with its owner's owner", operator(cluster) + owned(fleet, "{apiVersion: apps/v1, kind: Fleet, name: all, uid: fleet}"), []string{"/Cluster.y.io/it", "/Fleet.apps/all", "ops/Cluster.y.io/it", "ops/Fleet.apps/all"}},
		"of a core kind":   {"which has no group", operator("{apiVersion: v1, kind: ConfigMap, name: it, uid: map}"), []string{"/ConfigMap/it", "ops/ConfigMap/it"}},
		"above, but two":   {"the owner stays with the other", operator(cluster) + owned(fleet, "{apiVersion: y.io/v1, kind: Fleet, name: all, uid: fleet}, "+other), both},
		"circle":           {"references that lead back end there", operator(cluster) + owned(fleet, cluster), both},
		"of two, the same": {"both go", operator(cluster) + owned(second, cluster), both},
		"of two, others":   {"one stays", operator(cluster) + owned(second, other), nil},
		"of two, one free": {"it stays", operator(cluster) + owned(second, ""), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.cluster)
			removers, _ := at(w, "removers").(map[string]any)
			var got []string
			for namespace, whats := range removers {
				for what := range whats.(map[string]any) {
					if kind := what[:1]; kind == strings.ToUpper(kind) {
						got = append(got, namespace+"/"+what)
					}
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestRemoversAreBounded checks that a chain of owners is followed to a limit, and that the number
// of owners kept for the objects of one kind is limited.
func TestRemoversAreBounded(t *testing.T) {
	race.Skip(t)
	definition := `
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: clusters.y.io}, spec: {group: y.io, scope: Namespaced, names: {kind: Cluster, plural: clusters}, versions: [{name: v1, served: true, storage: true}]}}
`
	for i := range 1200 {
		definition += fmt.Sprintf("---\n{apiVersion: y.io/v1, kind: Cluster, metadata: {name: c%d, namespace: ops, uid: u%[1]d, ownerReferences: [{apiVersion: y.io/v1, kind: Cluster, name: c%[2]d, uid: u%[2]d}]}}\n", i, i+1)
	}
	for first, want := range map[int]int{0: 8, 1100: 1} {
		deployed := strings.Replace(running, "{name: SA, namespace: ops}", fmt.Sprintf("{name: SA, namespace: ops, ownerReferences: [{apiVersion: y.io/v1, kind: Cluster, name: c%d, uid: u%[1]d}]}", first), 1)
		removers, _ := at(world(t, gadget+as("one", anAccount, controls, deployed)+definition), "removers", "").(map[string]any)
		got := 0
		for what := range removers {
			if strings.HasPrefix(what, "Cluster.y.io/") {
				got++
			}
		}
		if got != want {
			t.Errorf("%d owners from number %d on, want %d", got, first, want)
		}
	}
}
