package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/catalog"
)

// Objects of a tenant who has "edit" in namespace tenant, and may bind his own rights there. NAME,
// IMAGE and GROUP belong to the owner of a finalizer elsewhere.
const (
	tenantsEdit = authorizes + `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: edit, labels: {kubernetes.io/bootstrapping: rbac-defaults}}, rules: [{apiGroups: [apps, coordination.k8s.io], resources: [deployments, leases], verbs: ['*']}, {apiGroups: [GROUP], resources: ['*'], verbs: ['*']}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: mallory, namespace: tenant}, roleRef: {kind: ClusterRole, name: edit}, subjects: [{kind: User, name: mallory}]}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: tenant}}
`
	tenantsDeployment = `
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: NAME, namespace: tenant}, spec: {replicas: 1, template: {spec: {containers: [{name: c, image: IMAGE}]}}}, status: {readyReplicas: 1}}
`
	tenantsPod = `
---
{apiVersion: v1, kind: Pod, metadata: {name: bare, namespace: tenant}, spec: {nodeName: n1, containers: [{name: c, image: corp/IMAGE}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
`
	tenantsBinding = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: mine, namespace: tenant}, roleRef: {kind: ClusterRole, name: edit}, subjects: [{kind: ServiceAccount, name: default, namespace: tenant}]}
`
	// renamed is a real owner under another name than the catalog's.
	renamed = `
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: real, namespace: ours}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: real}, rules: [{apiGroups: [GROUP], resources: [PLURAL], verbs: [update]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: real}, roleRef: {kind: ClusterRole, name: real}, subjects: [{kind: ServiceAccount, name: real, namespace: ours}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: real-1, namespace: ours}, spec: {nodeName: n1, serviceAccountName: real, containers: [{name: c, image: corp/renamed}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
`
)

// tenantsLease returns a lease that a tenant holds for ever.
func tenantsLease(name, holder string, renewed time.Time) coordinationv1.Lease {
	at, duration := metav1.NewMicroTime(renewed), int32(2_000_000_000)
	return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &duration}}
}

// TestTenantsProveNothing checks that a tenant's objects do not change the verdict on a finalizer
// elsewhere, for every eighth catalog entry with workloads: its owner is not installed, or runs
// under another name.
func TestTenantsProveNothing(t *testing.T) {
	entries := 0
	for _, entry := range catalog.Default().Entries() {
		plural, group, custom := strings.Cut(entry.On[0], ".")
		if entry.Finalizer == "" || len(entry.Workloads) == 0 || plural == "*" {
			continue
		}
		if entries++; entries%8 != 0 {
			continue // fifty say as much, in a tenth of the time
		}
		first := entry.Workloads[0]
		name, image := first.Name, first.Image
		if name == "" || catalog.Generic(name) {
			name = "any"
		}
		if image == "" {
			image = "any"
		}
		fill := strings.NewReplacer("NAME", strings.ReplaceAll(name, "*", "x"), "IMAGE", image, "GROUP", group, "PLURAL", plural, "FINALIZER", entry.Finalizer)
		object := "\n{apiVersion: GROUP/v1, kind: Thing, metadata: {name: it, namespace: others, finalizers: ['FINALIZER']}}\n"
		if custom && strings.Contains(group, ".") {
			object += "---\n{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: PLURAL.GROUP}, spec: {group: GROUP, scope: Namespaced, names: {kind: Thing, plural: PLURAL}, versions: [{name: v1, served: true, storage: true}]}}\n"
		}
		for _, base := range []struct{ what, world string }{{"not installed", ""}, {"renamed", renamed}} {
			ask := func(fake string, lists ...[]coordinationv1.Lease) (string, string) {
				all := objects(t, fill.Replace(object+tenantsEdit+base.world+fake))
				all[0].SetAPIVersion(schema.GroupVersion{Group: group, Version: "v1"}.String())
				now := time.Unix(1e9, 0)
				w, err := FromObjects(Options{Now: func() time.Time { return now }}, all[1:])
				if err != nil {
					t.Fatal(err)
				}
				for _, list := range lists {
					w.SetLeases(list)
					now = now.Add(15 * time.Second)
				}
				w.Settle()
				got, _ := w.Ownership(all[0], schema.GroupResource{Group: group, Resource: plural}, nil)[entry.Finalizer].(map[string]any)
				surely := "completes"
				switch state := got["state"]; {
				case state == Alive:
				case state != Unknown && got["certainty"] == "will":
					surely = "will hang"
				default:
					surely = "may hang"
				}
				return surely, fmt.Sprint(got)
			}
			var renewed [][]coordinationv1.Lease
			for i := range 4 {
				renewed = append(renewed, []coordinationv1.Lease{tenantsLease("x."+group, "laptop_1", time.Unix(1e9, 0).Add(time.Duration(i)*15*time.Second))})
			}
			want, _ := ask("")
			for what, fake := range map[string]string{
				"a Deployment":                               tenantsDeployment,
				"a Deployment that is scaled to zero":        strings.NewReplacer("replicas: 1", "replicas: 0", ", status: {readyReplicas: 1}", "").Replace(tenantsDeployment),
				"a pod of its image":                         tenantsPod,
				"a Deployment with rights in that namespace": tenantsDeployment + tenantsBinding,
				"a pod with rights in that namespace":        tenantsPod + tenantsBinding,
			} {
				if got, why := ask(fake); got != want {
					t.Errorf("%s, %s, beside %s: %s, want %s: %s", entry.Finalizer, base.what, what, got, want, why)
				}
			}
			for what, lists := range map[string][][]coordinationv1.Lease{
				"a Lease that lasts for ever":   renewed[:1],
				"a Lease that a tenant renews":  renewed,
				"a Lease of the name of a pod":  {{tenantsLease("x."+group, "bare_1", time.Unix(1e9, 0))}},
				"a Lease in the name of others": {{tenantsLease("x."+group, "real-1_1", time.Unix(1e9, 0))}},
			} {
				if got, why := ask(tenantsPod+tenantsBinding, lists...); got != want {
					t.Errorf("%s, %s, beside %s: %s, want %s: %s", entry.Finalizer, base.what, what, got, want, why)
				}
			}
		}
	}
	if entries < 400 {
		t.Errorf("only %d entries, want at least 400", entries)
	}
}
