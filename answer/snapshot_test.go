package answer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/cluster/snapshots"
	"github.com/termguard/termguard/policies"
)

// TestSnapshotTellsObjectsApart checks two objects of one kind with the same finalizer; only one
// has field managers. The owner of one object must not be reported for the
// other.
func TestSnapshotTellsObjectsApart(t *testing.T) {
	engine := newEngine(t)
	file := filepath.Join(t.TempDir(), "fixture.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: termguard.dev/v1
kind: Cluster
---
apiVersion: v1
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
`), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := snapshots.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for name, want := range map[string]policies.Verdict{
		"managed": policies.Completes, // who wrote the finalizer runs
		"plain":   policies.AtRisk,    // nobody knows who removes it
	} {
		s, read, err := fromCluster(t, live.Over(a), a.Options(cluster.Options{}), Name{Object: policies.Object{Resource: "configmaps", Namespace: "demo", Name: name}})
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

// TestSnapshotNames checks that files of other tools know a type by all names that the cluster has for it.
func TestSnapshotNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gateways.x.io}, spec: {group: x.io, scope: Namespaced, names: {kind: Gateway, plural: gateways, singular: gw, shortNames: [gwy]}, versions: [{name: v1beta1, served: true}, {name: v1, served: true, storage: true}, {name: v2, served: false}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := snapshots.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	types, err := Served(t.Context(), live.Over(a))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"clusterrolebinding", "ClusterRole", "role", "rolebindings", "validatingwebhookconfiguration", "mutatingwebhookconfiguration", "sc", "pdb", "hpa", "endpointslice",
		"resourcequota", "quota", "limits", "volumeattachment", "resourceclaim", "servicecidr", "lease", "pc", "gateway", "gateways", "gateways.x.io", "gateways.v1beta1.x.io", "gateways.v1.x.io", "gw", "gwy",
	} {
		if _, err := types.Find(name); err != nil {
			t.Errorf("type %s: %v", name, err)
		}
	}
	if _, err := types.Find("gateways.v2.x.io"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("for a version that is not served: %v", err)
	}
}
