package answer

import (
	"testing"

	"github.com/termguard/termguard/policies"
)

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
			subject, err := FromFacts(world, Name{Object: policies.Object{Resource: tc.resource, Namespace: tc.namespace, Name: "it"}})
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
