package teardown

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

// BenchmarkPlan makes a plan for everything in a cluster of 1,000 namespaces with 5,000 custom
// resources of 20 operators. It begins when all is read.
func BenchmarkPlan(b *testing.B) {
	const operators, namespaces, each = 20, 1_000, 5
	parts := []string{"{apiVersion: termguard.dev/v1, kind: Cluster, version: v1.36.3, groups: [many.test]}"}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	for i := range operators {
		add("{apiVersion: v1, kind: Namespace, metadata: {name: op-%d}, spec: {finalizers: [kubernetes]}}", i)
		add("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: k%ds.many.test}, spec: {group: many.test, scope: Namespaced, names: {kind: K%d, plural: k%ds}, versions: [{name: v1, served: true, storage: true}]}}", i, i, i)
		add("{apiVersion: apps/v1, kind: Deployment, metadata: {name: op, namespace: op-%d}, spec: {replicas: 1, selector: {matchLabels: {app: op}}, template: {metadata: {labels: {app: op}}, spec: {serviceAccountName: op, containers: [{name: c, image: op%d}]}}}, status: {replicas: 1, readyReplicas: 1}}", i, i)
		add("{apiVersion: v1, kind: ServiceAccount, metadata: {name: op, namespace: op-%d}}", i)
		add("{apiVersion: v1, kind: Pod, metadata: {name: op-1, namespace: op-%d, labels: {app: op}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: op, uid: r%d, controller: true}]}, spec: {nodeName: n1, serviceAccountName: op, containers: [{name: c, image: op%d}]}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}", i, i, i)
		add("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: op%d}, rules: [{apiGroups: [many.test], resources: [k%ds, k%ds/status], verbs: ['*']}]}", i, i, i)
		add("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: op%d}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: op%d}, subjects: [{kind: ServiceAccount, name: op, namespace: op-%d}]}", i, i, i)
	}
	for i := range namespaces {
		add("{apiVersion: v1, kind: Namespace, metadata: {name: ns-%d}, spec: {finalizers: [kubernetes]}}", i)
		for n := range each {
			add("{apiVersion: many.test/v1, kind: K%d, metadata: {name: o%d, namespace: ns-%d, finalizers: [many.test/f%d]}}", (i+n)%operators, n, i, (i+n)%operators)
		}
	}
	world := worldOf(b, strings.Join(parts, "\n---\n"))
	for b.Loop() {
		var before, after syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		place, err := scan.FromFacts(world)
		if err != nil {
			b.Fatal(err)
		}
		scope, err := Everything(place)
		if err != nil {
			b.Fatal(err)
		}
		for i := range scope.subjects {
			scope.subjects[i].Unseen = nil
		}
		plan := planOf(b, scope, Options{})
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
		if plan.Verdict != policies.Completes || plan.things() != namespaces*(each+1)+2*operators {
			b.Fatalf("%s: %d things: %+v", plan.Verdict, plan.things(), plan.First)
		}
		spent := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
		b.ReportMetric(spent.Seconds(), "s-of-processor")
		b.ReportMetric(float64(plan.things()), "things")
		b.ReportMetric(float64(len(plan.Waves)), "waves")
	}
}
