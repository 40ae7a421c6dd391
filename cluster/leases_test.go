package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestLeases checks that a controller that renews its lease is up, wherever it runs, and that the
// lease alone proves nothing.
func TestLeases(t *testing.T) {
	const seconds = time.Second
	held := func(name, holder string, renewed time.Duration) coordinationv1.Lease {
		at := metav1.NewMicroTime(time.Unix(1e9, 0).Add(renewed))
		duration := int32(15)
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &duration}}
	}
	// Each list comes 15 s after the one before it.
	type lists [][]coordinationv1.Lease
	const group = "a1b2c3d4.x.io"
	outside := lists{{held(group, "laptop_1", -2*seconds)}, {held(group, "laptop_1", 13*seconds)}, {held(group, "laptop_1", 28*seconds)}}
	admin := as("one", anAccount, running, "\n---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: SA}, rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}\n---\n", `
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: SA}, roleRef: {kind: ClusterRole, name: SA}, subjects: [{kind: ServiceAccount, name: SA, namespace: ops}]}
`)
	const going = "\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: ops, deletionTimestamp: '2001-09-09T01:46:00Z'}}\n"
	const stopped = "\n---\n{apiVersion: v1, kind: Event, metadata: {name: one-5d8f7c9b64-x2klp.1, namespace: ops}, involvedObject: {kind: Pod, namespace: ops, name: one-5d8f7c9b64-x2klp}, reason: Killing, message: Stopping container c, source: {component: kubelet, host: node}}\n"
	const tells = "\n---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: tells, namespace: ops}, rules: [{apiGroups: [''], resources: [events], verbs: [create]}]}\n---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: tells, namespace: ops}, roleRef: {kind: Role, name: tells}, subjects: [{kind: User, name: tenant}]}\n"
	declared := strings.Replace(gadget, "name: it,", "name: it, annotations: {termguard.dev/finalizer-owner: Deployment/ops/one},", 1)
	tests := map[string]struct {
		reason, cluster  string
		lists            lists
		state, certainty string
		evidence         string
	}{
		"none":                                   {"no holder has one", gadget, lists{{}}, Absent, "may", "no running controller"},
		"by no pod, seen once":                   {"its operator may have just been uninstalled", gadget, lists{{held(group, "laptop_1", -2*seconds)}}, Unknown, "may", "held by laptop_1, which is not a pod here"},
		"by no pod, renewed once":                {"its pod may have been deleted between its last renewal and this listing", gadget, lists{{held(group, "laptop_1", -2*seconds)}, {held(group, "laptop_1", 10*seconds)}}, Unknown, "may", "not a pod here"},
		"by no pod, renewed again":               {"a controller outside of the cluster", gadget, outside, Alive, "will", "held by laptop_1, which renews it from outside the cluster"},
		"by no pod, until a moment ago":          {"it stopped: two listings show the same renewal", gadget, append(outside, outside[2], outside[2], outside[2]), Unknown, "may", "not a pod here"},
		"by others, in turns":                    {"each may have been a pod", gadget, lists{{held(group, "one_1", 0)}, {held(group, "two_1", 15*seconds)}, {held(group, "three_1", 30*seconds)}}, Unknown, "may", "not a pod here"},
		"by no pod, clock far off":               {"seen to be renewed, whatever its clock says", gadget, lists{{held(group, "laptop_1", -3600*seconds)}, {held(group, "laptop_1", -3585*seconds)}, {held(group, "laptop_1", -3570*seconds)}}, Alive, "will", "laptop_1"},
		"long ago":                               {"stale", gadget, lists{{held(group, "laptop_1", -300*seconds)}}, Absent, "may", "no running controller"},
		"seen once, clock far off":               {"it looks like a stale lease", gadget, lists{{held(group, "laptop_1", -3600*seconds)}}, Absent, "may", "no running controller"},
		"renewed no longer":                      {"not renewed for a minute", gadget, lists{{held(group, "laptop_1", 0)}, {held(group, "laptop_1", 0)}, {held(group, "laptop_1", 0)}, {held(group, "laptop_1", 0)}, {held(group, "laptop_1", 0)}}, Absent, "may", "no running controller"},
		"in the future, never renewed":           {"a skewed clock does not keep it alive for ever", gadget, lists{{held(group, "laptop_1", 90*seconds)}, {held(group, "laptop_1", 90*seconds)}, {held(group, "laptop_1", 90*seconds)}, {held(group, "laptop_1", 90*seconds)}, {held(group, "laptop_1", 90*seconds)}}, Absent, "may", "no running controller"},
		"without a holder":                       {"it has no holder", gadget, lists{{held(group, "", -2*seconds)}}, Absent, "may", "no running controller"},
		"of another group":                       {"it belongs to another group", gadget, lists{{held("a1b2c3d4.xx.io", "laptop_1", -2*seconds)}}, Absent, "may", "no running controller"},
		"of a pod that is gone":                  {"killed, it did not give it up", gadget + as("one", anAccount, controls, scaledToZero), lists{{held(group, "one-5d8-abcde_1", -2*seconds)}}, Down, "will", "has no pod"},
		"of a pod that left nothing else":        {"the holder is named like a pod, and has not renewed it in time", gadget, lists{{held(group, "one-5d8f7c9b64-x2klp_1", -12*seconds)}}, Absent, "may", "no running controller"},
		"of a pod elsewhere":                     {"near miss: it renewed it a moment ago, as one of another cluster does", gadget, lists{{held(group, "one-5d8f7c9b64-x2klp_1", -2*seconds)}}, Unknown, "may", "not a pod here"},
		"of a pod that its kubelet stopped":      {"it was a pod of this cluster", gadget + stopped, lists{{held(group, "one-5d8f7c9b64-x2klp_1", -2*seconds)}}, Absent, "may", "no running controller"},
		"of a pod that it started again":         {"near miss: and it may have been deleted by force since", gadget + strings.Replace(stopped, "Stopping", "Container c failed liveness probe,", 1), lists{{held(group, "one-5d8f7c9b64-x2klp_1", -2*seconds)}}, Unknown, "may", "not a pod here"},
		"of a pod that is said to be stopped":    {"near miss: not by a kubelet", gadget + strings.Replace(stopped, "kubelet", "other", 1), lists{{held(group, "one-5d8f7c9b64-x2klp_1", -2*seconds)}}, Unknown, "may", "not a pod here"},
		"of another pod that was stopped":        {"near miss: another name", gadget + stopped, lists{{held(group, "one-5d8f7c9b64-abcde_1", -2*seconds)}}, Unknown, "may", "not a pod here"},
		"of a pod that a tenant calls stopped":   {"near miss: whoever may write Events there may not update the objects", gadget + stopped + tells, lists{{held(group, "one-5d8f7c9b64-x2klp_1", -2*seconds)}}, Unknown, "may", "not a pod here"},
		"of a pod in a namespace that goes":      {"which deletes pods first", gadget + going, lists{{held(group, "one-5d8f7c9b64-x2klp_1", -2*seconds)}}, Absent, "may", "no running controller"},
		"of a machine, in a namespace that goes": {"near miss: its name is that of no pod", gadget + going, lists{{held(group, "laptop_1", -2*seconds)}}, Unknown, "may", "not a pod here"},
		"of a machine that is late":              {"near miss: the holder is not named like a pod", gadget, lists{{held(group, "laptop_1", -12*seconds)}}, Unknown, "may", "not a pod here"},
		"of a stranger, beside one that is down": {"the control plane of this cluster may be in another", gadget + as("one", anAccount, controls, scaledToZero), lists{{held(group, "laptop_1", -2*seconds)}}, Down, "may", "not a pod here"},

		"of a pod":                         {"a cluster-admin controls no resource in particular, but it holds the lease", gadget + admin, lists{{held(group, "one-1_1", -2*seconds)}}, Alive, "will", "is held by pod ops/one-1, which is ready"},
		"of a pod, a minute after it went": {"uninstalled: the lease outlives it", gadget + as("one", anAccount), lists{{held(group, "one-1_1", -2*seconds)}}, Unknown, "may", "not a pod here"},
		"of a pod in another namespace":    {"some have their leases in kube-system", gadget + strings.Replace(admin, "namespace: ops", "namespace: other", -1), lists{{held(group, "one-1_1", -2*seconds)}}, Alive, "will", "pod other/one-1"},
		"of a pod that goes":               {"it has no time left", gadget + strings.Replace(admin, "{name: one-1,", "{name: one-1, deletionTimestamp: '2001-09-09T01:46:00Z',", 1), lists{{held(group, "one-1_1", -2*seconds)}}, Absent, "may", "no running controller"},
		"of a pod whose namespace goes":    {"nor has this", gadget + admin + going, lists{{held(group, "one-1_1", -2*seconds)}}, Absent, "may", "no running controller"},
		"of a pod that crashes":            {"it holds the lease between restarts, too", gadget + strings.Replace(admin, `conditions: [{type: Ready, status: "True"}]`, waiting("CrashLoopBackOff"), 1), lists{{held(group, "one-1_1", -2*seconds)}}, Absent, "may", "no running controller"},
		"of a pod without rights":          {"any account may create and renew such a lease", gadget + as("one", anAccount, running) + authorizes, lists{{held(group, "one-1_1", -2*seconds)}}, Absent, "may", "no running controller"},
		"catalog and permissions differ":   {"known workloads outweigh a lease: see the permissions' own pod", gadget + as("one", anAccount, controls, running), lists{{held(group, "laptop_1", -300*seconds)}}, Alive, "will", "service account ops/one may update"},
		"held by a pod that is not ready": {
			"another of its containers renews its lease: no proof that it stays down",
			declared + as("one", anAccount, notReady, bad("p", strings.Replace(waiting("CrashLoopBackOff"), "[", "[{name: d, state: {running: {}}}, ", 1))),
			lists{{held("any", "p_1", -2*seconds)}},
			Down, "may", "pod ops/p renews lease ops/any",
		},
		"left behind by a pod that crashes": {
			"none of its containers runs: it held the lease until it crashed",
			declared + as("one", anAccount, notReady, bad("p", waiting("CrashLoopBackOff"))),
			lists{{held("any", "p_1", -2*seconds)}},
			Down, "will", "pod ops/p is in CrashLoopBackOff",
		},
		"renewed by a pod that crashes": {
			"near miss: the lease was seen to be renewed, whatever the kubelet says",
			declared + as("one", anAccount, notReady, bad("p", waiting("CrashLoopBackOff"))),
			lists{{held("any", "p_1", -2*seconds)}, {held("any", "p_1", 13*seconds)}},
			Down, "may", "pod ops/p renews lease ops/any",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			w, err := FromObjects(Options{Now: func() time.Time { return now }}, objects(t, tc.cluster))
			if err != nil {
				t.Fatal(err)
			}
			for i, list := range tc.lists {
				if i > 0 {
					now = now.Add(15 * seconds)
				}
				w.SetLeases(list)
			}
			w.Settle()
			got, _ := w.Ownership(objects(t, tc.cluster)[1], schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
			if got["state"] != tc.state || got["certainty"] != tc.certainty || !strings.Contains(fmt.Sprint(got["evidence"]), tc.evidence) {
				t.Errorf("%s\ngot %s (%s), want %s (%s) with %q: %v", tc.reason, got["state"], got["certainty"], tc.state, tc.certainty, tc.evidence, got["evidence"])
			}
		})
	}
}

// TestLeaseOfAPodThatWent checks that the lease of a pod that was seen to hold it, and was deleted,
// counts as left behind.
func TestLeaseOfAPodThatWent(t *testing.T) {
	second := time.Second
	held := func(at time.Duration) []coordinationv1.Lease {
		renewed, holder, duration := metav1.NewMicroTime(time.Unix(1e9, 0).Add(at)), "one-1_1", int32(15)
		return []coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "a1b2c3d4.x.io"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed, LeaseDurationSeconds: &duration}}}
	}
	pods := Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespaced: true}
	deployments := Resource{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespaced: true}
	tests := map[string]struct {
		reason           string
		seen             bool            // while it was a pod
		after            []time.Duration // when it was renewed, as each list shows after it went
		state, certainty string
	}{
		"seen":                {"the holder was a pod, which was deleted", true, []time.Duration{-2 * second}, Down, "will"},
		"seen, renewed once":  {"between the last list and its end", true, []time.Duration{5 * second}, Down, "will"},
		"not seen":            {"near miss: it may run outside of the cluster", false, []time.Duration{-2 * second}, Down, "may"},
		"seen, still renewed": {"near miss: the pod was force-deleted, and runs unseen", true, []time.Duration{5 * second, 20 * second, 35 * second}, Alive, "will"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			all := objects(t, gadget+as("one", anAccount, controls, running))
			w, err := FromObjects(Options{Now: func() time.Time { return now }}, all)
			if err != nil {
				t.Fatal(err)
			}
			if tc.seen {
				w.SetLeases(held(-2 * second))
			}
			for _, o := range all {
				for kind, res := range map[string]Resource{"Pod": pods, "Deployment": deployments} {
					if o.GetKind() != kind {
						continue
					}
					if err := w.Remove(res, o); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, at := range tc.after {
				now = now.Add(15 * second)
				w.SetLeases(held(at))
			}
			w.Settle()
			got, _ := w.Ownership(all[1], schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
			if got["state"] != tc.state || got["certainty"] != tc.certainty {
				t.Errorf("%s: got %s (%s), want %s (%s): %v", tc.reason, got["state"], got["certainty"], tc.state, tc.certainty, got["evidence"])
			}
		})
	}
}
