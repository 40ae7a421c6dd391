package check

import (
	"bytes"
	"testing"

	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/policies"
)

// TestSnapshotTellsObjectsApart checks two objects of one kind with the same finalizer; only one
// has field managers, which a snapshot lacks. The owner of one object must not be reported for the
// other.
func TestSnapshotTellsObjectsApart(t *testing.T) {
	engine := newEngine(t)
	var snapshot bytes.Buffer
	if err := snapshots.Write(worldFrom(t, `apiVersion: v1
kind: ConfigMap
metadata:
  name: managed
  namespace: demo
  uid: u1
  finalizers: [x.io/f]
  managedFields:
  - {manager: kiali, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:finalizers": {".": {}, "v:\"x.io/f\"": {}}}}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: plain
  namespace: demo
  uid: u2
  finalizers: [x.io/f]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kiali, namespace: ops, uid: d1}
spec: {replicas: 1, selector: {matchLabels: {app: kiali}}, template: {metadata: {labels: {app: kiali}}, spec: {serviceAccountName: kiali, containers: [{name: kiali, image: kiali}]}}}
status: {replicas: 1, readyReplicas: 1, availableReplicas: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: kiali-1, namespace: ops, uid: p1, labels: {app: kiali}}
spec: {serviceAccountName: kiali, nodeName: n1, containers: [{name: kiali, image: kiali}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kiali, uid: r1}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, update, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kiali, uid: b1}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kiali}
subjects: [{kind: ServiceAccount, name: kiali, namespace: ops}]
`), &snapshot); err != nil {
		t.Fatal(err)
	}
	read, err := snapshots.Read(&snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]policies.Verdict{
		"managed": policies.Completes, // who wrote the finalizer runs
		"plain":   policies.AtRisk,    // nobody knows who removes it
	} {
		s, err := FromFacts(read, Name{Type: "configmaps", Namespace: "demo", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		report, err := ask(t.Context(), engine, read, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		if report.Verdict != want {
			t.Errorf("%s: got %s, want %s: %+v", name, report.Verdict, want, report.Findings)
		}
	}
}
