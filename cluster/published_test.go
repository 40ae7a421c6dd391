package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/catalog"
)

// TestOwnerThatMayRunOutside distinguishes the snapshot controller of a cloud's control plane,
// which no cluster shows, from one that ran in the cluster and was removed.
func TestOwnerThatMayRunOutside(t *testing.T) {
	const finalizer = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
	resource := schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}
	snapshot := strings.NewReplacer("gadgets", "volumesnapshots", "Gadget", "VolumeSnapshot", "x.io/cleanup", finalizer, "x.io", resource.Group).Replace(gadget)
	was := strings.NewReplacer("gadgets.x.io", resource.String(), "x.io/cleanup", finalizer).Replace(seen("system:serviceaccount:kube-system:snapshot-controller 1 1h"))
	for name, tc := range map[string]struct{ reason, cluster, state, certainty string }{
		"never seen": {"it may run in the control plane of a cloud", snapshot, Unknown, "may"},
		"seen, gone": {"it ran in the cluster and was removed completely", snapshot + was, Absent, "will"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.cluster)
			got, _ := w.Ownership(objects(t, tc.cluster)[1], resource, nil)[finalizer].(map[string]any)
			if got["state"] != tc.state || got["certainty"] != tc.certainty {
				t.Errorf("%s\ngot %s (%s), want %s (%s): %v", tc.reason, got["state"], got["certainty"], tc.state, tc.certainty, got["evidence"])
			}
		})
	}
}

// shape has the part of an operator's published manifests that concerns its finalizer: the custom
// resource, the workload, its service account, and the rules that bind the account to the API
// group.
type shape struct {
	source                            string // of manifests and finalizer
	group, version, plural, kind      string
	clusterScoped                     bool
	finalizer                         string
	workload, namespace, name, labels string
	account, image                    string
	rules                             []string
	inNamespace                       bool // the rules hold in the objects' namespace only
	aggregated                        bool // they reach the account by an aggregated role
	// unproven has the verdicts without a catalog entry, with the operator at work and scaled to
	// zero, if its rules do not make it the resource's controller.
	unproven []outcome
}

type outcome struct{ state, certainty string }

// shapes are operators in wide use, by name.
var shapes = map[string]shape{
	"KEDA": {
		source: "github.com/kedacore/keda: config/{manager,rbac}, controllers/keda/scaledobject_finalizer.go",
		group:  "keda.sh", version: "v1alpha1", plural: "scaledobjects", kind: "ScaledObject", finalizer: "finalizer.keda.sh",
		workload: "Deployment", namespace: "keda", name: "keda-operator", labels: "app: keda-operator, app.kubernetes.io/name: keda-operator",
		account: "keda-operator", image: "ghcr.io/kedacore/keda:main",
		rules: []string{
			`{apiGroups: ["*"], resources: ["*"], verbs: [get]}`,
			`{apiGroups: ["*"], resources: ["*/scale"], verbs: [get, list, patch, update, watch]}`,
			`{apiGroups: [keda.sh], resources: [scaledjobs, scaledjobs/finalizers, scaledjobs/status, scaledobjects, scaledobjects/finalizers, scaledobjects/status], verbs: [get, list, patch, update, watch]}`,
		},
	},
	"Flux source-controller": {
		source: "github.com/fluxcd/flux2: manifests/rbac/controller.yaml; github.com/fluxcd/source-controller: config/manager, api/v1/condition_types.go",
		group:  "source.toolkit.fluxcd.io", version: "v1", plural: "gitrepositories", kind: "GitRepository", finalizer: "finalizers.fluxcd.io",
		workload: "Deployment", namespace: "flux-system", name: "source-controller", labels: "app: source-controller",
		account: "source-controller", image: "fluxcd/source-controller:v1.9.0",
		rules: []string{
			`{apiGroups: [source.toolkit.fluxcd.io], resources: ["*"], verbs: ["*"]}`,
			`{apiGroups: [kustomize.toolkit.fluxcd.io], resources: ["*"], verbs: ["*"]}`,
		},
		unproven: []outcome{{Unknown, "may"}, {Down, "will"}}, // a wildcard says who may, not who does
	},
	"Crossplane": {
		source: "github.com/crossplane/crossplane: cluster/charts/crossplane/templates/{deployment,clusterrole,clusterrolebinding}.yaml, internal/controller/apiextensions/definition/reconciler.go",
		group:  "apiextensions.crossplane.io", version: "v1", plural: "compositeresourcedefinitions", kind: "CompositeResourceDefinition", clusterScoped: true,
		finalizer: "defined.apiextensions.crossplane.io",
		workload:  "Deployment", namespace: "crossplane-system", name: "crossplane", labels: "app: crossplane",
		account: "crossplane", image: "xpkg.crossplane.io/crossplane/crossplane:latest", aggregated: true,
		unproven: []outcome{{Unknown, "may"}, {Down, "will"}}, // a wildcard says who may, not who does
		rules:    []string{`{apiGroups: [apiextensions.crossplane.io, ops.crossplane.io, pkg.crossplane.io, protection.crossplane.io], resources: ["*"], verbs: ["*"]}`},
	},
	"Argo CD": {
		source: "github.com/argoproj/argo-cd: manifests/install.yaml, pkg/apis/application/v1alpha1/application_defaults.go",
		group:  "argoproj.io", version: "v1alpha1", plural: "applications", kind: "Application", finalizer: "resources-finalizer.argocd.argoproj.io",
		workload: "StatefulSet", namespace: "argocd", name: "argocd-application-controller", labels: "app.kubernetes.io/name: argocd-application-controller",
		account: "argocd-application-controller", image: "quay.io/argoproj/argocd:latest",
		unproven: []outcome{{Absent, "may"}, {Absent, "may"}}, // who may do everything is nobody's controller
		rules:    []string{`{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}`},
	},
	"Rook": {
		source: "github.com/rook/rook: deploy/examples/{common,operator}.yaml, pkg/operator/ceph/controller/finalizer.go",
		group:  "ceph.rook.io", version: "v1", plural: "cephclusters", kind: "CephCluster", finalizer: "cephcluster.ceph.rook.io",
		workload: "Deployment", namespace: "rook-ceph", name: "rook-ceph-operator", labels: "app: rook-ceph-operator, operator: rook",
		account: "rook-ceph-system", image: "docker.io/rook/ceph:master",
		rules: []string{
			`{apiGroups: [ceph.rook.io], resources: [cephclusters, cephblockpools], verbs: [get, list, watch, update]}`,
			`{apiGroups: [ceph.rook.io], resources: [cephclusters/status, cephblockpools/status], verbs: [update]}`,
			`{apiGroups: [ceph.rook.io], resources: [cephclusters/finalizers, cephblockpools/finalizers], verbs: [update]}`,
		},
	},
	"Longhorn": {
		source: "github.com/longhorn/longhorn: deploy/longhorn.yaml; github.com/longhorn/longhorn-manager: datastore/longhorn.go",
		group:  "longhorn.io", version: "v1beta2", plural: "volumes", kind: "Volume", finalizer: "longhorn.io",
		workload: "DaemonSet", namespace: "longhorn-system", name: "longhorn-manager", labels: "app: longhorn-manager",
		account: "longhorn-service-account", image: "docker.io/longhornio/longhorn-manager:master-head",
		rules: []string{`{apiGroups: [longhorn.io], resources: [volumes, volumes/status, replicas, replicas/status], verbs: ["*"]}`},
	},
	"RabbitMQ": {
		source: "github.com/rabbitmq/cluster-operator: config/{manager,rbac,installation}, internal/controller/reconcile_finalizer.go",
		group:  "rabbitmq.com", version: "v1beta1", plural: "rabbitmqclusters", kind: "RabbitmqCluster", finalizer: "deletion.finalizers.rabbitmqclusters.rabbitmq.com",
		workload: "Deployment", namespace: "rabbitmq-system", name: "rabbitmq-cluster-operator", labels: "app.kubernetes.io/name: rabbitmq-cluster-operator",
		account: "rabbitmq-cluster-operator", image: "ghcr.io/rabbitmq/cluster-operator:latest",
		rules: []string{
			`{apiGroups: [rabbitmq.com], resources: [rabbitmqclusters], verbs: [create, get, list, update, watch]}`,
			`{apiGroups: [rabbitmq.com], resources: [rabbitmqclusters/finalizers], verbs: [update]}`,
			`{apiGroups: [rabbitmq.com], resources: [rabbitmqclusters/status], verbs: [get, patch, update]}`,
		},
	},
	"AWS Load Balancer Controller": {
		source: "github.com/kubernetes-sigs/aws-load-balancer-controller: config/{controller,rbac}, controllers/elbv2/targetgroupbinding_controller.go",
		group:  "elbv2.k8s.aws", version: "v1beta1", plural: "targetgroupbindings", kind: "TargetGroupBinding", finalizer: "elbv2.k8s.aws/resources",
		workload: "Deployment", namespace: "kube-system", name: "aws-load-balancer-controller", labels: "app.kubernetes.io/name: aws-load-balancer-controller",
		account: "aws-load-balancer-controller", image: "public.ecr.aws/eks/aws-load-balancer-controller:v3.5.0",
		rules: []string{
			`{apiGroups: [elbv2.k8s.aws], resources: [targetgroupbindings], verbs: [create, delete, get, list, patch, update, watch]}`,
			`{apiGroups: [elbv2.k8s.aws], resources: [targetgroupbindings/status], verbs: [patch, update]}`,
		},
	},
	"Strimzi topic operator": { // part of each Kafka cluster, here my-cluster, and rooted in its namespace
		source: "github.com/strimzi/strimzi-kafka-operator: install/cluster-operator/031-ClusterRole-strimzi-entity-operator.yaml, cluster-operator/.../model/EntityOperator.java, topic-operator/.../KubernetesHandler.java",
		group:  "kafka.strimzi.io", version: "v1", plural: "kafkatopics", kind: "KafkaTopic", finalizer: "strimzi.io/topic-operator",
		workload: "Deployment", namespace: "a", name: "my-cluster-entity-operator", labels: "strimzi.io/name: my-cluster-entity-operator",
		account: "my-cluster-entity-operator", image: "quay.io/strimzi/operator:1.2.0", inNamespace: true,
		rules: []string{
			`{apiGroups: [kafka.strimzi.io], resources: [kafkatopics], verbs: [get, list, watch, create, patch, update, delete]}`,
			`{apiGroups: [kafka.strimzi.io], resources: [kafkatopics/status, kafkausers/status], verbs: [get, patch, update]}`,
			`{apiGroups: [kafka.strimzi.io], resources: [kafkatopics/finalizers, kafkausers/finalizers], verbs: [update]}`,
		},
	},
	"Velero": {
		source: "github.com/vmware-tanzu/velero: pkg/install/{deployment,resources}.go, pkg/controller/restore_controller.go",
		group:  "velero.io", version: "v1", plural: "restores", kind: "Restore", finalizer: "restores.velero.io/external-resources-finalizer",
		workload: "Deployment", namespace: "velero", name: "velero", labels: "component: velero, deploy: velero",
		account: "velero", image: "velero/velero:latest",
		unproven: []outcome{{Absent, "may"}, {Absent, "may"}},                    // who may do everything is nobody's controller
		rules:    []string{`{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}`}, // cluster-admin
	},
	"KubeVirt": {
		source: "github.com/kubevirt/kubevirt: manifests/release/kubevirt-operator.yaml.in, manifests/generated/rbac-operator.authorization.k8s.yaml.in, pkg/virt-operator/util/client.go",
		group:  "kubevirt.io", version: "v1", plural: "kubevirts", kind: "KubeVirt", finalizer: "kubevirt.io/foregroundDeleteKubeVirt",
		workload: "Deployment", namespace: "kubevirt", name: "virt-operator", labels: "kubevirt.io: virt-operator",
		account: "kubevirt-operator", image: "quay.io/kubevirt/virt-operator:latest",
		unproven: []outcome{{Unknown, "may"}, {Absent, "may"}}, // it may update no status
		rules:    []string{`{apiGroups: [kubevirt.io], resources: [kubevirts], verbs: [get, list, watch, patch, update]}`},
	},
}

// left returns what remains of an operator that was deleted first: its definition, and an object in
// namespace "a" whose deletion comes second.
func (s shape) left() string {
	scope, namespace := "Namespaced", ", namespace: a"
	if s.clusterScoped {
		scope, namespace = "Cluster", ""
	}
	return fmt.Sprintf(`
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[3]s.%[1]s}, spec: {group: %[1]s, scope: %[5]s, names: {kind: %[4]s, plural: %[3]s}, versions: [{name: %[2]s, served: true, storage: true}]}}
---
{apiVersion: %[1]s/%[2]s, kind: %[4]s, metadata: {name: it%[6]s, finalizers: [%[7]s]}}
`, s.group, s.version, s.plural, s.kind, scope, namespace, s.finalizer)
}

// installed returns the operator with so many replicas, all of them ready.
func (s shape) installed(pods int) string {
	role, kind, labels, aggregation := "Cluster", "", "", ""
	if s.inNamespace {
		role, kind = "", fmt.Sprintf(", namespace: %s", s.namespace)
	}
	if s.aggregated {
		labels = ", labels: {aggregate: op}"
		aggregation = fmt.Sprintf("\n---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: whole}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {aggregate: op}}]}, rules: [%s]}", strings.Join(s.rules, ", "))
	}
	bound := "op"
	if s.aggregated {
		bound = "whole"
	}
	spec := fmt.Sprintf("serviceAccountName: %s, containers: [{name: c, image: %q}]", s.account, s.image)
	size, status := fmt.Sprintf("replicas: %d, ", pods), fmt.Sprintf("{readyReplicas: %d}", pods)
	if s.workload == "DaemonSet" {
		size, status = "", fmt.Sprintf("{desiredNumberScheduled: %d, numberReady: %d}", pods, pods)
	}
	text := fmt.Sprintf(`
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: %[1]s, namespace: %[2]s}}
---
{apiVersion: apps/v1, kind: %[3]s, metadata: {name: %[4]s, namespace: %[2]s, labels: {%[5]s}}, spec: {%[6]sselector: {matchLabels: {%[5]s}}, template: {metadata: {labels: {%[5]s}}, spec: {%[7]s}}}, status: %[8]s}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: %[9]sRole, metadata: {name: op%[10]s%[11]s}, rules: [%[12]s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: %[9]sRoleBinding, metadata: {name: op%[10]s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[9]sRole, name: %[13]s}, subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[2]s}]}
`, s.account, s.namespace, s.workload, s.name, s.labels, size, spec, status, role, kind, labels, strings.Join(s.rules, ", "), bound) + aggregation
	for n := range pods {
		text += fmt.Sprintf(`
---
{apiVersion: v1, kind: Pod, metadata: {name: %s-%d, namespace: %s, labels: {%s}}, spec: {nodeName: n1, %s}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
`, s.name, n, s.namespace, s.labels, spec)
	}
	return text
}

// TestPublishedShapes judges operators by their published manifests: at work, scaled to zero, and
// deleted before their objects, with the catalog and with an empty one.
func TestPublishedShapes(t *testing.T) {
	for name, s := range shapes {
		strangers := []outcome{{Alive, "will"}, {Down, "will"}}
		if s.unproven != nil {
			strangers = s.unproven
		}
		for state, tc := range map[string]struct {
			cluster             string
			catalogued, foreign outcome
		}{
			"at work":           {s.left() + s.installed(1), outcome{Alive, "will"}, strangers[0]},
			"scaled to nothing": {s.left() + s.installed(0), outcome{Down, "will"}, strangers[1]},
			"removed":           {s.left(), outcome{Absent, "will"}, outcome{Absent, "may"}},
		} {
			for who, c := range map[string]struct {
				catalog *catalog.Catalog
				want    outcome
			}{"known": {nil, tc.catalogued}, "stranger": {&catalog.Catalog{}, tc.foreign}} {
				t.Run(name+"/"+state+"/"+who, func(t *testing.T) {
					list := objects(t, tc.cluster)
					w, err := FromObjects(Options{Now: func() time.Time { return time.Unix(0, 0) }, Catalog: c.catalog}, list)
					if err != nil {
						t.Fatal(err)
					}
					got, _ := w.Ownership(list[1], schema.GroupResource{Group: s.group, Resource: s.plural}, nil)[s.finalizer].(map[string]any)
					if diff := cmp.Diff(c.want, outcome{fmt.Sprint(got["state"]), fmt.Sprint(got["certainty"])}, cmp.AllowUnexported(outcome{})); diff != "" {
						t.Errorf("%s\n-want +got\n%s%v", s.source, diff, got["evidence"])
					}
				})
			}
		}
	}
}
