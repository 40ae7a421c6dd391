package catalog

import (
	"strings"
	"testing"
)

// released has two releases for each obstacle of released software, one with it and one without.
var released = map[string][2]string{
	"argocd-destination-gone":             {"v3.0.16", "v3.1.6"},
	"argocd-hook-without-health":          {"v2.11.0", "v2.12.0"},
	"attacher-ignores-in-tree-volume":     {"v2.1.1", "v2.2.0"},
	"autoneg-without-backend-service":     {"v1.1.0", "v1.2.0"},
	"aws-machine-never-bootstrapped":      {"v2.7.1", "v2.8.1"},
	"aws-machine-without-bootstrap-data":  {"v2.2.4", "v2.3.0"},
	"chains-drops-no-old-finalizer":       {"v0.27.3", "v0.29.0"},
	"db-operator-both-at-once":            {"2.28.0", "2.29.0"},
	"external-secrets-namespace-conflict": {"v0.20.1", "v0.20.4"},
	"flux-helmrelease-without-account":    {"v0.26.0", "v0.31.0"},
	"flux-kustomization-without-account":  {"v0.9.1", "v1.6.1"},
	"gatekeeper-drops-no-old-finalizer":   {"v3.15.0", "v3.14.2"},
	"gatekeeper-drops-no-sync-finalizer":  {"v3.1.0", "v3.0.3"},
	"job-pod-forgotten":                   {"v1.22.6+k3s1", "v1.24.0"},
	"keycloak-client-without-secret":      {"1.21.0", "1.22.0"},
	"kong-forgets-secrets":                {"2.0.0-alpha.2", "2.0.0"},
	"korifi-route-without-domain":         {"v0.7.1", "v0.8.0"},
	"kueue-forgets-queue":                 {"v0.17.1", "v0.17.2"},
	"provisioner-forgets-snapshot":        {"v6.2.0", "v6.3.0"},
	"provisioner-must-patch":              {"v5.1.0", "v4.0.1"},
	"tekton-webhook-refuses-finalizers":   {"v1.3.1", "v1.0.1"},
}

// TestObstacles checks every range of versions with a release on either side of it.
func TestObstacles(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Default().Entries() {
		for _, o := range e.Obstacles {
			seen[o.ID] = true
			versions, ok := released[o.ID]
			if ok != (o.Affected != "") {
				t.Errorf("%s: affected %q, and releases %v", o.ID, o.Affected, versions)
			}
			if ok && (!o.In(versions[0]) || o.In(versions[1])) {
				t.Errorf("%s: in %s: %t, in %s: %t", o.ID, versions[0], o.In(versions[0]), versions[1], o.In(versions[1]))
			}
			if o.In("latest") || o.In("") {
				t.Errorf("%s: a string that is no version is in the range", o.ID)
			}
		}
	}
	for id := range released {
		if !seen[id] {
			t.Errorf("%s: no such obstacle", id)
		}
	}
}

func TestObstacleErrors(t *testing.T) {
	for name, tc := range map[string]struct{ reason, text, want string }{
		"no range":  {"the releases are unknown", "image: a", "affected is needed"},
		"no reason": {"every release of everything", "", "affected is needed"},
		"range":     {"not a range of versions", "affected: 1 or so", `affected "1 or so"`},
		"image":     {"matched by the last path element", "image: a.io/b, affected: '<1.0.0'", `image "a.io/b"`},
		"verb":      {"the facts know no others", "image: a, affected: '<1.0.0', right: {verb: list, resource: pods}", "one of the verbs"},
		"of":        {"it would hold for nothing", "affected: '<1.0.0', of: [pods]", `of 1: "pods"`},
		"path":      {"the condition could never hold", "when: [{path: 'a[b=]', in: [c]}]", `path "a[b=]"`},
	} {
		t.Run(name, func(t *testing.T) {
			text := "- {finalizer: a.io/f, resources: [widgets.a.io], owner: a, component: in-cluster, source: x, obstacles: [{id: o, symptom: s, mend: m, source: x, " + tc.text + "}]}"
			if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.want)
			}
		})
	}
}

// TestObstacleShows checks objects with and without the sign of an obstacle.
func TestObstacleShows(t *testing.T) {
	entry := func(finalizer, resource string) Entry {
		e, ok := Default().Lookup(finalizer, resource)
		if !ok {
			t.Fatalf("no entry for %s on %s", finalizer, resource)
		}
		return e
	}
	type object = map[string]any
	machine := func(status string, spec object) object {
		return object{"spec": spec, "status": object{"conditions": []any{
			object{"type": "Ready", "status": "True"}, object{"type": "NodeHealthy", "status": status},
		}}}
	}
	for name, tc := range map[string]struct {
		reason, finalizer, resource, id string
		object                          object
		want                            bool
	}{
		"dead node":          {"nothing bounds the drain", "machine.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "machine-drain-of-dead-node", machine("Unknown", object{}), true},
		"live node":          {"the drain gets on", "machine.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "machine-drain-of-dead-node", machine("True", object{}), false},
		"bounded":            {"the drain ends", "machine.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "machine-drain-of-dead-node", machine("Unknown", object{"nodeDrainTimeout": "5m"}), false},
		"bounded, newer":     {"by a number of seconds", "machine.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "machine-drain-of-dead-node", machine("Unknown", object{"deletion": object{"nodeDrainTimeoutSeconds": float64(300)}}), false},
		"only the volumes":   {"the drain is bounded, the volumes are not", "machine.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "machine-volumes-of-dead-node", machine("Unknown", object{"nodeDrainTimeout": "5m"}), true},
		"protected":          {"the cloud refuses", "finalizers.rds.services.k8s.aws/DBInstance", "dbinstances.rds.services.k8s.aws", "rds-deletion-protection", object{"spec": object{"deletionProtection": true}}, true},
		"protected, kept":    {"the cloud is not called", "finalizers.rds.services.k8s.aws/DBInstance", "dbinstances.rds.services.k8s.aws", "rds-deletion-protection", object{"spec": object{"deletionProtection": true}, "metadata": object{"annotations": object{"services.k8s.aws/deletion-policy": "retain"}}}, false},
		"spec not known":     {"a setting that cannot be seen is not reported", "finalizers.rds.services.k8s.aws/DBInstance", "dbinstances.rds.services.k8s.aws", "rds-deletion-protection", object{"metadata": object{}}, false},
		"table":              {"another field", "finalizers.dynamodb.services.k8s.aws/Table", "tables.dynamodb.services.k8s.aws", "dynamodb-deletion-protection", object{"spec": object{"deletionProtectionEnabled": true}}, true},
		"itself":             {"the controller stops before it is done", "resources-finalizer.argocd.argoproj.io", "applications.argoproj.io", "argocd-deletes-itself", object{"spec": object{"destination": object{"server": "https://kubernetes.default.svc"}}, "status": object{"resources": []any{object{"kind": "StatefulSet", "name": "argocd-application-controller"}}}}, true},
		"itself by name":     {"the same cluster", "resources-finalizer.argocd.argoproj.io", "applications.argoproj.io", "argocd-deletes-itself", object{"spec": object{"destination": object{"name": "in-cluster"}}, "status": object{"resources": []any{object{"kind": "StatefulSet", "name": "argocd-application-controller"}}}}, true},
		"its like elsewhere": {"the controller of this cluster stays", "resources-finalizer.argocd.argoproj.io", "applications.argoproj.io", "argocd-deletes-itself", object{"spec": object{"destination": object{"server": "https://spoke.example:6443"}}, "status": object{"resources": []any{object{"kind": "StatefulSet", "name": "argocd-application-controller"}}}}, false},
		"its like by name":   {"in another cluster", "resources-finalizer.argocd.argoproj.io", "applications.argoproj.io", "argocd-deletes-itself", object{"spec": object{"destination": object{"name": "spoke"}}, "status": object{"resources": []any{object{"kind": "StatefulSet", "name": "argocd-application-controller"}}}}, false},
		"own namespace":      {"the hook has nowhere to run", "post-delete-finalizer.argocd.argoproj.io", "applications.argoproj.io", "argocd-hook-in-own-namespace", object{"status": object{"resources": []any{object{"kind": "Service"}, object{"kind": "Namespace"}}}}, true},
		"other's namespace":  {"it does not go", "post-delete-finalizer.argocd.argoproj.io", "applications.argoproj.io", "argocd-hook-in-own-namespace", object{"status": object{"resources": []any{object{"kind": "Service"}}}}, false},
		"no cluster":         {"Argo CD says so", "post-delete-finalizer.argocd.argoproj.io/cleanup", "applications.argoproj.io", "argocd-destination-gone", object{"status": object{"conditions": []any{object{"type": "InvalidSpecError"}}}}, true},
		"a cluster":          {"the entry has no fields", "post-delete-finalizer.argocd.argoproj.io/cleanup", "applications.argoproj.io", "argocd-destination-gone", object{"status": object{}}, false},
		"status not known":   {"a fault may show", "post-delete-finalizer.argocd.argoproj.io/cleanup", "applications.argoproj.io", "argocd-destination-gone", object{"metadata": object{}}, true},
		"disconnected":       {"Rancher cannot clean up there", "controller.cattle.io/mgmt-cluster-rbac-remove", "clusters.management.cattle.io", "rancher-cluster-not-connected", object{"status": object{"conditions": []any{object{"type": "Connected", "status": "False"}}}}, true},
		"connected":          {"it can", "controller.cattle.io/mgmt-cluster-rbac-remove", "clusters.management.cattle.io", "rancher-cluster-not-connected", object{"status": object{"conditions": []any{object{"type": "Connected", "status": "True"}}}}, false},
		"in-tree":            {"the attacher passes it over", "external-attacher/ebs-csi-aws-com", "persistentvolumes", "attacher-ignores-in-tree-volume", object{"spec": object{"awsElasticBlockStore": object{}}}, true},
		"of CSI":             {"it is the attacher's", "external-attacher/ebs-csi-aws-com", "persistentvolumes", "attacher-ignores-in-tree-volume", object{"spec": object{"csi": object{"driver": "ebs.csi.aws.com"}}}, false},
		"finished run":       {"the webhook refuses", "chains.tekton.dev/taskrun", "taskruns.tekton.dev", "tekton-webhook-refuses-finalizers", object{"status": object{"completionTime": "2025-09-01T00:00:00Z"}}, true},
		"running":            {"it does not yet", "chains.tekton.dev/taskrun", "taskruns.tekton.dev", "tekton-webhook-refuses-finalizers", object{"status": object{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := entry(tc.finalizer, tc.resource)
			ok := false
			for _, o := range e.ObstaclesOf(tc.resource) {
				if o.ID == tc.id {
					ok = true
					if got := o.Shows(tc.object); got != tc.want {
						t.Errorf("%s: shows: %t, want %t", tc.reason, got, tc.want)
					}
				}
			}
			if !ok {
				t.Errorf("no obstacle %s for %s", tc.id, tc.resource)
			}
		})
	}
}
