package cluster

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/catalog"
)

// TestNotAliveAMinuteLater checks each source that calls an owner alive a minute after the operator
// was uninstalled, scaled to zero, or began to crash, and while its namespace is deleted: it is
// never certainly alive any more.
func TestNotAliveAMinuteLater(t *testing.T) {
	now := time.Unix(1e9, 0)
	const (
		pod        = `{apiVersion: v1, kind: Pod, metadata: {name: one-1, namespace: ops, LABELS}, spec: {nodeName: n1, serviceAccountName: one, containers: [{name: c, image: corp/one}]}, status: {phase: Running, CONTAINERS conditions: [{type: Ready, status: "True"}]}}`
		deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one, namespace: ops, OWNER}, spec: {replicas: REPLICAS, template: {spec: {serviceAccountName: one, containers: [{name: c, image: corp/one}]}}}, status: {readyReplicas: 1}}`
		namespace  = `{apiVersion: v1, kind: Namespace, metadata: {name: ops, LABELS}}`
		deleted    = "deletionTimestamp: '2001-09-09T01:46:00Z'"
		owner      = "ownerReferences: [{apiVersion: x.io/v1, kind: Package, name: p, uid: u1, controller: true}]"
		crashes    = `containerStatuses: [{name: c, restartCount: 5, state: {running: {startedAt: '2001-09-09T01:46:00Z'}}, lastState: {terminated: {exitCode: 1}}}],`
	)
	join := func(parts ...string) string { return strings.Join(parts, "\n---\n") }
	replace := func(text string, pairs ...string) string {
		return strings.NewReplacer(append(pairs, "LABELS", "labels: {}", "OWNER", "labels: {}", "CONTAINERS", "", "REPLICAS", "1")...).Replace(text)
	}
	// The objects left of an operator that runs completely, and after each change.
	states := map[string]struct {
		reason, objects string
		gone            bool // its service account and rights, too
		alive           bool
	}{
		"running":               {"as it should be", replace(join(pod, deployment, namespace)), false, true},
		"crashed long ago":      {"it has been up for an hour", replace(join(pod, deployment, namespace), "CONTAINERS", strings.Replace(crashes, "01:46", "00:46", 1)), false, true},
		"uninstalled":           {"nothing of it is left", replace(namespace), true, false},
		"Deployment deleted":    {"its service account and its rights are left", replace(namespace), false, false},
		"scaled to zero":        {"nothing runs", replace(join(deployment, namespace), "REPLICAS", "0", "readyReplicas: 1", "readyReplicas: 0"), false, false},
		"scaled to zero now":    {"the status still counts the Terminating pod", replace(join(strings.Replace(pod, "LABELS", deleted, 1), deployment, namespace), "REPLICAS", "0"), false, false},
		"being deleted":         {"in the foreground, its pods go first", replace(join(strings.Replace(pod, "LABELS", deleted, 1), strings.Replace(deployment, "OWNER", deleted+", OWNER", 1), namespace)), false, false},
		"crashing":              {"it is up for a moment, and down for five minutes", replace(join(pod, deployment, namespace), "CONTAINERS", crashes), false, false},
		"crashing, no trace":    {"the container that ended is cleaned up already", replace(join(pod, deployment, namespace), "CONTAINERS", strings.Replace(crashes, ", lastState: {terminated: {exitCode: 1}}", "", 1)), false, false},
		"ended, and ready":      {"the condition lags behind", replace(join(pod, deployment, namespace), "CONTAINERS", strings.Replace(crashes, "running: {startedAt: '2001-09-09T01:46:00Z'}", "terminated: {exitCode: 0}", 1)), false, false},
		"waits, and ready":      {"the condition lags behind", replace(join(pod, deployment, namespace), "CONTAINERS", strings.Replace(crashes, "running: {startedAt: '2001-09-09T01:46:00Z'}", "waiting: {reason: CrashLoopBackOff}", 1)), false, false},
		"ended after days":      {"it has lost its lease once more", replace(join(pod, deployment, namespace), "CONTAINERS", strings.Replace(crashes, "exitCode: 1", "exitCode: 1, startedAt: '2001-09-01T00:00:00Z', finishedAt: '2001-09-09T01:45:59Z'", 1)), false, true},
		"its namespace deleted": {"its pods are deleted first", replace(join(pod, deployment, strings.Replace(namespace, "LABELS", deleted, 1))), false, false},
	}
	renewed, holder, duration := metav1.NewMicroTime(now), "one-1_1", int32(15)
	sources := map[string]struct {
		gadget, rights string
		catalog        string
		lease          bool
	}{
		"a declaration":               {gadget: strings.Replace(gadget, "name: it,", "name: it, annotations: {termguard.dev/finalizer-owner: Deployment/ops/one},", 1)},
		"a sighting":                  {gadget: gadget, rights: strings.ReplaceAll(seen("system:serviceaccount:ops:one 1 1h"), "1969-12-31", "2001-09-08")},
		"workloads of the catalog":    {gadget: gadget, catalog: "workloads: [{kind: Deployment, name: one, namespace: ops}]"},
		"images of the catalog":       {gadget: gadget, catalog: "workloads: [{kind: Deployment, name: other, namespace: ops, image: one}]"},
		"field managers":              {gadget: strings.Replace(gadget, "name: it,", `name: it, managedFields: [{manager: c, operation: Update, apiVersion: x.io/v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:finalizers": {'v:"x.io/cleanup"': {}}}}}],`, 1), rights: controls},
		"the owner of the definition": {gadget: strings.Replace(gadget, "metadata: {name: gadgets.x.io}", "metadata: {name: gadgets.x.io, "+owner+"}", 1) + packages, rights: controls},
		"permissions":                 {gadget: gadget, rights: controls},
		"leases":                      {gadget: gadget, rights: strings.Replace(controls, "apiGroups: [x.io], resources: [", "apiGroups: ['*'], resources: [leases, ", 1), lease: true},
	}
	for source, from := range sources {
		for state, s := range states {
			t.Run(source+"/"+state, func(t *testing.T) {
				text := from.gadget + "\n---\n" + s.objects
				if !s.gone {
					text += as("one", anAccount, from.rights)
				}
				if source == "the owner of the definition" {
					text = strings.Replace(text, "kind: Deployment, metadata: {", "kind: Deployment, metadata: {"+owner+", ", 1)
				}
				options := Options{Now: func() time.Time { return now }}
				if from.catalog != "" {
					entries, err := catalog.Parse([]byte("- {finalizer: x.io/cleanup, resources: [gadgets.x.io], owner: X, component: in-cluster, source: x, " + from.catalog + "}"))
					if err != nil {
						t.Fatal(err)
					}
					options.Catalog = entries
				}
				w, err := FromObjects(options, objects(t, text))
				if err != nil {
					t.Fatal(err)
				}
				if from.lease {
					w.SetLeases([]coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "x.io"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed, LeaseDurationSeconds: &duration}}})
					w.Settle()
				}
				got, _ := w.Ownership(objects(t, text)[1], schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
				if alive := got["state"] == Alive; alive != s.alive {
					t.Errorf("%s: got %s: %v", s.reason, got["state"], got["evidence"])
				}
			})
		}
	}
}
