package cluster

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestCSIOwnership(t *testing.T) {
	const pv = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv1, finalizers: [external-provisioner.volume.kubernetes.io/finalizer]}
spec: {csi: {driver: disk.csi.example.com, volumeHandle: h}}
status: {phase: Released}
`
	const attachment = `
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: a1, finalizers: [external-attacher/disk-csi-example-com]}
spec: {attacher: disk.csi.example.com, nodeName: n1, source: {persistentVolumeName: pv1}}
`
	driver := func(name string) string {
		return "\n---\n{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: " + name + "}}"
	}
	provisioner := func(name, args string) string {
		return "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: kube-system}, spec: {nodeName: n1, serviceAccountName: " + name +
			", containers: [{name: p, image: 'registry.k8s.io/sig-storage/csi-provisioner:v5', args: [" + args + "]}, {name: a, image: csi-attacher}]}," +
			" status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}" + strings.ReplaceAll(sidecarsMay, "SA", name)
	}
	type test struct{ reason, cluster, state, certainty, evidence string }
	tests := map[string]test{
		"installed, the provisioner is another's by name": {
			reason:  "a provisioner that names another driver does not serve this one",
			cluster: pv + driver("disk.csi.example.com") + driver("nfs.csi.k8s.io") + provisioner("x", "--driver=nfs.csi.k8s.io"),
			state:   Unknown, certainty: "may", evidence: "outside the cluster",
		},
		"two drivers, one silent provisioner": {
			reason:  "its driver is unknown",
			cluster: pv + driver("disk.csi.example.com") + driver("nfs.csi.k8s.io") + provisioner("x", "--csi-address=/csi/csi.sock"),
			state:   Unknown, certainty: "may", evidence: "whether one serves disk.csi.example.com",
		},
		"not registered, and named": {
			reason:  "a CSIDriver is optional: the name is enough",
			cluster: pv + provisioner("x", "--leader-election-id=disk-csi-example-com"),
			state:   Alive, certainty: "will", evidence: "names driver disk.csi.example.com",
		},
		"registered on a node only": {
			reason:  "a CSIDriver is optional: a node that lists the driver is enough",
			cluster: pv + "\n---\n{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n1}, spec: {drivers: [{name: disk.csi.example.com, nodeID: i}]}}" + provisioner("x", "--v=2"),
			state:   Alive, certainty: "will", evidence: "is installed",
		},
		"drivers cannot be seen": {
			reason:  "an owner is not absent while facts are unseen",
			cluster: pv + "\n---\n{apiVersion: termguard.dev/v1, kind: Cluster, unseen: [{resource: csidrivers.storage.k8s.io, reason: forbidden, message: denied}]}",
			state:   Unknown, certainty: "may", evidence: "unseen: csidrivers.storage.k8s.io (forbidden)",
		},
	}
	for kind, object := range map[string]string{"provisioner": pv, "attacher": attachment} {
		tests["uninstalled, another driver's "+kind+" runs"] = test{
			reason:  "the sidecar of another driver does nothing for this volume",
			cluster: object + driver("nfs.csi.k8s.io") + provisioner("nfs", "--csi-address=/csi/csi.sock"),
			state:   Absent, certainty: "will", evidence: "CSI driver disk.csi.example.com is not installed",
		}
		tests["installed, one "+kind] = test{
			reason:  "one driver, one sidecar: it is its own",
			cluster: object + driver("disk.csi.example.com") + provisioner("disk", "--csi-address=/csi/csi.sock"),
			state:   Alive, certainty: "will", evidence: "csi-" + kind,
		}
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.cluster)
			obj := objects(t, tc.cluster)[0]
			resource := schema.GroupResource{Resource: "persistentvolumes"}
			if obj.GetKind() == "VolumeAttachment" {
				resource = schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}
			}
			buckets, _ := at(w, "finalized", "", obj.GetFinalizers()[0], resource.String()).(map[string]any)
			if len(buckets) != 1 {
				t.Fatalf("%s\nwant one bucket, got %v", tc.reason, buckets)
			}
			reviewed, _ := w.Ownership(obj, resource, nil)[obj.GetFinalizers()[0]].(map[string]any)
			for _, b := range buckets {
				inventory := b.(map[string]any)["ownership"].(map[string]any)
				for _, got := range []map[string]any{inventory, reviewed} {
					evidence, _ := got["evidence"].([]any)
					if got["state"] != tc.state || got["certainty"] != tc.certainty || len(evidence) == 0 || !strings.Contains(evidence[len(evidence)-1].(string), tc.evidence) {
						t.Errorf("%s\ngot %v, want %s (%s): %s", tc.reason, got, tc.state, tc.certainty, tc.evidence)
					}
				}
			}
		})
	}
}

// sidecarsMay has the rights by which the sidecars under a service account remove their finalizers
// (github.com/kubernetes-csi/external-provisioner:deploy/kubernetes/rbac.yaml, and the attacher's).
const sidecarsMay = `
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: SA}, rules: [{apiGroups: ["", storage.k8s.io], resources: [persistentvolumes, volumeattachments], verbs: [patch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: SA}, roleRef: {kind: ClusterRole, name: SA}, subjects: [{kind: ServiceAccount, name: SA, namespace: kube-system}]}
`

// TestVolumeObstacles checks that the facts about a volume, which is watched whole, show the same
// obstacles of its owner as a review that has the volume.
func TestVolumeObstacles(t *testing.T) {
	const around = `
---
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: disk.csi.example.com}}
---
apiVersion: v1
kind: Pod
metadata: {name: disk, namespace: kube-system}
spec: {nodeName: n1, serviceAccountName: disk, containers: [{name: p, image: "registry.k8s.io/sig-storage/csi-provisioner:v6.4.0"}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}`
	for _, tc := range []struct {
		reason, policy, phase string
		want                  bool
	}{
		{"it was never released, so it is not deleted", "Delete", "Available", true},
		{"its claim was deleted", "Delete", "Released", false},
		{"the finalizer of a retained volume is removed at once", "Retain", "Available", false},
	} {
		text := `
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv1, uid: u, finalizers: [external-provisioner.volume.kubernetes.io/finalizer]}
spec: {persistentVolumeReclaimPolicy: ` + tc.policy + `, csi: {driver: disk.csi.example.com, volumeHandle: h}}
status: {phase: ` + tc.phase + `}` + around + strings.ReplaceAll(sidecarsMay, "SA", "disk")
		w := world(t, text)
		obj, resource := objects(t, text)[0], schema.GroupResource{Resource: "persistentvolumes"}
		finalizer := obj.GetFinalizers()[0]
		buckets, _ := at(w, "finalized", "", finalizer, resource.String()).(map[string]any)
		if len(buckets) != 1 {
			t.Fatalf("%s: want one bucket, got %v", tc.reason, buckets)
		}
		reviewed, _ := w.Ownership(obj, resource, nil)[finalizer].(map[string]any)
		for signature, b := range buckets {
			inventory := b.(map[string]any)["ownership"].(map[string]any)
			for where, got := range map[string]map[string]any{"facts": inventory, "asked": reviewed} {
				ok := false
				obstacles, _ := got["obstacles"].([]any)
				for _, o := range obstacles {
					ok = ok || o.(map[string]any)["id"] == "provisioner-ignores-unreleased"
				}
				if ok != tc.want {
					t.Errorf("%s: %s (%s): an obstacle %t, want %t: %v", tc.reason, where, signature, ok, tc.want, got)
				}
			}
		}
	}
}
