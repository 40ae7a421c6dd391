package ownership

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/dependents"
	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/cluster/learned"
)

// smallCatalog has an entry for each way in which an entry decides.
const smallCatalog = `
- {finalizer: x.io/built-in, resources: [gadgets.x.io], owner: gadget controller, component: kube-controller-manager, source: test}
- {finalizer: x.io/known, resources: [gadgets.x.io], owner: operator of X, component: in-cluster, source: test, workloads: [{kind: Deployment, name: x-operator}]}
- {finalizer: x.io/placed, resources: [gadgets.x.io], owner: operator of X, component: in-cluster, source: test, workloads: [{kind: Deployment, name: x-operator, namespace: ops}]}
- {finalizer: x.io/image, resources: [gadgets.x.io], owner: agent of X, component: external-controller, source: test, workloads: [{image: x-agent}]}
- {finalizer: x.io/outside, resources: [gadgets.x.io], owner: X, component: external-controller, source: test}
- {finalizer: x.io/cloud, resources: [gadgets.x.io], owner: cloud controller, component: cloud-controller-manager, source: test}
- {finalizer: x.io/needs, resources: [gadgets.x.io], owner: operator of Y, component: in-cluster, crdGroup: y.io, source: test}
- {finalizer: x.io/other, resources: [widgets.x.io], owner: core of X, component: in-cluster, source: test, workloads: [{image: x-core}]}
- {finalizer: x.io/resized, resources: [widgets.x.io], owner: resizer, component: in-cluster, source: test, workloads: [{image: csi-resizer}]}
- {finalizer: x.io/attached, resources: [gadgets.x.io], owner: attacher, component: in-cluster, source: test, workloads: [{image: csi-attacher}]}
`

// Objects that a cluster with gadgets.x.io may have, and that may remove its finalizers: ops/x is
// the service account of a Deployment and its pod.
const (
	gadgets     = "{kind: CustomResourceDefinition, metadata: {name: gadgets.x.io}, spec: {group: x.io, names: {kind: Gadget, plural: gadgets}}}"
	itsAccount  = "{kind: ServiceAccount, metadata: {name: x, namespace: ops}}"
	controls    = "{kind: ClusterRole, metadata: {name: x}, rules: [{apiGroups: [x.io], resources: [gadgets, gadgets/status], verbs: [update]}]}"
	writes      = "{kind: ClusterRole, metadata: {name: x}, rules: [{apiGroups: [x.io], resources: [gadgets], verbs: [update]}]}"
	reads       = "{kind: ClusterRole, metadata: {name: x}, rules: [{apiGroups: [x.io], resources: [gadgets], verbs: [list]}]}"
	authorizes  = "{kind: ClusterRole, metadata: {name: cluster-admin, labels: {kubernetes.io/bootstrapping: rbac-defaults}}, rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}"
	boundAll    = "{kind: ClusterRoleBinding, metadata: {name: x}, roleRef: {kind: ClusterRole, name: x}, subjects: [{kind: ServiceAccount, name: x, namespace: ops}]}"
	sidecarsMay = "{kind: ClusterRoleBinding, metadata: {name: s}, roleRef: {kind: ClusterRole, name: x}, subjects: [{kind: ServiceAccount, name: default, namespace: ops}]}"
	boundHere   = "{kind: RoleBinding, metadata: {name: x, namespace: demo}, roleRef: {kind: ClusterRole, name: x}, subjects: [{kind: ServiceAccount, name: x, namespace: ops}]}"
	pod         = "{kind: Pod, metadata: {name: x-1, namespace: ops}, spec: {serviceAccountName: x, containers: [{name: manager, image: x-agent}]}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}"
	brokenPod   = "{kind: Pod, metadata: {name: x-1, namespace: ops}, spec: {serviceAccountName: x, containers: [{name: manager, image: x-agent}]}, status: {phase: Pending, containerStatuses: [{name: manager, state: {waiting: {reason: ErrImageNeverPull}}}]}}"
	up          = "{kind: Deployment, metadata: {name: x-operator, namespace: ops}, spec: {replicas: 1, template: {spec: {serviceAccountName: x, containers: [{name: manager, image: x-agent}]}}}, status: {readyReplicas: 1}}"
	scaled      = "{kind: Deployment, metadata: {name: x-operator, namespace: ops}, spec: {replicas: 0, template: {spec: {serviceAccountName: x, containers: [{name: manager, image: x-agent}]}}}, status: {readyReplicas: 1}}"
	notReady    = "{kind: Deployment, metadata: {name: x-operator, namespace: ops}, spec: {replicas: 1, template: {spec: {serviceAccountName: x, containers: [{name: manager, image: x-agent}]}}}}"
	refused     = "{kind: Deployment, metadata: {name: x-operator, namespace: ops}, spec: {replicas: 1, template: {spec: {serviceAccountName: x, containers: [{name: manager, image: x-agent}]}}}, status: {conditions: [{type: ReplicaFailure, status: 'True', message: exceeded quota}]}}"
	opsGoes     = "{kind: Namespace, metadata: {name: ops, deletionTimestamp: '2026-01-01T00:00:00Z'}}"
	attacher    = "{kind: Pod, metadata: {name: csi-1, namespace: ops}, spec: {containers: [{name: a, image: csi-attacher, args: [--socket=/ebs.csi.test.sock]}]}, status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}"
	driver      = "{kind: CSIDriver, metadata: {name: ebs.csi.test}}"
	cloudNode   = "{kind: Node, metadata: {name: n1}, spec: {providerID: 'aws:///i-1'}}"
	othersLease = "{kind: Lease, metadata: {name: abcd.x.io, namespace: ops}, spec: {holderIdentity: laptop_1, renewTime: '2026-01-01T00:00:00.000000Z', leaseDurationSeconds: 15}}"
	podsLease   = "{kind: Lease, metadata: {name: abcd.x.io, namespace: ops}, spec: {holderIdentity: x-1_1, renewTime: '2026-01-01T00:00:00.000000Z', leaseDurationSeconds: 15}}"
)

// now is the time of all tests.
var now = time.Date(2026, 1, 1, 0, 0, 5, 0, time.UTC)

// kinds are the Go types of objects, by kind.
var kinds = map[string]func() runtime.Object{
	"ClusterRole": func() runtime.Object { return &rbacv1.ClusterRole{} }, "ClusterRoleBinding": func() runtime.Object { return &rbacv1.ClusterRoleBinding{} },
	"RoleBinding": func() runtime.Object { return &rbacv1.RoleBinding{} }, "CustomResourceDefinition": func() runtime.Object { return &apiextensionsv1.CustomResourceDefinition{} },
	"ServiceAccount": func() runtime.Object { return &corev1.ServiceAccount{} }, "Namespace": func() runtime.Object { return &corev1.Namespace{} },
	"Deployment": func() runtime.Object { return &appsv1.Deployment{} }, "Pod": func() runtime.Object { return &corev1.Pod{} },
	"CSIDriver": func() runtime.Object { return &storagev1.CSIDriver{} }, "Node": func() runtime.Object { return &corev1.Node{} },
	"Lease": func() runtime.Object { return &coordinationv1.Lease{} },
}

// keepAll passes an object to all keepers: each keeps objects of its own type alone.
func keepAll(p *Part, o runtime.Object) {
	for _, k := range p.Keepers() {
		k.Keep(o)
	}
}

// partWith returns a part that keeps objects.
func partWith(t *testing.T, options Options, objects ...string) (*Part, facts.Document) {
	t.Helper()
	entries, err := catalog.Parse([]byte(smallCatalog))
	if err != nil {
		t.Fatal(err)
	}
	doc := facts.Document{}
	options.Catalog, options.MaxNames, options.Now = entries, 5, func() time.Time { return now }
	options.Sight, options.Dependents, options.Touched = facts.NewSight(doc), dependents.New(doc, 5), func(string, string) {}
	p := New(doc, options)
	for _, text := range objects {
		var of metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &of); err != nil {
			t.Fatal(err)
		}
		o := kinds[of.Kind]()
		if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		keepAll(p, o)
		if lease, is := o.(*coordinationv1.Lease); is {
			p.SetLeases([]coordinationv1.Lease{*lease})
		}
	}
	p.Settle(func() {})
	return p, doc
}

// with returns a manifest with old replaced by now.
func with(manifest, old, now string) string {
	if !strings.Contains(manifest, old) {
		panic(fmt.Sprintf("%q is not in %s", old, manifest))
	}
	return strings.ReplaceAll(manifest, old, now)
}

// watching returns a Deployment whose container has a variable.
func watching(deployment, variable, value string) string {
	return with(deployment, "image: x-agent", fmt.Sprintf("image: x-agent, env: [{name: %s, value: %q}]", variable, value))
}

// seen returns an owner that was seen to remove x.io/own.
func seen(identity string, ago time.Duration, outside bool) learned.Owner {
	last := now.Add(-ago)
	return learned.Owner{Finalizer: "x.io/own", Resource: "gadgets.x.io", Identity: identity, Everywhere: true, Objects: 5, Outside: outside, First: last.Add(-48 * time.Hour), Last: last}
}

// watchesBoxes is writes for an operator that also watches boxes.y.io, and crashedOnce is its pod, running again.
var (
	boxes        = "{kind: CustomResourceDefinition, metadata: {name: boxes.y.io}, spec: {group: y.io, names: {kind: Box, plural: boxes}}}"
	watchesBoxes = with(writes, "rules: [", "rules: [{apiGroups: [y.io], resources: [boxes], verbs: [list, watch]}, ")
	crashedOnce  = with(pod, "phase: Running,", "phase: Running, containerStatuses: [{name: manager, restartCount: 1, state: {running: {startedAt: '2026-01-01T00:00:00Z'}}, lastState: {terminated: {startedAt: '2025-12-31T22:00:00Z', finishedAt: '2025-12-31T22:02:00Z'}}}],")
)

// attaches is the Deployment of the pod with the sidecar.
var attaches = with(with(up, "serviceAccountName: x, ", ""), "x-agent", "csi-attacher")

// judge returns the verdict on a finalizer of a gadget in namespace demo, with these objects and
// these learned owners, while these resources, except "", are unseen.
func judge(t *testing.T, options Options, objects []string, seen []learned.Owner, finalizer string, object evidence, hidden ...string) judgement {
	t.Helper()
	p, _ := partWith(t, options, objects...)
	for _, resource := range hidden {
		if resource != "" {
			p.options.Sight.Hide(facts.Resource{GroupVersionResource: schema.ParseGroupResource(resource).WithVersion("v1")}, facts.UnseenForbidden, "no")
		}
	}
	var memory learned.Memory
	for _, o := range seen {
		memory.Add(o)
	}
	p.SetLearned(memory)
	object.finalizer = finalizer
	return p.judge(p.verdictKey("gadgets.x.io", "demo", object), object)
}

// TestVerdicts checks the verdict of each source, with its near misses. TestOwnershipByStrength of
// the package above checks which source wins.
func TestVerdicts(t *testing.T) {
	const x = "system:serviceaccount:ops:x"
	runs := []string{gadgets, itsAccount, controls, boundAll, up, pod}
	type verdict struct {
		State    string
		Certain  bool
		Owner    string
		Hearsay  string
		Evidence string
	}
	ofKnown := seen(x, time.Hour, false)
	ofKnown.Finalizer = "x.io/known"
	ofAttached := seen(x, time.Hour, false)
	ofAttached.Finalizer = "x.io/attached"
	ofImage, ofImageOutside := seen(x, time.Hour, false), seen("alice", 48*time.Hour, false)
	ofImage.Finalizer, ofImageOutside.Finalizer = "x.io/image", "x.io/image"
	whole := with(with(controls, "gadgets, gadgets/status", "'*'"), "rules: [", "rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [update]}, ")
	leads := []string{gadgets, itsAccount, whole, boundAll, up, with(pod, "x-1", "x-operator-1"), with(with(podsLease, "x-1", "x-operator-1"), "abcd.x.io", "leader")}
	sidecar := with(attacher, "spec: {", "spec: {serviceAccountName: x, ")
	sidecarSeen := []string{gadgets, itsAccount, controls, boundAll, sidecar, driver}
	silentSeen := []string{gadgets, itsAccount, controls, boundAll, with(sidecar, "ebs.csi.test", "csi"), driver}
	beside := func(image string) []string { // a sidecar that is scaled to zero
		return []string{gadgets, itsAccount, writes, boundAll, sidecarsMay, driver, with(with(up, "x-agent", "csi-attacher"), "replicas: 1", "replicas: 0"), with(with(pod, "serviceAccountName: x, ", ""), "x-agent", image)}
	}
	cases := map[string]struct {
		reason    string
		finalizer string // "" for x.io/own, which the catalog does not know
		object    evidence
		objects   []string
		seen      []learned.Owner
		options   Options
		hidden    string // a resource that cannot be seen
		want      verdict
	}{
		"Kubernetes": {"Kubernetes itself removes the finalizer", "x.io/built-in", evidence{}, []string{gadgets}, nil, Options{}, "", verdict{Alive, true, "gadget controller", "", "it is built into the kube-controller-manager"}},

		"Declared":          {"an administrator says who", "", evidence{}, []string{gadgets, up}, nil, Options{Owners: map[string]string{"x.io/own": "deployment/ops/x-operator"}}, "", verdict{Alive, true, "Deployment ops/x-operator", "a declaration of the owner", "declared owner Deployment ops/x-operator has 1 ready pod"}},
		"DeclaredDown":      {"and it does not run", "", evidence{declared: "Deployment/ops/x-operator"}, []string{gadgets, scaled}, nil, Options{}, "", verdict{Down, true, "Deployment ops/x-operator", "a declaration of the owner", "Deployment ops/x-operator is scaled to zero"}},
		"DeclaredGone":      {"but it does not exist", "", evidence{declared: "Deployment/ops/gone"}, runs, nil, Options{}, "", verdict{Absent, true, "Deployment/ops/gone", "a declaration of the owner", "declared owner Deployment/ops/gone does not exist"}},
		"DeclaredUnseen":    {"and it may be what cannot be seen", "", evidence{declared: "Deployment/ops/gone"}, runs, nil, Options{}, "deployments.apps", verdict{Unknown, false, "", "a declaration of the owner", "unseen: deployments.apps (forbidden)"}},
		"DeclaredElsewhere": {"it is declared to run elsewhere", "", evidence{declared: "external"}, []string{gadgets}, nil, Options{}, "", verdict{Alive, true, "external controller", "a declaration of the owner", "it is declared to run outside the cluster"}},
		"DeclaredBadly":     {"an unreadable declaration names no owner", "", evidence{declared: "x-operator"}, []string{gadgets}, nil, Options{}, "", verdict{Unknown, false, "", "a declaration of the owner", `its declared owner is "x-operator", which is not KIND/NAMESPACE/NAME`}},

		"SeenWithoutRightsHere":   {"administrators gave it the right everywhere and a workload, and nothing gives it that any more, so it does not run outside", "x.io/image", evidence{}, []string{gadgets, authorizes, itsAccount, up, pod}, []learned.Owner{ofImage}, Options{}, "", verdict{Barred, true, "agent of X", "", "service account ops/x removed it from 5 objects, last on 2025-12-31, and no role lets it update gadgets.x.io any more"}},
		"SeenWithoutRightsBeside": {"near miss: an identity outside the cluster was seen, too", "x.io/image", evidence{}, []string{gadgets, authorizes, itsAccount, up, pod}, []learned.Owner{ofImage, ofImageOutside}, Options{}, "", verdict{Barred, false, "agent of X", "", "service account ops/x removed it from 5 objects, last on 2025-12-31, and no role lets it update gadgets.x.io any more"}},
		"Seen":                    {"it removed the finalizer before, and runs", "", evidence{}, []string{gadgets, itsAccount, writes, boundAll, pod}, []learned.Owner{seen(x, time.Hour, false)}, Options{}, "", verdict{Alive, true, "controller under service account ops/x", "", "service account ops/x removed it from 5 objects, last on 2025-12-31, and pod ops/x-1 is ready under it"}},
		"SeenWithoutRights":       {"it did it by a right that nothing gives it any more", "", evidence{}, []string{gadgets, itsAccount, pod}, []learned.Owner{seen(x, time.Hour, false)}, Options{}, "", verdict{Barred, false, "controller under service account ops/x", "", "service account ops/x removed it from 5 objects, last on 2025-12-31, and no role lets it update gadgets.x.io any more"}},
		"SeenWithoutToken":        {"its pods run on, and their tokens are refused", "", evidence{}, []string{gadgets, writes, boundAll, pod}, []learned.Owner{seen(x, time.Hour, false)}, Options{}, "", verdict{Barred, false, "controller under service account ops/x", "", "service account ops/x removed it from 5 objects, last on 2025-12-31, and that service account does not exist, so the tokens of its pods are refused"}},
		"SeenOutside":             {"an identity outside the cluster removed it today", "", evidence{}, []string{gadgets}, []learned.Owner{seen("alice", time.Hour, false)}, Options{}, "", verdict{Alive, true, "user alice outside the cluster", "", "user alice removed it from 5 objects, last on 2025-12-31, from outside the cluster"}},
		"SeenOutsideBefore":       {"near miss: the day before yesterday", "", evidence{}, []string{gadgets}, []learned.Owner{seen("alice", 48*time.Hour, false)}, Options{}, "", verdict{Unknown, false, "", "", "it is not in the catalog, and no running controller has a role for gadgets.x.io; user alice removed it from 5 objects, last on 2025-12-30, from outside the cluster: whether it still runs is unknown"}},
		"SeenAndGone":             {"its service account was deleted", "", evidence{}, []string{gadgets}, []learned.Owner{seen(x, time.Hour, false)}, Options{}, "", verdict{Absent, true, "", "", "it is not in the catalog, and no running controller has a role for gadgets.x.io; service account ops/x removed it from 5 objects, last on 2025-12-31, and that service account does not exist; no running software may update gadgets.x.io"}},
		"SeenAndMoved":            {"near miss: what runs now may be its successor", "", evidence{}, []string{gadgets, itsAccount, controls, boundAll, notReady}, []learned.Owner{seen("system:serviceaccount:ops:old", time.Hour, false)}, Options{}, "", verdict{Down, false, "controller under service account ops/x", "", "service account ops/x may update it and its status, and has no pod at the moment"}},
		"SeenAndDown":             {"it is scaled to zero, and it alone has the rights", "", evidence{}, []string{gadgets, itsAccount, controls, boundAll, scaled}, []learned.Owner{seen(x, time.Hour, false)}, Options{}, "", verdict{Down, true, "controller under service account ops/x", "", "service account ops/x removed it from 5 objects, last on 2025-12-31; Deployment ops/x-operator is scaled to zero"}},

		"Workload":         {"the catalog names it, and it is ready", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, up}, nil, Options{}, "", verdict{Alive, true, "operator of X", "", "Deployment ops/x-operator has 1 ready pod"}},
		"WorkloadScaled":   {"its last pod is on its way out", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, scaled}, nil, Options{}, "", verdict{Down, true, "operator of X", "", "Deployment ops/x-operator is scaled to zero"}},
		"WorkloadGoes":     {"it is ready, and is deleted with its namespace", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, up, pod, opsGoes}, nil, Options{}, "", verdict{Down, false, "operator of X", "", "Deployment ops/x-operator is deleted with its namespace, which is Terminating"}},
		"WorkloadRefused":  {"no pod of it can be made", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, refused}, nil, Options{}, "", verdict{Down, true, "operator of X", "", "Deployment ops/x-operator has no pod: exceeded quota"}},
		"WorkloadBroken":   {"each of its pods fails for good", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, notReady, brokenPod}, nil, Options{}, "", verdict{Down, true, "operator of X", "", "Deployment ops/x-operator has no ready pod: pod ops/x-1 is in ErrImageNeverPull"}},
		"WorkloadStarting": {"near miss: its pod may be a moment away", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, notReady}, nil, Options{}, "", verdict{Down, false, "operator of X", "", "Deployment ops/x-operator has no pod at the moment"}},
		"WorkloadUnready":  {"nor is a pod that is not ready proof of anything", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, notReady, with(pod, "'True'", "'False'")}, nil, Options{}, "", verdict{Down, false, "operator of X", "", "Deployment ops/x-operator has no ready pod at the moment"}},
		"WorkloadLeading":  {"it is not ready, and renews its lease", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, notReady, with(brokenPod, "containerStatuses: [", "containerStatuses: [{name: proxy, state: {running: {}}}, "), podsLease}, nil, Options{}, "", verdict{Down, false, "operator of X", "", "Deployment ops/x-operator has no ready pod, but pod ops/x-1 renews lease ops/abcd.x.io"}},
		"WorkloadLed":      {"near miss: none of its containers runs, so the lease is left over", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, notReady, brokenPod, podsLease}, nil, Options{}, "", verdict{Down, true, "operator of X", "", "Deployment ops/x-operator has no ready pod: pod ops/x-1 is in ErrImageNeverPull"}},
		"WorkloadGone":     {"no workload has that name", "x.io/known", evidence{}, []string{gadgets}, nil, Options{}, "", verdict{Absent, true, "operator of X", "", "none of its workloads exists: Deployment x-operator"}},
		"WorkloadUnseen":   {"near miss: it may be what cannot be seen", "x.io/known", evidence{}, []string{gadgets}, nil, Options{}, "deployments.apps", verdict{Unknown, false, "operator of X", "", "unseen: deployments.apps (forbidden)"}},

		"Outlook":         {"it watches other namespaces only", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, watching(up, "WATCH_NAMESPACE", "prod, test"), pod}, nil, Options{}, "", verdict{Unknown, false, "operator of X", "", "Deployment ops/x-operator has 1 ready pod; Deployment ops/x-operator watches only namespaces prod, test, not demo"}},
		"OutlookOf":       {"by a variable of its own", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, watching(up, "X_OPERATOR_WATCH_NAMESPACE", "prod"), pod}, nil, Options{}, "", verdict{Unknown, false, "operator of X", "", "Deployment ops/x-operator has 1 ready pod; Deployment ops/x-operator watches only namespace prod, not demo"}},
		"OutlookHere":     {"near miss: this one, too", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, watching(up, "WATCH_NAMESPACE", "demo,prod"), pod}, nil, Options{}, "", verdict{Alive, true, "operator of X", "", "Deployment ops/x-operator has 1 ready pod"}},
		"OutlookSeen":     {"near miss: it was seen to remove it, whatever its setting", "", evidence{}, []string{gadgets, itsAccount, writes, boundAll, watching(up, "WATCH_NAMESPACE", "prod"), pod}, []learned.Owner{seen(x, time.Hour, false)}, Options{}, "", verdict{Alive, true, "controller under service account ops/x", "", "service account ops/x removed it from 5 objects, last on 2025-12-31, and pod ops/x-1 is ready under it"}},
		"SeenCrashes":     {"it crashes again and again, and its Deployment counts it as ready a while longer", "x.io/known", evidence{}, []string{gadgets, itsAccount, controls, boundAll, up, with(pod, "phase: Running,", "phase: Running, containerStatuses: [{name: a, restartCount: 5, state: {waiting: {reason: CrashLoopBackOff}}}],")}, []learned.Owner{ofKnown}, Options{}, "", verdict{Down, true, "operator of X", "", "service account ops/x removed it from 5 objects, last on 2025-12-31; Deployment ops/x-operator has no ready pod: pod ops/x-1 is in CrashLoopBackOff"}},
		"SeenCrashesOnce": {"near miss: once is not again and again", "x.io/known", evidence{}, []string{gadgets, itsAccount, controls, boundAll, up, with(pod, "phase: Running,", "phase: Running, containerStatuses: [{name: a, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}}],")}, []learned.Owner{ofKnown}, Options{}, "", verdict{Down, false, "operator of X", "", "service account ops/x removed it from 5 objects, last on 2025-12-31; Deployment ops/x-operator has no ready pod at the moment"}},
		"KindGone":        {"it crashed once, and its role names a kind that nothing serves", "x.io/known", evidence{}, []string{gadgets, itsAccount, watchesBoxes, boundAll, up, crashedOnce}, nil, Options{}, "", verdict{Unknown, false, "operator of X", "", "Deployment ops/x-operator has 1 ready pod; pod ops/x-1 has crashed, and its role names boxes.y.io, which is not served"}},
		"KindGoneQuiet":   {"near miss: it never crashed, so it works without", "x.io/known", evidence{}, []string{gadgets, itsAccount, watchesBoxes, boundAll, up, pod}, nil, Options{}, "", verdict{Alive, true, "operator of X", "", "Deployment ops/x-operator has 1 ready pod"}},
		"KindGoneLong":    {"near miss: it has run for an hour since", "x.io/known", evidence{}, []string{gadgets, itsAccount, watchesBoxes, boundAll, up, with(crashedOnce, "2026-01-01T00:00:00Z", "2025-12-31T23:00:00Z")}, nil, Options{}, "", verdict{Alive, true, "operator of X", "", "Deployment ops/x-operator has 1 ready pod"}},
		"KindThere":       {"near miss: the kind is defined", "x.io/known", evidence{}, []string{gadgets, itsAccount, watchesBoxes, boundAll, up, crashedOnce, boxes}, nil, Options{}, "", verdict{Alive, true, "operator of X", "", "Deployment ops/x-operator has 1 ready pod"}},
		"KindOfOthers":    {"near miss: a tenant's binding says nothing about it", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, with(watchesBoxes, "name: x", "name: y"), with(with(boundHere, "name: x,", "name: y,"), "ClusterRole, name: x", "ClusterRole, name: y"), up, crashedOnce}, nil, Options{}, "", verdict{Alive, true, "operator of X", "", "Deployment ops/x-operator has 1 ready pod"}},
		"KindUnseen":      {"near miss: definitions cannot be seen", "x.io/known", evidence{}, []string{gadgets, itsAccount, watchesBoxes, boundAll, up, crashedOnce}, nil, Options{}, "customresourcedefinitions.apiextensions.k8s.io", verdict{Alive, true, "operator of X", "", "Deployment ops/x-operator has 1 ready pod"}},
		"OutlookSecond":   {"near miss: a second one, of a newer version, watches it", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, watching(up, "WATCH_NAMESPACE", "prod"), with(with(watching(up, "WATCH_NAMESPACE", "demo"), "namespace: ops", "namespace: ops2"), "image: x-agent", "image: x-agent:v2"), with(with(boundAll, "metadata: {name: x}", "metadata: {name: x2}"), "namespace: ops", "namespace: ops2"), pod}, nil, Options{}, "", verdict{Alive, true, "operator of X", "", "Deployment ops2/x-operator has 1 ready pod"}},
		"OutlookByRights": {"it alone controls the kind, elsewhere", "", evidence{}, []string{gadgets, itsAccount, controls, boundAll, watching(up, "WATCH_NAMESPACE", "prod"), pod}, nil, Options{}, "", verdict{Unknown, false, "controller under service account ops/x", "", "service account ops/x may update gadgets.x.io and its status, and pod ops/x-1 is ready under it; Deployment ops/x-operator watches only namespace prod, not demo"}},

		"Image":                {"the catalog has its image", "x.io/image", evidence{}, []string{gadgets, itsAccount, writes, boundAll, pod}, nil, Options{}, "", verdict{Alive, true, "agent of X", "", "1 ready pod of image x-agent"}},
		"ImageDown":            {"it may update them, and is scaled down", "x.io/image", evidence{}, []string{gadgets, itsAccount, writes, boundAll, scaled}, nil, Options{}, "", verdict{Down, true, "agent of X", "", "Deployment ops/x-operator is scaled to zero"}},
		"ImageGone":            {"it usually runs elsewhere", "x.io/image", evidence{}, []string{gadgets}, nil, Options{}, "", verdict{Unknown, false, "agent of X", "", "it usually runs outside the cluster, where it is unseen"}},
		"Sidecar":              {"a sidecar that names the driver", "x.io/attached", evidence{driver: "ebs.csi.test"}, []string{gadgets, writes, sidecarsMay, attacher, driver}, nil, Options{}, "", verdict{Alive, true, "attacher", "", "pod ops/csi-1 with a ready csi-attacher names driver ebs.csi.test"}},
		"SidecarLone":          {"the only sidecar belongs to the only driver", "x.io/attached", evidence{driver: "efs.csi.test"}, []string{gadgets, writes, sidecarsMay, with(attacher, "ebs.csi.test", "csi"), with(driver, "ebs", "efs")}, nil, Options{}, "", verdict{Alive, true, "attacher", "", "driver efs.csi.test is installed, and pod ops/csi-1 has a ready csi-attacher"}},
		"SidecarDown":          {"another controller wrote the finalizer, and the driver's sidecar does not run", "x.io/attached", evidence{driver: "ebs.csi.test", managers: []string{"x-agent"}}, []string{gadgets, itsAccount, controls, boundAll, up, pod, driver}, nil, Options{}, "", verdict{Unknown, false, "attacher", "", "service accounts ops/x may update gadgets.x.io: whether one of them removes the finalizer is unknown"}},
		"SidecarOther":         {"near miss: the sidecar itself wrote it, from an image of another name", "x.io/attached", evidence{driver: "ebs.csi.test", managers: []string{"csi-attacher"}}, []string{gadgets, itsAccount, controls, boundAll, up, with(pod, "name: manager", "name: csi-attacher"), driver}, nil, Options{}, "", verdict{Alive, true, "attacher", "", `field manager "csi-attacher" wrote the finalizer, and pod ops/x-1 runs under service account ops/x, which may update gadgets.x.io`}},
		"SidecarNone":          {"a driver that is not installed", "x.io/attached", evidence{driver: "efs.csi.test"}, []string{gadgets, writes, sidecarsMay, attacher, driver}, nil, Options{}, "", verdict{Absent, true, "csi-attacher of CSI driver efs.csi.test", "", "CSI driver efs.csi.test is not installed: no CSIDriver, no node where it is registered, and no ready csi-attacher that names it"}},
		"SidecarOfAny":         {"the object is of no driver, and none is installed", "x.io/attached", evidence{}, []string{gadgets, itsAccount, controls, boundAll, up, pod}, nil, Options{}, "", verdict{Absent, true, "attacher", "", "no CSI driver is installed: no CSIDriver, no node where one is registered, and no ready csi-attacher"}},
		"SidecarOfAnyDown":     {"near miss: one is installed, and its sidecar may be called otherwise", "x.io/attached", evidence{}, []string{gadgets, itsAccount, controls, boundAll, up, pod, driver}, nil, Options{}, "", verdict{Alive, true, "attacher", "", "service account ops/x may update gadgets.x.io and its status, and pod ops/x-1 is ready under it"}},
		"SidecarOfAnyUp":       {"near miss: one runs, of whatever driver", "x.io/attached", evidence{}, []string{gadgets, writes, sidecarsMay, attacher}, nil, Options{}, "", verdict{Alive, true, "attacher", "", "1 ready pod of image csi-attacher"}},
		"SidecarOfAnyUnseen":   {"near miss: whether one is installed cannot be seen", "x.io/attached", evidence{}, []string{gadgets, itsAccount, controls, boundAll, up, pod}, nil, Options{}, "csidrivers.storage.k8s.io", verdict{Alive, true, "attacher", "", "service account ops/x may update gadgets.x.io and its status, and pod ops/x-1 is ready under it"}},
		"SidecarSeen":          {"it was seen with the objects of its own driver, and this one is not installed", "x.io/attached", evidence{driver: "efs.csi.test"}, sidecarSeen, []learned.Owner{ofAttached}, Options{}, "", verdict{Absent, true, "csi-attacher of CSI driver efs.csi.test", "", "CSI driver efs.csi.test is not installed: no CSIDriver, no node where it is registered, and no ready csi-attacher that names it"}},
		"SidecarSeenOwn":       {"near miss: it belongs to this driver", "x.io/attached", evidence{driver: "ebs.csi.test"}, sidecarSeen, []learned.Owner{ofAttached}, Options{}, "", verdict{Alive, true, "attacher", "", "service account ops/x removed it from 5 objects, last on 2025-12-31, and pod ops/csi-1 is ready under it"}},
		"SidecarSeenLone":      {"near miss: it names neither of two drivers that are installed, and may be of this one", "x.io/attached", evidence{driver: "efs.csi.test"}, append([]string{with(driver, "ebs", "efs")}, silentSeen...), []learned.Owner{ofAttached}, Options{}, "", verdict{Alive, true, "attacher", "", "service account ops/x removed it from 5 objects, last on 2025-12-31, and pod ops/csi-1 is ready under it"}},
		"SidecarSeenUnseen":    {"near miss: whether this one is installed cannot be seen", "x.io/attached", evidence{driver: "efs.csi.test"}, silentSeen, []learned.Owner{ofAttached}, Options{}, "csidrivers.storage.k8s.io", verdict{Alive, true, "attacher", "", "service account ops/x removed it from 5 objects, last on 2025-12-31, and pod ops/csi-1 is ready under it"}},
		"SidecarSeenInstalled": {"this driver is installed, and its own sidecar does not run", "x.io/attached", evidence{driver: "efs.csi.test"}, append([]string{with(driver, "ebs", "efs")}, sidecarSeen...), []learned.Owner{ofAttached}, Options{}, "", verdict{Unknown, false, "attacher", "", "service accounts ops/x may update gadgets.x.io: whether one of them removes the finalizer is unknown"}},
		"SidecarDeployed":      {"the Deployment of another driver's sidecar is up, and this one is not installed", "x.io/attached", evidence{driver: "efs.csi.test"}, []string{gadgets, writes, sidecarsMay, attaches, attacher, driver}, nil, Options{}, "", verdict{Absent, true, "csi-attacher of CSI driver efs.csi.test", "", "CSI driver efs.csi.test is not installed: no CSIDriver, no node where it is registered, and no ready csi-attacher that names it"}},
		"SidecarDeployedOwn":   {"near miss: it belongs to this driver", "x.io/attached", evidence{driver: "ebs.csi.test"}, []string{gadgets, writes, sidecarsMay, attaches, attacher, driver}, nil, Options{}, "", verdict{Alive, true, "attacher", "", "Deployment ops/x-operator has 1 ready pod"}},
		"SidecarGoes":          {"it is ready, and is deleted with its namespace", "x.io/attached", evidence{driver: "ebs.csi.test"}, []string{gadgets, writes, sidecarsMay, attaches, attacher, driver, opsGoes}, nil, Options{}, "", verdict{Down, false, "attacher", "", "Deployment ops/x-operator is deleted with its namespace, which is Terminating"}},
		"SidecarEnds":          {"it is ready, and on its way out", "x.io/attached", evidence{driver: "ebs.csi.test"}, []string{gadgets, writes, sidecarsMay, with(attaches, "replicas: 1", "replicas: 0"), with(attacher, "name: csi-1,", "name: csi-1, deletionTimestamp: '2026-01-01T00:00:00Z',"), driver}, nil, Options{}, "", verdict{Down, true, "attacher", "", "Deployment ops/x-operator is scaled to zero"}},
		"SidecarBeside":        {"another may update the kind, and runs software of other finalizers", "x.io/attached", evidence{driver: "ebs.csi.test"}, beside("x-core"), []learned.Owner{ofAttached}, Options{}, "", verdict{Down, true, "attacher", "", "service account ops/x removed it from 5 objects, last on 2025-12-31; Deployment ops/x-operator is scaled to zero"}},
		"SidecarBesideStrange": {"near miss: the catalog does not know what the other runs", "x.io/attached", evidence{driver: "ebs.csi.test"}, beside("x-another"), []learned.Owner{ofAttached}, Options{}, "", verdict{Down, false, "attacher", "", "service account ops/x removed it from 5 objects, last on 2025-12-31; Deployment ops/x-operator is scaled to zero"}},
		"SidecarBesideSidecar": {"near miss: the other runs a sidecar, too", "x.io/attached", evidence{driver: "ebs.csi.test"}, beside("csi-resizer"), []learned.Owner{ofAttached}, Options{}, "", verdict{Down, false, "attacher", "", "service account ops/x removed it from 5 objects, last on 2025-12-31; Deployment ops/x-operator is scaled to zero"}},
		"SidecarBesideUnseen":  {"near miss: the sidecar was never seen here", "x.io/attached", evidence{driver: "ebs.csi.test"}, beside("x-core"), nil, Options{}, "", verdict{Down, false, "attacher", "", "Deployment ops/x-operator is scaled to zero; service accounts ops/default may update gadgets.x.io too, and may be the owner under another name"}},
		"SidecarCrashes":       {"it crashes again and again", "x.io/attached", evidence{driver: "ebs.csi.test"}, []string{gadgets, writes, sidecarsMay, with(attaches, "readyReplicas: 1", "readyReplicas: 0"), with(attacher, "phase: Running,", "phase: Running, containerStatuses: [{name: a, restartCount: 5, state: {waiting: {reason: CrashLoopBackOff}}}],"), driver}, nil, Options{}, "", verdict{Down, true, "attacher", "", "Deployment ops/x-operator has no ready pod: pod ops/csi-1 is in CrashLoopBackOff"}},
		"SidecarUpAgain":       {"it is ready for a moment, and crashes again and again", "x.io/attached", evidence{driver: "ebs.csi.test"}, []string{gadgets, writes, sidecarsMay, attaches, with(attacher, "phase: Running,", "phase: Running, containerStatuses: [{name: a, restartCount: 5, state: {running: {startedAt: '2026-01-01T00:00:00Z'}}}],"), driver}, nil, Options{}, "", verdict{Unknown, false, "attacher", "", "Deployment ops/x-operator has 1 ready pod; pod ops/csi-1 is ready at the moment, but keeps crashing"}},

		"Manager":       {"the field manager runs, and may update it", "", evidence{managers: []string{"x-agent"}}, []string{gadgets, itsAccount, writes, boundAll, pod}, nil, Options{}, "", verdict{Alive, true, "", "", `field manager "x-agent" wrote the finalizer, and pod ops/x-1 runs under service account ops/x, which may update gadgets.x.io`}},
		"ManagerCommon": {"near miss: many containers have that name", "", evidence{managers: []string{"manager"}}, []string{gadgets, itsAccount, writes, boundAll, pod}, nil, Options{}, "", verdict{Unknown, false, "", "", "service accounts ops/x may update gadgets.x.io: whether one of them removes the finalizer is unknown"}},
		"ManagerUnable": {"near miss: it may not", "", evidence{managers: []string{"x-agent"}}, []string{gadgets, itsAccount, reads, boundAll, pod}, nil, Options{}, "", verdict{Absent, false, "", "", "it is not in the catalog, and no running controller has a role for gadgets.x.io"}},

		"Permissions":         {"it alone controls the kind, and runs", "", evidence{}, runs, nil, Options{}, "", verdict{Alive, true, "controller under service account ops/x", "", "service account ops/x may update gadgets.x.io and its status, and pod ops/x-1 is ready under it"}},
		"PermissionsToUse":    {"near miss: who may not write its status only uses it", "", evidence{}, []string{gadgets, itsAccount, writes, boundAll, pod}, nil, Options{}, "", verdict{Unknown, false, "", "", "service accounts ops/x may update gadgets.x.io: whether one of them removes the finalizer is unknown"}},
		"PermissionsIdle":     {"it alone controls the kind, and nothing runs under it", "", evidence{}, []string{gadgets, itsAccount, controls, boundAll}, nil, Options{}, "", verdict{Down, true, "controller under service account ops/x", "", "service account ops/x may update it and its status, and has no pod: no workload runs under it"}},
		"PermissionsGoes":     {"its pod is ready, and is deleted with its namespace", "", evidence{}, []string{gadgets, itsAccount, controls, boundAll, up, pod, opsGoes}, nil, Options{}, "", verdict{Down, false, "controller under service account ops/x", "", "service account ops/x may update it and its status, and is deleted with its namespace, which is Terminating"}},
		"PermissionsIdleHere": {"in one namespace, its administrator may have said so", "", evidence{}, []string{gadgets, itsAccount, controls, boundHere}, nil, Options{}, "", verdict{Down, true, "controller under service account ops/x", "a RoleBinding of the namespace", "service account ops/x may update it and its status, and has no pod: no workload runs under it"}},

		"PermissionsWhole":      {"it alone may update all of the group, which is its own, and elects a leader", "", evidence{}, leads, nil, Options{}, "", verdict{Alive, true, "controller under service account ops/x", "", "service account ops/x may update gadgets.x.io and its status, and pod ops/x-operator-1 is ready under it"}},
		"PermissionsWholeIdle":  {"near miss: it uses no leader election", "", evidence{}, leads[:len(leads)-1], nil, Options{}, "", verdict{Unknown, false, "", "", "service accounts ops/x may update gadgets.x.io: whether one of them removes the finalizer is unknown"}},
		"PermissionsWholeOfTwo": {"near miss: it may update those of another group, too: either may be its own", "", evidence{}, slices.Concat(leads, []string{with(whole, "[x.io]", "[x.io, y.io]")}), nil, Options{}, "", verdict{Unknown, false, "", "", "service accounts ops/x may update gadgets.x.io: whether one of them removes the finalizer is unknown"}},

		"Lease":         {"its holder is a pod that may update the kind", "", evidence{}, []string{gadgets, itsAccount, writes, boundAll, up, pod, podsLease}, nil, Options{}, "", verdict{Alive, true, "holder of lease ops/abcd.x.io", "", "lease ops/abcd.x.io, named after API group x.io, is held by pod ops/x-1, which is ready"}},
		"LeaseStranger": {"its holder is no pod, so the owner is not certainly absent", "", evidence{}, []string{gadgets, othersLease}, nil, Options{}, "", verdict{Unknown, false, "", "", "it is not in the catalog, and no running controller has a role for gadgets.x.io; lease ops/abcd.x.io, named after API group x.io, is held by laptop_1, which is not a pod here: whether it still runs is unknown"}},

		"Manifests":     {"an owner missing from manifests is unknown", "", evidence{}, []string{gadgets}, nil, Options{Manifests: true}, "", verdict{Unasked, false, "controller of x.io", "", "no workload among the manifests removes it: its owner may be installed separately"}},
		"ManifestsDown": {"a person may scale it up again", "x.io/known", evidence{}, []string{gadgets, scaled}, nil, Options{Manifests: true}, "", verdict{Down, false, "operator of X", "", "Deployment ops/x-operator is scaled to zero"}},

		"Group":      {"the kinds of its owner were removed", "x.io/needs", evidence{}, []string{gadgets}, nil, Options{}, "", verdict{Absent, true, "operator of Y", "", "API group y.io, which it needs, is not served"}},
		"OwnerKind":  {"the object belongs to a removed kind", "", evidence{owners: []string{"Thing.y.io"}}, []string{gadgets}, nil, Options{}, "", verdict{Absent, true, "", "an owner reference of the object", "the object is owned by a Thing.y.io, and API group y.io is not served"}},
		"Cloud":      {"no cloud, and so no cloud controller", "x.io/cloud", evidence{}, []string{gadgets}, nil, Options{}, "", verdict{Absent, true, "cloud controller", "", "no cloud controller runs in the cluster, and no node has a provider ID: there is no cloud provider"}},
		"CloudThere": {"near miss: a node is one of a cloud", "x.io/cloud", evidence{}, []string{gadgets, cloudNode}, nil, Options{}, "", verdict{Unknown, false, "cloud controller", "", "it usually runs outside the cluster, where it is unseen"}},
		"Nobody":     {"no catalog entry, and no account may update it", "", evidence{}, []string{gadgets}, nil, Options{}, "", verdict{Absent, false, "", "", "it is not in the catalog, and no running controller has a role for gadgets.x.io"}},

		"OthersCore":    {"the account with rights on the whole group is known to clean up other kinds", "x.io/known", evidence{}, []string{gadgets, itsAccount, with(controls, "gadgets, gadgets/status", "'*'"), boundAll, with(pod, "x-agent", "x-core")}, nil, Options{}, "", verdict{Absent, true, "operator of X", "", "none of its workloads exists: Deployment x-operator"}},
		"OthersNamed":   {"near miss: its role names this kind", "x.io/known", evidence{}, []string{gadgets, itsAccount, writes, boundAll, with(pod, "x-agent", "x-core")}, nil, Options{}, "", verdict{Unknown, false, "operator of X", "", "service accounts ops/x may update gadgets.x.io: whether one of them removes the finalizer is unknown"}},
		"OthersUnknown": {"near miss: its image is not in the catalog", "x.io/known", evidence{}, []string{gadgets, itsAccount, with(controls, "gadgets, gadgets/status", "'*'"), boundAll, with(pod, "x-agent", "x-new")}, nil, Options{}, "", verdict{Unknown, false, "operator of X", "", "service accounts ops/x may update gadgets.x.io: whether one of them removes the finalizer is unknown"}},
		"OthersOutside": {"near miss: another may run it outside", "x.io/image", evidence{}, []string{gadgets, itsAccount, with(controls, "gadgets, gadgets/status", "'*'"), boundAll, with(pod, "x-agent", "x-core")}, nil, Options{}, "", verdict{Unknown, false, "agent of X", "", "service accounts ops/x may update gadgets.x.io: whether one of them removes the finalizer is unknown"}},
		"OthersOwn":     {"near miss: the catalog does not know the finalizer", "", evidence{}, []string{gadgets, itsAccount, with(controls, "gadgets, gadgets/status", "'*'"), boundAll, with(pod, "x-agent", "x-core")}, nil, Options{}, "", verdict{Unknown, false, "", "", "service accounts ops/x may update gadgets.x.io: whether one of them removes the finalizer is unknown"}},

		"Barred":          {"it is up, and RBAC lets it only read", "x.io/known", evidence{}, []string{gadgets, itsAccount, reads, boundAll, up, pod}, nil, Options{}, "", verdict{Barred, true, "operator of X", "", "Deployment ops/x-operator has 1 ready pod; no role lets service account ops/x update or patch gadgets.x.io"}},
		"BarredHere":      {"another may update them here, and does not run", "x.io/known", evidence{}, []string{gadgets, itsAccount, reads, boundAll, up, pod, with(writes, "{name: x}", "{name: y}"), with(boundHere, "name: x", "name: y")}, nil, Options{}, "", verdict{Barred, true, "operator of X", "", "Deployment ops/x-operator has 1 ready pod; no role lets service account ops/x update or patch gadgets.x.io in namespace demo"}},
		"BarredElsewhere": {"the owner may run outside, and this be another of that image", "x.io/image", evidence{}, []string{gadgets, itsAccount, reads, boundAll, up, pod}, nil, Options{}, "", verdict{Unknown, false, "agent of X", "", "it usually runs outside the cluster, where it is unseen"}},
		"RolesUnseen":     {"near miss: not all roles are seen, and its may be among those", "x.io/known", evidence{}, []string{gadgets, itsAccount, reads, boundAll, up, pod}, nil, Options{}, "roles.rbac.authorization.k8s.io", verdict{Unknown, false, "operator of X", "", "unseen: roles.rbac.authorization.k8s.io (forbidden)"}},

		"Namesake":         {"any account may have created it: it does not count", "x.io/known", evidence{}, []string{gadgets, authorizes, itsAccount, up, pod}, nil, Options{}, "", verdict{Barred, true, "operator of X", "", "Deployment ops/x-operator has 1 ready pod; no role lets service account ops/x update or patch gadgets.x.io"}},
		"NamesakeScaled":   {"nor does one that is scaled to zero", "x.io/known", evidence{}, []string{gadgets, authorizes, itsAccount, scaled}, nil, Options{}, "", verdict{Barred, true, "operator of X", "", "Deployment ops/x-operator is scaled to zero; no role lets service account ops/x update or patch gadgets.x.io"}},
		"NamesakeHere":     {"nor one with rights in another namespace than the object's", "x.io/known", evidence{}, []string{gadgets, authorizes, itsAccount, writes, with(boundHere, "namespace: demo", "namespace: ops"), up, pod}, nil, Options{}, "", verdict{Barred, true, "operator of X", "", "Deployment ops/x-operator has 1 ready pod; no role lets service account ops/x update or patch gadgets.x.io"}},
		"NamesakeOutside":  {"nor where the owner may run outside", "x.io/image", evidence{}, []string{gadgets, authorizes, itsAccount, up, pod}, nil, Options{}, "", verdict{Unknown, false, "agent of X", "", "it usually runs outside the cluster, where it is unseen"}},
		"BereftOfRole":     {"a cluster-wide binding names a deleted role, which no tenant can write", "x.io/image", evidence{}, []string{gadgets, authorizes, itsAccount, boundAll, up, pod}, nil, Options{}, "", verdict{Barred, true, "agent of X", "", "Deployment ops/x-operator has 1 ready pod; no role lets service account ops/x update or patch gadgets.x.io"}},
		"BereftOfKind":     {"or a role for other kinds of the group", "x.io/image", evidence{}, []string{gadgets, authorizes, itsAccount, boundAll, with(writes, "gadgets", "widgets"), up, pod}, nil, Options{}, "", verdict{Barred, true, "agent of X", "", "Deployment ops/x-operator has 1 ready pod; no role lets service account ops/x update or patch gadgets.x.io"}},
		"BereftHere":       {"near miss: in one namespace, which its tenant can write", "x.io/image", evidence{}, []string{gadgets, authorizes, itsAccount, boundHere, up, pod}, nil, Options{}, "", verdict{Unknown, false, "agent of X", "", "it usually runs outside the cluster, where it is unseen"}},
		"BereftManager":    {"it wrote the finalizer, and runs: it wants its right, not a start", "", evidence{managers: []string{"x-operator"}}, []string{gadgets, authorizes, itsAccount, up, pod}, nil, Options{}, "", verdict{Barred, false, "", "", "Deployment ops/x-operator has 1 ready pod; no role lets service account ops/x update or patch gadgets.x.io"}},
		"BereftStatus":     {"or the status", "", evidence{status: []string{"x-agent"}}, []string{gadgets, authorizes, itsAccount, up, pod}, nil, Options{}, "", verdict{Barred, false, "", "", "Deployment ops/x-operator has 1 ready pod; no role lets service account ops/x update or patch gadgets.x.io"}},
		"BereftLease":      {"or holds the lease of the group, and is vouched for", "", evidence{}, []string{gadgets, authorizes, itsAccount, boundAll, up, pod, podsLease}, nil, Options{}, "", verdict{Barred, false, "", "", "Deployment ops/x-operator has 1 ready pod; no role lets service account ops/x update or patch gadgets.x.io"}},
		"BereftDown":       {"near miss: it does not run", "", evidence{managers: []string{"x-operator"}}, []string{gadgets, authorizes, itsAccount, scaled}, nil, Options{}, "", verdict{Absent, false, "", "", "it is not in the catalog, and no running controller has a role for gadgets.x.io"}},
		"NamesakeUnread":   {"near miss: another authorizer than RBAC is in force", "x.io/known", evidence{}, []string{gadgets, itsAccount, up, pod}, nil, Options{}, "", verdict{Unknown, false, "operator of X", "", "RBAC does not show whether service account ops/x may update gadgets.x.io"}},
		"Placed":           {"near miss: the catalog names its namespace", "x.io/placed", evidence{}, []string{gadgets, itsAccount, scaled}, nil, Options{}, "", verdict{Down, true, "operator of X", "", "Deployment ops/x-operator is scaled to zero"}},
		"PlacedBesideReal": {"another runs that may update the kind", "x.io/placed", evidence{}, []string{gadgets, scaled, with(itsAccount, "name: x", "name: z"), writes, with(boundAll, "name: x, namespace", "name: z, namespace"), with(pod, "serviceAccountName: x", "serviceAccountName: z")}, nil, Options{}, "", verdict{Down, false, "operator of X", "", "Deployment ops/x-operator is scaled to zero; service accounts ops/z may update gadgets.x.io too, and may be the owner under another name"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			finalizer := tc.finalizer
			if finalizer == "" {
				finalizer = "x.io/own"
			}
			j := judge(t, tc.options, tc.objects, tc.seen, finalizer, tc.object, tc.hidden)
			got := verdict{j.state, j.certain, j.owner, j.hearsay, strings.Join(j.evidence, "; ")}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestKeep checks that all readers see the objects with finalizers that are kept, until the last is
// deleted.
func TestKeep(t *testing.T) {
	p, doc := partWith(t, Options{}, gadgets, itsAccount, controls, boundAll, up, pod)
	empty := maps.Clone(doc)
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "demo", Name: name} }
	object := func(name string, declared string, finalizers ...string) *metav1.ObjectMeta {
		m := &metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID("uid of " + name), Finalizers: finalizers}
		if declared != "" {
			m.Annotations = map[string]string{Annotation: declared}
		}
		return m
	}
	keep := func(m *metav1.ObjectMeta) bool { return p.Keep("gadgets.x.io", key(m.Name), m, nil) }
	if !keep(object("one", "", "x.io/own", "x.io/known")) || !keep(object("two", "Deployment/ops/x-operator", "x.io/own")) || keep(object("three", "")) {
		t.Error("objects with finalizers are missing")
	}
	if count, finalizers := p.Held("gadgets.x.io", "demo"); count != 2 || !slices.Equal(finalizers, []string{"x.io/known", "x.io/own"}) {
		t.Errorf("%d objects are held, by %q", count, finalizers)
	}
	for _, tc := range []struct {
		reason string
		is     bool
	}{
		{"one has it", p.Carries("gadgets.x.io", key("one"), "uid of one", "x.io/own")},
		{"another of that name has not", !p.Carries("gadgets.x.io", key("one"), "another", "x.io/own")},
		{"it has just these", p.Shows("gadgets.x.io", key("one"), "uid of one", []string{"x.io/known", "x.io/own"})},
		{"and one more", !p.Shows("gadgets.x.io", key("one"), "uid of one", []string{"x.io/own"})},
		{"three has none", p.Shows("gadgets.x.io", key("three"), "uid of three", nil)},
		{"two declares its owner", p.Declares("demo")},
		{"no owner elsewhere", !p.Declares("prod")},
		{"two objects have it, one of which may be declared", facts.Lookup(doc, "finalized", "demo", "x.io/own", "gadgets.x.io", "declared=Deployment/ops/x-operator", "ownership", "hearsay") == "a declaration of the owner"},
		{"without its declaration, it is like the others", facts.Lookup(p.Undeclared(doc, "demo"), "finalized", "demo", "x.io/own", "gadgets.x.io", "declared=Deployment/ops/x-operator", "ownership", "owner") == "controller under service account ops/x"},
		{"the removal depends on the workload", facts.Lookup(doc, "removers", "ops", "deployments.apps/x-operator", "x.io/own", "gadgets.x.io", "") == true},
		{"its rights", facts.Lookup(doc, "removers", "", "clusterroles.rbac.authorization.k8s.io/x", "x.io/own", "gadgets.x.io", "") == true},
		{"but not with a declared owner", facts.Lookup(doc, "removers", "ops", "deployments.apps/x-operator", "x.io/own", "gadgets.x.io", "declared=Deployment/ops/x-operator") == nil},
	} {
		if !tc.is {
			t.Errorf("not true: %s", tc.reason)
		}
	}
	deleted := object("one", "", "x.io/own", "x.io/known")
	requested := metav1.NewTime(now.Add(-time.Minute))
	deleted.DeletionTimestamp = &requested
	keep(deleted)
	p.Settle(func() {})
	if got := facts.Lookup(doc, "terminating", "x.io/own", "gadgets.x.io", "count"); got != 1 {
		t.Errorf("%v objects wait for it, want 1", got)
	}
	deleted.Finalizers = []string{"x.io/known"}
	keep(deleted)
	if diff := cmp.Diff([]Ending{{"uid of one", "x.io/own", requested.Unix()}}, p.Endings()); diff != "" {
		t.Errorf("finalizers removed while Terminating: -want, +got:\n%s", diff)
	}
	p.Forget("gadgets.x.io", key("one"))
	if count, finalizers := p.Held("gadgets.x.io", "demo"); count != 1 || !slices.Equal(finalizers, []string{"x.io/own"}) {
		t.Errorf("without one of them, %d objects are held, by %q", count, finalizers)
	}
	p.Forget("gadgets.x.io", key("two"))
	p.Settle(func() {})
	for _, made := range []string{"controllers", "failing", "tasks"} { // as they are read: TestControllers, TestTasks
		delete(doc, made)
		delete(empty, made)
	}
	doc["owners"], empty["owners"] = facts.Lookup(doc, "owners"), facts.Lookup(empty, "owners")
	if diff := cmp.Diff(map[string]any(empty), map[string]any(doc)); diff != "" {
		t.Errorf("left: -want, +got:\n%s", diff)
	}
}

// TestControllers checks the controllers of objects with finalizers: a plan begins there.
func TestControllers(t *testing.T) {
	p, doc := partWith(t, Options{}, "{kind: CustomResourceDefinition, metadata: {name: machines.x.io}, spec: {group: x.io, scope: Cluster, names: {kind: Machine, plural: machines}}}")
	keep := func(name, version, kind, of string, labels map[string]string) {
		yes := true
		m := &metav1.ObjectMeta{Namespace: "demo", Name: name, Labels: labels, Finalizers: []string{"x.io/f"}}
		if kind != "" {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: of, Controller: &yes}}
		}
		p.Keep("pods", types.NamespacedName{Namespace: "demo", Name: name}, m, nil)
	}
	keep("alone", "", "", "", nil)
	keep("set", "apps/v1", "StatefulSet", "db", nil)
	keep("deployed", "apps/v1", "ReplicaSet", "web-7f", map[string]string{"pod-template-hash": "7f"})
	keep("machine", "x.io/v1", "Machine", "m", nil)
	keep("strange", "y.io/v1", "Thing", "t", nil)
	of := func(resource, namespace, name string) map[string]any {
		return map[string]any{"resource": resource, "namespace": namespace, "name": name}
	}
	want := map[string]any{"pods": map[string]any{
		"demo/set": of("statefulsets.apps", "demo", "db"), "demo/deployed": of("deployments.apps", "demo", "web"),
		"demo/machine": of("machines.x.io", "", "m"), "demo/strange": of("", "demo", "t"),
	}}
	section, _ := doc["controllers"].(facts.Section)
	if diff := cmp.Diff(want, section.All()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestTasks checks that the Jobs of an owner, and Jobs that it may still create, are reported until
// both are deleted.
func TestTasks(t *testing.T) {
	creates := "{kind: ClusterRole, metadata: {name: x}, rules: [{apiGroups: [x.io], resources: [gadgets, gadgets/status], verbs: [update]}, {apiGroups: [batch], resources: [jobs], verbs: [create]}]}"
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "demo", Name: name} }
	yes := true
	job := func(kind string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: "demo", Name: "upload", OwnerReferences: []metav1.OwnerReference{{APIVersion: "x.io/v1", Kind: kind, Name: "one", Controller: &yes}}}
	}
	for reason, tc := range map[string]struct {
		role, finalizer, kind string
		reported              bool
	}{
		"it may create more":   {creates, "x.io/own", "Gadget", true},
		"it may create none":   {controls, "x.io/own", "Gadget", false},
		"the catalog knows it": {creates, "x.io/known", "Gadget", false},
		"of another kind":      {creates, "x.io/own", "Widget", false},
	} {
		p, doc := partWith(t, Options{}, gadgets, itsAccount, tc.role, boundAll, up, pod)
		p.Keep("gadgets.x.io", key("one"), &metav1.ObjectMeta{Namespace: "demo", Name: "one", UID: "u", Finalizers: []string{tc.finalizer}}, nil)
		p.Keep("jobs.batch", key("upload"), job(tc.kind), nil)
		p.Settle(func() {})
		section, _ := doc["tasks"].(facts.Section)
		got := facts.Lookup(section.All(), "demo", tc.finalizer, "gadgets.x.io", "creates")
		if reported := got == "jobs.batch"; reported != tc.reported {
			t.Errorf("%s: it creates %v", reason, got)
		}
		p.Forget("jobs.batch", key("upload"))
		if left := section.All(); len(left) > 0 {
			t.Errorf("%s: after the Job was deleted, %v is left", reason, left)
		}
	}
}
