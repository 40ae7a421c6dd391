package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

type ownedKind struct{ finalizer, group, plural, name, image, namespace string }

// ownedKinds returns kinds in different API groups, without kinds whose owner is known by its namespace.
func ownedKinds(t *testing.T, n int) (kinds []ownedKind) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range catalog.Default().Entries() {
		plural, group, _ := strings.Cut(e.On[0], ".")
		if e.Finalizer == "" || len(e.Workloads) == 0 || e.Component != catalog.InCluster || !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") || seen[group] || len(kinds) == n {
			continue
		}
		w := e.Workloads[0]
		if w.Name == "" || strings.Contains(w.Name, "*") || catalog.Generic(w.Name) {
			continue
		}
		seen[group] = true
		kinds = append(kinds, ownedKind{e.Finalizer, group, plural, w.Name, w.Image, fmt.Sprintf("others-%d", len(kinds))})
	}
	if len(kinds) < n {
		t.Fatalf("the catalog has %d such kinds, want %d", len(kinds), n)
	}
	return kinds
}

// others returns a namespace with an object of the kind and, if real is set, its owner, installed by
// administrators under another name.
func (o ownedKind) others(real bool) string {
	world := `
{apiVersion: v1, kind: Namespace, metadata: {name: NAMESPACE, labels: {termguard.dev/enforce: deny}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.GROUP, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Thing, plural: PLURAL}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	if real {
		world += `---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: NAMESPACE, namespace: default}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NAMESPACE}, rules: [{apiGroups: [GROUP], resources: [PLURAL], verbs: [update]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: NAMESPACE}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAMESPACE}, subjects: [{kind: ServiceAccount, name: NAMESPACE, namespace: default}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: NAMESPACE, namespace: default}, spec: {serviceAccountName: NAMESPACE, containers: [{name: c, image: corp/renamed}]}}
`
	}
	return o.fill(world)
}

func (o ownedKind) object() string {
	return o.fill("{apiVersion: GROUP/v1, kind: Thing, metadata: {name: it, namespace: NAMESPACE, finalizers: ['FINALIZER']}}")
}

func (o ownedKind) fill(text string) string {
	return strings.NewReplacer("NAMESPACE", o.namespace, "PLURAL", o.plural, "GROUP", o.group, "FINALIZER", o.finalizer).Replace(text)
}

// fakes creates fake owners in the tenant's namespace: workloads with the owner's name and image, a pod, and a
// Lease that never expires.
func (o ownedKind) fakes(ctx context.Context, tenant kubernetes.Interface) error {
	image := "any"
	if o.image != "" {
		image = "corp/" + o.image
	}
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}
	labels := map[string]string{"app": o.namespace}
	holder, duration, now := "laptop_1", int32(2_000_000_000), metav1.NowMicro()
	for i, replicas := range []int32{0, 1} {
		name := o.name
		if i > 0 {
			name = "release-" + o.name
		}
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		}}
		if _, err := tenant.AppsV1().Deployments("tenant").Create(ctx, deployment, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	if _, err := tenant.CoreV1().Pods("tenant").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: o.namespace}, Spec: pod}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := tenant.CoordinationV1().Leases("tenant").Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "abcd." + o.group},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &duration, RenewTime: &now},
	}, metav1.CreateOptions{})
	return err
}

// run sets pods to running, because there is no kubelet.
func run(ctx context.Context, admin kubernetes.Interface, namespace string) error {
	pods, err := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		if _, err := admin.CoreV1().Pods(namespace).UpdateStatus(ctx, &pod, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// TestTenantsOwnNothing checks that fake owners in a tenant's namespace do not change the denials and warnings
// for others, and that no answer recommends giving them rights.
func TestTenantsOwnNothing(t *testing.T) {
	ctx := t.Context()
	g, admin := startGuarded(t, lab.Options{Progress: t.Output()})
	kinds := ownedKinds(t, 32)
	want := map[string]string{}
	for i, kind := range kinds {
		real := i%2 == 1
		want[kind.namespace] = "refused"
		if real {
			want[kind.namespace] = scenario.AtRisk
		}
		if err := g.Apply(ctx, kind.others(real)); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(ctx, admin, "default"); err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		if err := g.Await(ctx, time.Minute, kind.plural+"."+kind.group+" to be served", func(ctx context.Context) (bool, error) {
			return g.Apply(ctx, kind.object()) == nil, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	checkAnswers := func(when string) {
		t.Helper()
		for _, kind := range kinds {
			var lines []string
			if err := g.Await(ctx, 2*time.Minute, fmt.Sprintf("%q on %s %s", want[kind.namespace], kind.finalizer, when), func(ctx context.Context) (bool, error) {
				got, current, err := answer(ctx, g.Config(), kind.namespace)
				lines = current
				return got == want[kind.namespace], err
			}); err != nil {
				t.Errorf("%v\nlast answer: %q", err, lines)
			}
		}
	}
	checkAnswers("before")
	if t.Failed() {
		return
	}

	config, err := g.ServiceAccountConfig(ctx, "tenant", "mallory")
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	tenant, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	// The tenant's pods have the rights that definitions aggregate to "edit", in the tenant's namespace.
	var groups []string
	for _, kind := range kinds {
		groups = append(groups, kind.group)
	}
	aggregated := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "things-edit", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, aggregated, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mine := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "mine"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "tenant", Name: "default"}},
	}
	if _, err := admin.RbacV1().RoleBindings("tenant").Create(ctx, mine, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		if err := kind.fakes(ctx, tenant); err != nil {
			t.Fatal(err)
		}
	}
	ready := func(ctx context.Context) (bool, error) {
		if err := run(ctx, admin, "tenant"); err != nil {
			return false, err
		}
		deployments, err := admin.AppsV1().Deployments("tenant").List(ctx, metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(deployments.Items, func(d appsv1.Deployment) bool { return *d.Spec.Replicas > d.Status.ReadyReplicas }), err
	}
	if err := g.Await(ctx, 2*time.Minute, "the tenant's workloads to be ready", ready); err != nil {
		t.Fatal(err)
	}
	// Leases are read every 15 s: renew three times, so that the renewals are seen.
	for range 3 {
		pause(ctx, 16*time.Second)
		for _, kind := range kinds {
			lease, err := tenant.CoordinationV1().Leases("tenant").Get(ctx, "abcd."+kind.group, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			now := metav1.NowMicro()
			lease.Spec.RenewTime = &now
			if _, err := tenant.CoordinationV1().Leases("tenant").Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, kind := range kinds {
		got, lines, err := answer(ctx, g.Config(), kind.namespace)
		if err != nil || got != want[kind.namespace] {
			t.Errorf("%s: answer %q beside a tenant's workloads (%q, %v), want %q", kind.finalizer, got, lines, err, want[kind.namespace])
		}
	}
	report, err := g.Check(ctx, "namespaces/"+kinds[0].namespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range report.Plan {
		if strings.Contains(step.Command, "create") || strings.Contains(step.Command, "tenant") {
			t.Errorf("an administrator's answer: %q (%s)", step.Command, step.Do)
		}
	}
}
