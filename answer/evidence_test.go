package answer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/race"
)

// evidence says what the steps of a policy rely on, and who writes it.
type evidence struct{ of, by string }

// restsOn has each policy whose steps termguard delete may carry out on objects other than the
// targets. The policy marks what a tenant writes (steps.hearsay), or the deletion waits for that
// very object, and the user names it.
var restsOn = map[string]evidence{
	"admission-policy-blocks-delete":       {"an admission policy, its binding and its parameters, evaluated as the API server does", "administrators; parameters by their writers"},
	"busy-mount":                           {"Events of kubelets", "**any user: marked**"},
	"controller-removed-before-finalizers": {"objects with a finalizer whose owner is deleted with the target, before them", "their authors; each object is named"},
	"crd-removed-with-finalizers":          {"the owner of a finalizer, as below", "as below"},
	"dra-driver-missing":                   {"allocated claims, ResourceSlices, and no pod of the plugin on the node", "Kubernetes and administrators"},
	"eviction-blocked":                     {"a PodDisruptionBudget and its status, and the pods that it covers", "the author of the budget; its status by Kubernetes"},
	"failing-conversion-webhook":           {"a definition whose conversion webhook was called and did not answer", "administrators, and the API server"},
	"failing-webhook-blocks-delete":        {"a webhook configuration and its backend; **statements of Events and conditions about it are marked**", "administrators; **Events by any user**"},
	"finalizer-already-stuck":              {"an old deletionTimestamp, and a running owner of the finalizer", "Kubernetes"},
	"immutable-files":                      {"Events of kubelets", "**any user: marked**"},
	"in-use":                               {"references of other objects that the owner of its finalizer checks; **statements of a custom resource's status are marked**", "authors of these objects, each of which is named; **the status by its writers**"},
	"missing-reference":                    {"a missing object that the object refers to", "the author of the object with the finalizer"},
	"network-plugin-removed":               {"Events of kubelets", "**any user: marked**"},
	"node-already-stuck":                   {"pods that are long past their deadline; **Events of kubelets are marked**", "Kubernetes; **Events by any user**"},
	"operator-in-same-set":                 {"the order of the deletions", "the user"},
	"orphaned-finalizer":                   {"the owner of a finalizer: cluster-wide rights, workloads of the catalog that have these or are in its namespace, served API groups. **A declaration, a RoleBinding, an owner reference, and observations are marked**", "administrators; **the rest by any user**"},
	"refused-request":                      {"as failing-webhook-blocks-delete", "as there"},
	"storage-in-use":                       {"pods that use a claim, and the claim of a volume", "their authors; each object is named"},
	"unavailable-apiservice":               {"an APIService that was called and did not answer, and its condition", "administrators and Kubernetes"},
	"unreachable-node":                     {"conditions of a Node", "its kubelet and Kubernetes"},
	"volume-driver-missing":                {"a CSINode, and no pod of the driver on the node", "kubelets and administrators"},
	"webhook-backend-in-namespace":         {"a webhook configuration, and its backend among the deleted objects", "administrators"},
}

// TestEvidenceOfSteps checks that restsOn has each policy with such steps, and compares the table
// in test/results/delete-security.md with it, or writes it.
func TestEvidenceOfSteps(t *testing.T) {
	classes := map[string]map[Class]bool{}
	marked := map[string]bool{}
	for in := range stepsOfSamples(t) {
		f := in.finding
		if advice(f, in.deed.Step, false) != "" {
			continue
		}
		class, err := in.deed.class()
		if err != nil {
			t.Fatal(err)
		}
		if classes[f.Policy] == nil {
			classes[f.Policy] = map[Class]bool{}
		}
		classes[f.Policy][class] = true
		marked[f.Policy] = marked[f.Policy] || in.Hearsay != ""
	}
	if race.Detector {
		return // which leaves time for few fixtures
	}
	var table strings.Builder
	table.WriteString("| policy | steps | rest on | written by |\n|---|---|---|---|\n")
	for _, p := range slices.Sorted(maps.Keys(classes)) {
		e, known := restsOn[p]
		if !known {
			t.Errorf("%s has steps that may be carried out: add what they rely on to restsOn", p)
		}
		if marks := strings.Contains(e.of+e.by, "marked"); marked[p] && !marks {
			t.Errorf("steps of %s are marked as hearsay, but restsOn lacks that", p)
		}
		names := make([]string, 0, len(classes[p]))
		for _, c := range slices.Sorted(maps.Keys(classes[p])) {
			names = append(names, "`"+string(c)+"`")
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", p, strings.Join(names, ", "), e.of, e.by)
	}
	for p := range restsOn {
		if classes[p] == nil {
			t.Errorf("restsOn has %s, but no fixture has such a step", p)
		}
	}
	section(t, "../test/results/delete-security.md", "evidence", table.String())
}

// tenants are objects that a namespace administrator may write to provoke a step that harms others.
var tenants = map[string]struct{ reason, world, resource, namespace string }{
	"Annotation": {
		"an annotation declares a workload of others to be the owner", `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: idle, namespace: other}, spec: {replicas: 0, selector: {matchLabels: {app: idle}}, template: {metadata: {labels: {app: idle}}, spec: {containers: [{name: c, image: c}]}}}}
---
{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: it, namespace: tenant, finalizers: [acme.example.com/f], annotations: {termguard.dev/finalizer-owner: Deployment/other/idle}}}
`, "widgets", "tenant",
	},
	"RoleBinding": {
		"rights in his namespace are given to an account of others, whose workload is scaled to zero", `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: idle, namespace: other}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: idle, namespace: other}, spec: {replicas: 0, selector: {matchLabels: {app: idle}}, template: {metadata: {labels: {app: idle}}, spec: {serviceAccountName: idle, containers: [{name: c, image: c}]}}}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: widgets, namespace: tenant}, rules: [{apiGroups: [acme.example.com], resources: [widgets, widgets/status], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: widgets, namespace: tenant}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: widgets}, subjects: [{kind: ServiceAccount, name: idle, namespace: other}]}
---
{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: it, namespace: tenant, finalizers: [acme.example.com/f]}}
`, "widgets", "tenant",
	},
	"OwnerReference": {
		"an owner of a group that is not served makes a finalizer look as if nobody were left", `
{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: it, namespace: tenant, finalizers: [acme.example.com/f], ownerReferences: [{apiVersion: gone.example.com/v1, kind: Gone, name: x, uid: x}]}}
`, "widgets", "tenant",
	},
	"Workload": {
		"a workload with the name of a cloud's controller, and a right in this namespace, makes that look scaled down", `
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: it, namespace: shop}, rules: [{apiGroups: [""], resources: [services, services/status], verbs: [patch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: it, namespace: shop}, roleRef: {kind: Role, name: it}, subjects: [{kind: ServiceAccount, name: default, namespace: tenant}]}
---
{apiVersion: v1, kind: Node, metadata: {name: worker}, spec: {providerID: "aws:///x"}, status: {conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: aws-cloud-controller-manager, namespace: tenant}, spec: {replicas: 0, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: registry.k8s.io/provider-aws/cloud-controller-manager}]}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: it, namespace: shop, finalizers: [service.kubernetes.io/load-balancer-cleanup]}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
`, "services", "shop",
	},
	"Learned": {
		"a removal that was once seen makes a workload of others the owner, which is scaled to zero", `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: idle, namespace: other}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: idle, namespace: other}, spec: {replicas: 0, selector: {matchLabels: {app: idle}}, template: {metadata: {labels: {app: idle}}, spec: {serviceAccountName: idle, containers: [{name: c, image: c}]}}}}
---
{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: it, namespace: tenant, finalizers: [acme.example.com/f]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: termguard-learned, namespace: termguard-system}, data: {learned.json: '{"apiVersion":"termguard.dev/v1","owners":[{"finalizer":"acme.example.com/f","resource":"widgets.acme.example.com","identity":"system:serviceaccount:other:idle","objects":3,"first":"2026-01-01T00:00:00Z","last":"2026-11-20T00:00:00Z"}]}'}}
`, "widgets", "tenant",
	},
	"Status": {
		"a workload says that a queue admitted it, whose deletion then waits for it", `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: clusterqueues.kueue.x-k8s.io}, spec: {group: kueue.x-k8s.io, scope: Cluster, names: {kind: ClusterQueue, plural: clusterqueues}, versions: [{name: v1beta2, served: true, storage: true}]}, status: {conditions: [{type: Established, status: "True"}], storedVersions: [v1beta2]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: workloads.kueue.x-k8s.io}, spec: {group: kueue.x-k8s.io, scope: Namespaced, names: {kind: Workload, plural: workloads}, versions: [{name: v1beta2, served: true, storage: true}]}, status: {conditions: [{type: Established, status: "True"}], storedVersions: [v1beta2]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: kueue-controller-manager, namespace: kueue-system}, spec: {replicas: 1, selector: {matchLabels: {app: c}}, template: {metadata: {labels: {app: c}}, spec: {containers: [{name: c, image: "registry.k8s.io/kueue/kueue:v0.17.2"}]}}}, status: {replicas: 1, readyReplicas: 1}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: it, finalizers: [kueue.x-k8s.io/resource-in-use]}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: w, namespace: tenant}, status: {admission: {clusterQueue: it}, conditions: [{type: Admitted, status: "True"}]}}
`, "clusterqueues", "",
	},
}

const cast = `
{apiVersion: v1, kind: Namespace, metadata: {name: tenant}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.acme.example.com}, spec: {group: acme.example.com, scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true, storage: true}]}, status: {conditions: [{type: Established, status: "True"}], storedVersions: [v1]}}
---
`

// TestTenantsLicenseNothing checks that each step provoked by objects of a tenant is left to a
// person, unless it acts on the target. Each case must provoke one.
func TestTenantsLicenseNothing(t *testing.T) {
	engine := newEngine(t)
	for name, tc := range tenants {
		t.Run(name, func(t *testing.T) {
			world := worldFrom(t, cast+tc.world)
			subject, err := FromFacts(world, Name{Type: tc.resource, Namespace: tc.namespace, Name: "it"})
			if err != nil {
				t.Fatal(err)
			}
			report, err := ask(t.Context(), engine, world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			brought := 0
			for _, s := range report.all.Plan {
				if s.Action == nil {
					continue
				}
				if brought++; s.Hearsay == "" {
					t.Errorf("%s: %s: %s", tc.reason, s.Do, s.Command)
				}
			}
			if brought == 0 {
				t.Errorf("%s: no step: %+v", tc.reason, report.Findings)
			}
		})
	}
}
