package answer

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/learned"
	"github.com/termguard/termguard/policies"
)

// provider runs, and removes the finalizers of four objects in namespace demo.
const provider = `
{apiVersion: v1, kind: Namespace, metadata: {name: demo}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: buckets.s3.test}, spec: {group: s3.test, scope: Namespaced, names: {kind: Bucket, plural: buckets}, versions: [{name: v1, served: true, storage: true}]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: users.s3.test}, spec: {group: s3.test, scope: Namespaced, names: {kind: User, plural: users}, versions: [{name: v1, served: true, storage: true}]}}
---
{apiVersion: s3.test/v1, kind: Bucket, metadata: {name: a, namespace: demo, uid: a, finalizers: [s3.test/f]}}
---
{apiVersion: s3.test/v1, kind: Bucket, metadata: {name: b, namespace: demo, uid: b, finalizers: [s3.test/f]}}
---
{apiVersion: s3.test/v1, kind: Bucket, metadata: {name: c, namespace: demo, uid: c, finalizers: [s3.test/f]}}
---
{apiVersion: s3.test/v1, kind: User, metadata: {name: d, namespace: demo, uid: d, finalizers: [s3.test/g]}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: provider, namespace: ops}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: provider}, rules: [{apiGroups: [s3.test], resources: [buckets, buckets/finalizers, users, users/finalizers], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: provider}, roleRef: {kind: ClusterRole, name: provider}, subjects: [{kind: ServiceAccount, name: provider, namespace: ops}]}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: provider, namespace: ops}, spec: {replicas: 1, template: {metadata: {labels: {app: provider}}, spec: {serviceAccountName: provider, containers: [{name: c, image: provider}]}}}, status: {replicas: 1, readyReplicas: 1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: provider-1, namespace: ops, labels: {app: provider}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: provider, uid: p, controller: true}]}, spec: {nodeName: n1, serviceAccountName: provider, containers: [{name: c, image: provider}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`

// providerSeen returns that the provider was seen to remove a finalizer, and how long it took.
func providerSeen(finalizer, resource string, took ...learned.Bucket) learned.Owner {
	now := time.Now()
	for i := range took {
		took[i].Last = now
	}
	return learned.Owner{Finalizer: finalizer, Resource: resource, Identity: "system:serviceaccount:ops:provider", Everywhere: true, Objects: 5, First: now.Add(-48 * time.Hour), Last: now, Took: took}
}

// providerWorld returns the facts with what was learned.
func providerWorld(t *testing.T, text string, learnt ...learned.Owner) *cluster.World {
	t.Helper()
	world, err := cluster.FromObjects(cluster.Options{}, decodeAll(t, strings.TrimSpace(text)))
	if err != nil {
		t.Fatal(err)
	}
	var memory learned.Memory
	for _, owner := range learnt {
		memory.Add(owner)
	}
	world.SetLearned(memory)
	world.Settle()
	return world
}

func TestEstimate(t *testing.T) {
	buckets := providerSeen("s3.test/f", "buckets.s3.test", learned.Bucket{Within: 3, Objects: 19}, learned.Bucket{Within: 10, Objects: 1})
	users := providerSeen("s3.test/g", "users.s3.test", learned.Bucket{Within: 1, Objects: 6}, learned.Bucket{Within: 20, Objects: 1})
	once := providerSeen("s3.test/g", "users.s3.test", learned.Bucket{Within: 20, Objects: 1})
	seconds := func(n int) *int { return &n }
	pods := policies.Finding{Certainty: policies.May, Severity: policies.Info, Message: "slow", EstimateSeconds: seconds(32)}
	tests := map[string]struct {
		reason   string
		learnt   []learned.Owner
		findings []policies.Finding
		usual    *int
		estimate *int
		says     string
	}{
		"of each": {
			"the slowest counts, and that the namespace controller looks every 8 s",
			[]learned.Owner{buckets, users}, nil, seconds(5 + 8), seconds(5 + 3*8), "removes 4 finalizers, usually within 13 s, within 29 s at most",
		},
		"beside pods": {
			"they go first", []learned.Owner{buckets, users}, []policies.Finding{pods},
			seconds(32 + 13), seconds(32 + 29), "usually within 45 s, within 61 s at most",
		},
		"of one of them": {
			"nobody can tell", []learned.Owner{buckets}, nil, nil, nil, "removes 4 finalizers\n",
		},
		"once": {
			"one object is no measure, but is told", []learned.Owner{buckets, once}, nil, nil, nil, "it did so for 1 object before, within 20 s",
		},
		"evidence": {
			"what it rests on", []learned.Owner{buckets, users}, nil, seconds(13), seconds(29), "it did so for the last 20 objects, usually within 3 s, within 10 s at most",
		},
		"hang": {
			"a deletion that hangs has no estimate", []learned.Owner{buckets, users}, []policies.Finding{{Certainty: policies.Will, Severity: policies.High, Message: "stuck"}}, nil, nil, "hangs: ",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			world := providerWorld(t, provider, tc.learnt...)
			subject, err := FromFacts(world, Name{Object: policies.Object{Resource: "ns", Name: "demo"}})
			if err != nil {
				t.Fatal(err)
			}
			report, err := ask(t.Context(), evaluated(answer{Result: policies.Result{Findings: tc.findings}}), world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]*int{tc.usual, tc.estimate}, []*int{report.UsualSeconds, report.EstimateSeconds}); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			var text bytes.Buffer
			if err := report.all.Text(&text); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), tc.says) {
				t.Errorf("%s: %q is missing from\n%s", tc.reason, tc.says, &text)
			}
		})
	}
}

// podFacts has a namespace with two pods that run.
const podFacts = `
{apiVersion: v1, kind: Namespace, metadata: {name: demo}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: demo, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: w, controller: true}]}, spec: {nodeName: n1}, status: {phase: Running}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db-0, namespace: demo, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: d, controller: true}]}, spec: {nodeName: n1}, status: {phase: Running}}
---
{apiVersion: v1, kind: Pod, metadata: {name: done, namespace: demo, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: once, uid: o, controller: true}]}, spec: {nodeName: n1}, status: {phase: Succeeded}}`

// TestUsualStops checks that the usual duration of a pod comes from how long pods of its workload
// took.
func TestUsualStops(t *testing.T) {
	stop := func(workload string, took ...learned.Bucket) learned.Stop {
		return learned.Stop{Namespace: "demo", Workload: workload, Took: took}
	}
	web := stop("Deployment/web", learned.Bucket{Within: 2, Objects: 8}, learned.Bucket{Within: 4, Objects: 1})
	db := stop("StatefulSet/db", learned.Bucket{Within: 20, Objects: 2}, learned.Bucket{Within: 25, Objects: 1})
	once := stop("StatefulSet/db", learned.Bucket{Within: 20, Objects: 1})
	seconds := func(n int) *int { return &n }
	for name, tc := range map[string]struct {
		reason     string
		stops      []learned.Stop
		kind, name string
		bound      int
		usual      *int
		says       string
	}{
		"a pod":                   {"as long as other pods of its workload", []learned.Stop{web}, "pods", "web-1", 31, seconds(2), "usually within 2 s, within 31 s at most"},
		"a pod with less time":    {"the grace period bounds it", []learned.Stop{web}, "pods", "web-1", 1, seconds(1), "within 1 s"},
		"a pod of another":        {"no duration was seen", []learned.Stop{db}, "pods", "web-1", 31, nil, "within 31 s"},
		"a namespace":             {"its slowest pod, and the 16 s between retries of its controller", []learned.Stop{web, db}, "ns", "demo", 41, seconds(5 + 2*16), "usually within 37 s, within 41 s at most"},
		"a namespace, seen once":  {"one pod is not enough", []learned.Stop{web, once}, "ns", "demo", 41, nil, "within 41 s"},
		"a namespace, seen never": {"no duration was seen", nil, "ns", "demo", 41, nil, "within 41 s"},
	} {
		t.Run(name, func(t *testing.T) {
			world := providerWorld(t, podFacts)
			var memory learned.Memory
			for _, s := range tc.stops {
				memory.AddStop(s)
			}
			world.SetLearned(memory)
			subject, err := FromFacts(world, Name{Object: policies.Object{Resource: tc.kind, Namespace: "demo", Name: tc.name}})
			if err != nil {
				t.Fatal(err)
			}
			slow := policies.Finding{Certainty: policies.May, Severity: policies.Info, Message: "slow", EstimateSeconds: seconds(tc.bound)}
			report, err := ask(t.Context(), evaluated(answer{Result: policies.Result{Findings: []policies.Finding{slow}}}), world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]*int{tc.usual, seconds(tc.bound)}, []*int{report.UsualSeconds, report.EstimateSeconds}); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			var text bytes.Buffer
			if err := report.all.Text(&text); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), tc.says) {
				t.Errorf("%s: %q is missing from\n%s", tc.reason, tc.says, &text)
			}
		})
	}
}
