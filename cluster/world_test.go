package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/internal/race"
)

// objects parses YAML documents separated by "---" lines.
func objects(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	var list []*unstructured.Unstructured
	for _, doc := range strings.Split(text, "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &obj.Object); err != nil {
			t.Fatalf("parse test object: %v", err)
		}
		if len(obj.Object) > 0 {
			list = append(list, obj)
		}
	}
	return list
}

func world(t testing.TB, text string) *World {
	t.Helper()
	w, err := FromObjects(Options{Now: func() time.Time { return time.Unix(0, 0) }}, objects(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// at returns the value at one path of the facts.
func at(w *World, path ...string) (value any) {
	w.View(func(doc map[string]any) { value = facts.Lookup(doc, path...) })
	return value
}

const kialiCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kialis.kiali.io}
spec:
  group: kiali.io
  scope: Namespaced
  names: {kind: Kiali, plural: kialis}
  versions: [{name: v1alpha1, served: true, storage: true}]
`

const kiali = `
apiVersion: kiali.io/v1alpha1
kind: Kiali
metadata: {name: kiali, namespace: istio-system, finalizers: [kiali.io/finalizer]}
`

// operator is a Deployment with one pod, under a service account that controls kialis.
const operator = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: ops}
spec: {replicas: REPLICAS, template: {spec: {serviceAccountName: op, containers: [{name: c, image: IMAGE}]}}}
status: {readyReplicas: READY}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: op, namespace: ops}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: op}
rules: [{apiGroups: [kiali.io], resources: [kialis, kialis/status], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: op}
roleRef: {kind: ClusterRole, name: op}
subjects: [{kind: ServiceAccount, name: op, namespace: ops}]
`

const operatorPod = `
---
apiVersion: v1
kind: Pod
metadata: {name: op-1, namespace: ops}
spec: {nodeName: n1, serviceAccountName: op, containers: [{name: c, image: IMAGE}]}
status: {phase: Running, conditions: [{type: Ready, status: "READYCOND"}], containerStatuses: [{name: c, restartCount: CRASHES, state: {STATE}}]}
`

func TestOwnership(t *testing.T) {
	fill := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	tests := map[string]struct {
		reason    string
		cluster   string
		state     string
		certainty string
		evidence  string
		idle      string // the workload to scale up
	}{
		"catalogued, not installed": {
			reason:  "the operator's workload was deleted and its CRD still exists",
			cluster: kialiCRD + "---" + kiali,
			state:   Absent, certainty: "will", evidence: "none of its workloads exists",
		},
		"catalogued, workload ready": {
			reason:  "the catalog names the Deployment and it has a ready pod",
			cluster: kialiCRD + "---" + kiali + "---" + fill(operator, "NAME", "kiali-operator", "REPLICAS", "1", "READY", "1", "IMAGE", "quay.io/kiali/kiali-operator:v2"),
			state:   Alive, certainty: "will", evidence: "Deployment ops/kiali-operator has 1 ready pod",
		},
		"catalogued, scaled to zero": {
			reason:  "known and switched off: it will not remove anything",
			cluster: kialiCRD + "---" + kiali + "---" + fill(operator, "NAME", "kiali-operator", "REPLICAS", "0", "READY", "0", "IMAGE", "quay.io/kiali/kiali-operator:v2"),
			state:   Down, certainty: "will", evidence: "is scaled to zero", idle: "kiali-operator",
		},
		"service account of a workload scaled to zero": {
			reason:  "its permissions exist, and its workload has no replicas",
			cluster: kialiCRD + "---" + kiali + "---" + fill(operator, "NAME", "mesh-console", "REPLICAS", "0", "READY", "0", "IMAGE", "corp/mesh:1"),
			state:   Down, certainty: "will", evidence: "has no pod", idle: "mesh-console",
		},
		"alive under a name that no catalog knows": {
			reason: "a running account that may update the resource and its status is its controller, whatever its name",
			cluster: kialiCRD + "---" + kiali + "---" + fill(operator, "NAME", "mesh-console", "REPLICAS", "1", "READY", "1", "IMAGE", "corp/mesh:1") +
				fill(operatorPod, "IMAGE", "corp/mesh:1", "READYCOND", "True", "CRASHES", "0", "STATE", "running: {}"),
			state: Alive, certainty: "will", evidence: "service account ops/op may update kialis.kiali.io and its status",
		},
		"workload without pods": {
			reason:  "as between two pods of a rollout",
			cluster: kialiCRD + "---" + kiali + "---" + fill(operator, "NAME", "mesh-console", "REPLICAS", "1", "READY", "0", "IMAGE", "corp/mesh:1"),
			state:   Down, certainty: "may", evidence: "has no pod at the moment",
		},
		"pods refused": {
			reason: "no pod of it can be created",
			cluster: kialiCRD + "---" + kiali + "---" + fill(strings.Replace(operator, "status: {", "status: {conditions: [{type: ReplicaFailure, status: 'True', message: exceeded quota}], ", 1),
				"NAME", "mesh-console", "REPLICAS", "1", "READY", "0", "IMAGE", "corp/mesh:1"),
			state: Down, certainty: "will", evidence: "has no pod: exceeded quota",
		},
		"service account alone": {
			reason:  "its permissions exist, and no workload uses it",
			cluster: kialiCRD + "---" + kiali + "---" + fill(operator[strings.Index(operator, "---")+3:], "IMAGE", "corp/mesh:1"),
			state:   Down, certainty: "will", evidence: "has no pod: no workload runs under it",
		},
		"crash loop": {
			reason: "a pod in CrashLoopBackOff is proof",
			cluster: kialiCRD + "---" + kiali + "---" + fill(operator, "NAME", "kiali-operator", "REPLICAS", "1", "READY", "0", "IMAGE", "kiali/kiali-operator") +
				fill(operatorPod, "IMAGE", "kiali/kiali-operator", "READYCOND", "False", "CRASHES", "3", "STATE", "waiting: {reason: CrashLoopBackOff}"),
			state: Down, certainty: "will", evidence: "CrashLoopBackOff",
		},
		"crashed once": {
			reason: "a controller that loses its lease exits, too",
			cluster: kialiCRD + "---" + kiali + "---" + fill(operator, "NAME", "kiali-operator", "REPLICAS", "1", "READY", "0", "IMAGE", "kiali/kiali-operator") +
				fill(operatorPod, "IMAGE", "kiali/kiali-operator", "READYCOND", "False", "CRASHES", "1", "STATE", "waiting: {reason: CrashLoopBackOff}"),
			state: Down, certainty: "may", evidence: "at the moment",
		},
		"not ready for a moment": {
			reason: "a pod that merely restarts is no proof",
			cluster: kialiCRD + "---" + kiali + "---" + fill(operator, "NAME", "kiali-operator", "REPLICAS", "1", "READY", "0", "IMAGE", "kiali/kiali-operator") +
				fill(operatorPod, "IMAGE", "kiali/kiali-operator", "READYCOND", "False", "CRASHES", "0", "STATE", "running: {}"),
			state: Down, certainty: "may", evidence: "at the moment",
		},
		"declared owner outweighs the catalog": {
			reason:  "the annotation names a workload that runs",
			cluster: kialiCRD + "---" + strings.Replace(kiali, "finalizers:", "annotations: {termguard.dev/finalizer-owner: Deployment/ops/mine}, finalizers:", 1) + "---" + fill(operator, "NAME", "mine", "REPLICAS", "1", "READY", "1", "IMAGE", "x"),
			state:   Alive, certainty: "will", evidence: "declared owner Deployment ops/mine has 1 ready pod",
		},
		"declared owner gone": {
			reason:  "the annotation names a workload that does not exist",
			cluster: kialiCRD + "---" + strings.Replace(kiali, "finalizers:", "annotations: {termguard.dev/finalizer-owner: Deployment/ops/mine}, finalizers:", 1),
			state:   Absent, certainty: "will", evidence: "does not exist",
		},
		"pods cannot be seen": {
			reason:  "an owner is not absent while facts are unseen",
			cluster: kialiCRD + "---" + kiali + "\n---\napiVersion: termguard.dev/v1\nkind: Cluster\nunseen: [{resource: pods, namespaced: true, reason: forbidden, message: denied}]",
			state:   Unknown, certainty: "may", evidence: "unseen: pods (forbidden)",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.cluster)
			buckets, _ := at(w, "finalized", "istio-system", "kiali.io/finalizer", "kialis.kiali.io").(map[string]any)
			if len(buckets) != 1 {
				t.Fatalf("%s\nwant one bucket, got %v", tc.reason, buckets)
			}
			for _, b := range buckets {
				got := b.(map[string]any)["ownership"].(map[string]any)
				if got["state"] != tc.state || got["certainty"] != tc.certainty || !strings.Contains(fmt.Sprint(got["evidence"]), tc.evidence) {
					t.Errorf("%s\ngot %v, want %s (%s): %s", tc.reason, got, tc.state, tc.certainty, tc.evidence)
				}
				if tc.idle != "" {
					want := []any{map[string]any{"resource": "deployments.apps", "namespace": "ops", "name": tc.idle}}
					if diff := cmp.Diff(want, got["idle"]); diff != "" {
						t.Errorf("%s\nidle: -want +got\n%s", tc.reason, diff)
					}
				} else if got["idle"] != nil {
					t.Errorf("%s\nidle: %v", tc.reason, got["idle"])
				}
				obj := objects(t, tc.cluster)[1]
				reviewed := w.Ownership(obj, schema.GroupResource{Group: "kiali.io", Resource: "kialis"}, nil)
				if diff := cmp.Diff(map[string]any{"kiali.io/finalizer": any(got)}, reviewed); diff != "" {
					t.Errorf("Ownership of the object itself differs from the inventory's: -inventory +asked\n%s", diff)
				}
			}
		})
	}
}

// TestIncremental checks the invariant that everything else relies on: in whatever order objects
// are created, changed and deleted, the facts are those of the objects that are left.
func TestIncremental(t *testing.T) {
	race.Skip(t)
	incremental(t, 50, randomObject)
}

// TestIncrementalNodes does so for the troubles of nodes: pods that leave, events, CSI drivers.
func TestIncrementalNodes(t *testing.T) {
	race.Skip(t)
	incremental(t, 100, randomLeavingPod)
}

// TestIncrementalOwners does so for dependents of owners: chains of objects that block each other's
// deletion, on nodes that come and go.
func TestIncrementalOwners(t *testing.T) {
	race.Skip(t)
	incremental(t, 150, randomDependent)
}

// TestIncrementalGrants does so for the accounts that may update widgets with finalizers.
func TestIncrementalGrants(t *testing.T) {
	race.Skip(t)
	incremental(t, 50, randomGrant)
}

func incremental(t *testing.T, seeds uint64, random func(*testing.T, *rand.Rand) *unstructured.Unstructured) {
	if testing.Short() {
		seeds /= 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			live := NewWorld(Options{Now: func() time.Time { return time.Unix(0, 0) }})
			live.SetServed(BuiltinGroups(), nil)
			present := map[Resource]map[string]runtime.Object{}
			live.Follow(everyKind())
			for _, res := range everyKind() {
				present[res] = map[string]runtime.Object{}
				live.Begin(res)
				live.End(res)
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			change := func() {
				obj := random(t, rng)
				res := Resources([]*unstructured.Unstructured{obj})[obj.GroupVersionKind()]
				if res.Resource == "configmaps" {
					res.Namespaced = true
				}
				typedObj, err := typedObject(obj)
				must(err)
				key := obj.GetNamespace() + "/" + obj.GetName()
				old, exists := present[res][key]
				switch {
				case exists && rng.IntN(2) == 0:
					must(live.Remove(res, old))
					delete(present[res], key)
				default:
					must(live.Apply(res, typedObj, !exists))
					present[res][key] = typedObj
				}
				if rng.IntN(20) == 0 { // a relisting after a lost watch, during which something vanished
					for gone := range present[res] {
						delete(present[res], gone)
						break
					}
					live.Begin(res)
					for _, o := range present[res] {
						must(live.Apply(res, o, true))
					}
					live.End(res)
				}
			}
			for range 200 {
				change()
				if rng.IntN(10) == 0 { // others come in between wherever they are let
					left := 5
					live.mu.Lock()
					live.settle(func() {
						if left > 0 && rng.IntN(4) == 0 {
							left--
							live.mu.Unlock()
							change()
							live.mu.Lock()
						}
					})
					live.mu.Unlock()
				}
			}
			live.Settle()
			fresh := NewWorld(Options{Now: func() time.Time { return time.Unix(0, 0) }})
			fresh.SetServed(BuiltinGroups(), nil)
			fresh.Follow(everyKind())
			for res, list := range present {
				fresh.Begin(res)
				for _, o := range list {
					must(fresh.Apply(res, o, true))
				}
				fresh.End(res)
			}
			fresh.Settle()
			if diff := cmp.Diff(document(t, fresh), document(t, live)); diff != "" {
				t.Errorf("facts depend on history: -fresh +incremental\n%s", diff)
			}
		})
	}
}

// document returns the document as JSON decodes it, without the members of thinned-out groups of
// names, which may differ.
func document(t *testing.T, w *World) (doc map[string]any) {
	t.Helper()
	if err := json.Unmarshal(written(t, w), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// written returns the facts as a snapshot has them.
func written(t *testing.T, w *World) (text []byte) {
	t.Helper()
	var err error
	w.View(func(doc map[string]any) { text, err = json.Marshal(doc) })
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func randomObject(t *testing.T, rng *rand.Rand) *unstructured.Unstructured {
	pick := func(options ...string) string { return options[rng.IntN(len(options))] }
	ns, name := pick("a", "b"), pick("x", "v", "z")
	owned := func(kinds ...string) string { // by none, one, or two of them
		refs := make([]string, rng.IntN(3))
		for i := range refs {
			refs[i] = fmt.Sprintf("{apiVersion: apps/v1, kind: %[1]s, name: x, uid: %[1]s-%[2]s-%[3]s, blockOwnerDeletion: %[4]s}", pick(kinds...), ns, pick("1", "2"), pick("true", "true", "false"))
		}
		return "[" + strings.Join(refs, ", ") + "]"
	}
	finalizers := pick("[]", "[]", "[one.io/f]", "[one.io/f, two.io/f]", "[kubernetes.io/pvc-protection]")
	ending := pick("", "", ", deletionTimestamp: '1970-01-01T00:00:01Z', deletionGracePeriodSeconds: 0", ", deletionTimestamp: '1970-01-01T00:00:02Z', deletionGracePeriodSeconds: 1")
	at := pick("1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z", "1970-01-01T00:00:03Z")
	var text string
	switch rng.IntN(19) {
	case 17:
		text = fmt.Sprintf("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: %s}, spec: {failurePolicy: %s, matchConstraints: {resourceRules: [{operations: [UPDATE], apiGroups: [%q], apiVersions: [v1], resources: [%s]}]}, matchConditions: [{name: c, expression: %q}], mutations: [{patchType: JSONPatch, jsonPatch: {expression: %q}}]}}",
			pick("x", "v"), pick("Fail", "Ignore"), "", pick("configmaps", "namespaces/finalize"), pick("true", "object.x == 1"), pick("[]", "[JSONPatch{op: 'remove', path: string(int('x'))}]"))
	case 18:
		text = fmt.Sprintf("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: %s}, spec: {policyName: %s}}", name, pick("x", "v"))
	case 0:
		text = fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s, finalizers: %s, ownerReferences: %s%s}}", name, ns, finalizers, owned("ReplicaSet", "Deployment"), ending)
	case 1:
		text = fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, labels: {app: %s}, finalizers: %s, ownerReferences: %s}, spec: {serviceAccountName: %s, nodeName: %s, containers: [{name: c, image: i}]}, status: {phase: %s, conditions: [{type: Ready, status: %q}]}}",
			name, ns, pick("x", "v"), finalizers, owned("ReplicaSet", "Job"), pick("op", "default"), pick("n1", "n2", `""`), pick("Running", "Pending", "Succeeded"), pick("True", "False"))
	case 2:
		text = fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s}, spec: {providerID: %q}, status: {conditions: [{type: Ready, status: %q}]}}", pick("n1", "n2"), pick("", "aws"), pick("True", "Unknown"))
	case 3:
		text = fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %s, namespace: %s}, rules: [{apiGroups: [%q], resources: [%s, %s], verbs: [%s]}]}", name, ns, "", pick("configmaps", "pods"), pick("configmaps/status", "pods"), pick("update", "get"))
	case 4:
		text = fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %s, namespace: %s}, roleRef: {kind: Role, name: %s}, subjects: [{kind: ServiceAccount, name: op, namespace: %s}]}", name, ns, pick("x", "v", "z"), pick("a", "b"))
	case 5:
		text = fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {name: op, namespace: %s}}", ns)
	case 6:
		text = fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, finalizers: %s}, spec: {finalizers: [kubernetes]}, status: {phase: %s, conditions: [{type: NamespaceDeletionContentFailure, status: %q, message: 'admission webhook \"w.x.io\" denied the request: no', lastTransitionTime: %s}]}}",
			ns, finalizers, pick("Active", "Terminating"), pick("True", "False"), at)
	case 7:
		text = fmt.Sprintf("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %s, namespace: %s, labels: {kubernetes.io/service-name: %s}}, addressType: IPv4, endpoints: [{addresses: [192.0.2.1], conditions: {ready: %s}}]}", name, ns, pick("x", "v"), pick("true", "false"))
	case 8:
		text = fmt.Sprintf("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: %s, managedFields: [{time: %s}]}, webhooks: [{name: w.x.io, clientConfig: {service: {namespace: %s, name: %s}}, sideEffects: None, admissionReviewVersions: [v1], rules: [{operations: [\"*\"], apiGroups: [\"*\"], apiVersions: [\"*\"], resources: [\"*\"]}], matchConditions: [{name: c, expression: %q}]}]}",
			name, at, ns, pick("x", "v"), pick("true", "object.metadata.name != 'x'", "oldObject.metadata.name != 'x'"))
	case 9:
		text = fmt.Sprintf("{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: x, namespace: %s, uid: ReplicaSet-%s-%s, finalizers: %s, ownerReferences: %s}}", ns, ns, pick("1", "2"), finalizers, owned("Deployment"))
	case 10:
		text = fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s}, spec: {selector: {app: %s}}}", pick("x", "v"), ns, pick("x", "v"))
	case 16:
		text = fmt.Sprintf("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: %s, namespace: %s}, spec: {unhealthyPodEvictionPolicy: %s, selector: {matchLabels: {%s}}}, status: {disruptionsAllowed: %s, currentHealthy: %s, desiredHealthy: 1, expectedPods: %s}}",
			pick("x", "v"), ns, pick("IfHealthyBudget", "AlwaysAllow"), pick("", "app: x", "app: v"), pick("0", "1"), pick("0", "1"), pick("1", "2"))
	case 15: // of a group that Kubernetes has: the groups that are served do not change
		text = fmt.Sprintf("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %s.apps}, spec: {group: apps, scope: Namespaced, names: {kind: Thing, plural: things}, versions: [{name: v1, served: %s, storage: true}, {name: v2, served: true}], conversion: {strategy: %s, webhook: {clientConfig: {service: {namespace: %s, name: %s}}}}}, status: {storedVersions: [%s]}}",
			pick("things", "replicasets"), pick("true", "false"), pick("Webhook", "Webhook", "None"), ns, pick("x", "v"), pick("v1", "v1, v2"))
	case 13:
		text = fmt.Sprintf("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: %s}, spec: {failurePolicy: %s, matchConstraints: {resourceRules: [{operations: [DELETE, UPDATE], apiGroups: [%q], apiVersions: [v1], resources: [%s]}]}, validations: [{expression: %q}]}}",
			pick("x", "v"), pick("Fail", "Ignore"), "", pick("configmaps", "pods", `"*"`), pick("false", "true", "object.x == 1"))
	case 14:
		text = fmt.Sprintf("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: %s}, spec: {policyName: %s, validationActions: [%s], matchResources: {namespaceSelector: {%s}}}}",
			name, pick("x", "v"), pick("Deny", "Deny", "Warn"), pick("", "matchLabels: {kubernetes.io/metadata.name: a}"))
	case 11:
		text = fmt.Sprintf("{apiVersion: apps/v1, kind: %s, metadata: {name: %s, namespace: %s}, spec: {template: {metadata: {labels: {app: %s}}, spec: {containers: [{name: c, image: i}]}}}}", pick("Deployment", "DaemonSet"), name, ns, pick("x", "v"))
	case 12:
		text = fmt.Sprintf("{apiVersion: v1, kind: Event, metadata: {name: %s, namespace: %s}, involvedObject: {kind: ReplicaSet, namespace: %[2]s, name: x}, reason: FailedCreate, message: '%[3]s', lastTimestamp: %[4]s, source: {component: replicaset-controller}}",
			name, ns, pick(`failed calling webhook "w.x.io": EOF`, `failed calling webhook "other.io": EOF`, "quota"), at)
	}
	return objects(t, text)[0]
}

// randomDependent returns a link of a chain Widget, Deployment, ReplicaSet, one each with one of
// two UIDs, a dependent of the ReplicaSet, or its node.
func randomDependent(t *testing.T, rng *rand.Rand) *unstructured.Unstructured {
	pick := func(options ...string) string { return options[rng.IntN(len(options))] }
	meta := func(name, kind, owner, finalizers string) string {
		return fmt.Sprintf("{name: %s, namespace: a, uid: %s-%s, finalizers: %s, ownerReferences: [{apiVersion: apps/v1, kind: %[5]s, name: x, uid: %[5]s-%[6]s, blockOwnerDeletion: %[7]s}]}",
			name, kind, pick("1", "1", "2"), finalizers, owner, pick("1", "1", "2"), pick("true", "true", "true", "false"))
	}
	finalizers := pick("[]", "[]", "[]", "[one.io/f]", "[one.io/f, two.io/f]", "[kubernetes.io/pvc-protection]")
	var text string
	switch rng.IntN(8) {
	case 0:
		text = fmt.Sprintf("{apiVersion: x.io/v1, kind: Widget, metadata: %s}", meta("x", "Widget", "Top", "[]"))
	case 1:
		text = fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: %s}", meta("x", "Deployment", "Widget", "[]"))
	case 2:
		text = fmt.Sprintf("{apiVersion: apps/v1, kind: ReplicaSet, metadata: %s}", meta("x", "ReplicaSet", "Deployment", pick("[]", "[]", "[]", "[one.io/f]")))
	case 3:
		text = fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: %s}", meta(pick("x", "z"), "ConfigMap", "ReplicaSet", finalizers))
	case 4, 5:
		text = fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: %s, spec: {nodeName: %s, containers: [{name: c, image: i}]}, status: {phase: %s}}",
			meta(pick("x", "z"), "Pod", "ReplicaSet", pick("[]", "[one.io/f]")), pick("n1", "n1", "n2", `""`), pick("Running", "Running", "Succeeded"))
	case 6, 7:
		text = fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {conditions: [{type: Ready, status: %q}]}}", pick("n1", "n2"), pick("True", "Unknown", "Unknown"))
	}
	return objects(t, text)[0]
}

// randomGrant returns a widget, a part of its operator, or a role or binding that may give it the
// right to update widgets. Widgets may own the operator, and one another.
func randomGrant(t *testing.T, rng *rand.Rand) *unstructured.Unstructured {
	pick := func(options ...string) string { return options[rng.IntN(len(options))] }
	ns, name := pick("a", "b"), pick("x", "z")
	rules := fmt.Sprintf("[{apiGroups: [x.io], resources: [%s], verbs: [%s]}]", pick("widgets, widgets/status", `"*"`, "widgets/status"), pick("update", "patch", "get"))
	subject := fmt.Sprintf("{kind: ServiceAccount, name: %s, namespace: ops}", pick("op", "op", "other"))
	owner := func(name string) string {
		return fmt.Sprintf("{apiVersion: x.io/v1, kind: Widget, name: %s, uid: %[1]s-%[2]s-%[3]s}", name, pick("a", "b"), pick("1", "2"))
	}
	var text string
	switch rng.IntN(11) {
	case 0:
		text = fmt.Sprintf("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.x.io, labels: {%s}}, spec: {group: x.io, scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true, storage: true}]}}", pick("", "x.io/widget-maker-name: x"))
	case 1:
		text = fmt.Sprintf("{apiVersion: x.io/v1, kind: Widget, metadata: {name: %s, namespace: %s, uid: %[1]s-%[2]s-%[3]s, finalizers: %[4]s, ownerReferences: [%[5]s]}}", name, ns, pick("1", "2"), pick("[x.io/f]", "[x.io/f]", "[]"), pick("", owner("x"), owner("z")))
	case 2:
		text = fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: op, namespace: ops, ownerReferences: [%s]}, spec: {replicas: %s, template: {spec: {serviceAccountName: op, containers: [{name: c, image: i}]}}}}", pick("", owner("x"), owner("z")), pick("1", "1", "0"))
	case 3:
		text = fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: op, namespace: ops}, spec: {serviceAccountName: op, containers: [{name: c, image: i}]}, status: {phase: Running, conditions: [{type: Ready, status: %q}]}}", pick("True", "True", "False"))
	case 4:
		text = fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %s, namespace: %s}, rules: %s}", name, ns, rules)
	case 5:
		text = fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %s, namespace: %s}, roleRef: {kind: %s, name: %s}, subjects: [%s]}", name, ns, pick("Role", "ClusterRole"), pick("x", "z", "admin"), subject)
	case 6:
		text = fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s}, rules: %s}", pick("x", "z", "admin"), rules)
	case 7, 8:
		text = fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %s}, roleRef: {kind: ClusterRole, name: %s}, subjects: [%s]}", name, pick("x", "z", "admin"), subject)
	case 9:
		text = pick("{apiVersion: x.io/v1, kind: WidgetMaker, metadata: {name: x}}", "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgetmakers.x.io}, spec: {group: x.io, scope: Cluster, names: {kind: WidgetMaker, plural: widgetmakers}, versions: [{name: v1, served: true, storage: true}]}}")
	case 10:
		text = fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: ops%s}}", pick("", ", deletionTimestamp: '1970-01-01T00:00:00Z', finalizers: [x.io/g]"))
	}
	return objects(t, text)[0]
}

// randomLeavingPod returns a pod that may leave its node, with volumes, hazards or the sidecar of a
// CSI driver; a volume, a node, a CSINode or an event.
func randomLeavingPod(t *testing.T, rng *rand.Rand) *unstructured.Unstructured {
	pick := func(options ...string) string { return options[rng.IntN(len(options))] }
	ns, name, node := pick("a", "b"), pick("x", "v", "z"), pick("n1", "n2")
	var text string
	switch rng.IntN(13) {
	case 0, 1, 2, 3:
		meta := pick("", ", deletionTimestamp: 1970-01-01T00:00:10Z, deletionGracePeriodSeconds: 30", ", deletionTimestamp: 1970-01-01T00:00:05Z, deletionGracePeriodSeconds: 0")
		volume := pick("persistentVolumeClaim: {claimName: c1}", "csi: {driver: d1}", "ephemeral: {}", "emptyDir: {}")
		claims := pick("", "", "resourceClaims: [{name: d, resourceClaimName: r1}], ")
		owner := pick("", ", ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: net, uid: u, controller: true}]")
		volume = pick(volume, volume, "hostPath: {path: /k/plugins_registry}", "hostPath: {path: /etc/cni/net.d}")
		container := pick("{name: c, image: i}", "{name: c, image: x/csi-node-driver-registrar:v2, args: [--kubelet-registration-path=/p/d1/csi.sock]}",
			"{name: c, image: i, args: [chattr +i /v/f], securityContext: {privileged: true}, volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]}")
		text = fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s%s%s}, spec: {nodeName: %s, %svolumes: [{name: v, %s}], containers: [%s]}, status: {phase: %s}}",
			name, ns, meta, owner, pick("n1", "n2", `""`), claims, volume, container, pick("Running", "Running", "Pending", "Failed"))
	case 4, 5:
		text = fmt.Sprintf("{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s}, spec: {csi: {driver: %s, volumeHandle: h}, claimRef: {namespace: %s, name: %s}}, status: {phase: %s}}",
			pick("pv1", "pv2"), pick("d1", "d2"), ns, pick("c1", name+"-v"), pick("Bound", "Bound", "Released"))
	case 6:
		text = fmt.Sprintf("{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: %s}, spec: {drivers: [%s]}}", node, pick("", "{name: d1, nodeID: i}", "{name: d2, nodeID: i}, {name: d1, nodeID: i}"))
	case 7:
		text = fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {conditions: [{type: DiskPressure, status: %q}], nodeInfo: {kubeletVersion: %s, containerRuntimeVersion: %q}}}", node, pick("True", "False"), pick("v1.36.3", "v1.8.4"), pick("docker://17.3.2", "containerd://2.2.0"))
	case 8:
		text = fmt.Sprintf("{apiVersion: v1, kind: Event, metadata: {name: %s, namespace: %s}, involvedObject: {kind: Pod, namespace: %[2]s, name: %s}, reason: %s, count: %s, lastTimestamp: 1970-01-01T00:00:0%sZ, source: {component: kubelet, host: %s}}",
			name, ns, pick("x", "v"), pick("FailedKillPod", "Killing", "Pulled"), pick("1", "9"), pick("1", "2"), node)
	case 9:
		text = fmt.Sprintf("{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: %s}, spec: {attachRequired: %s}}", pick("d1", "d2"), pick("true", "false"))
	case 10:
		text = fmt.Sprintf("{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: %s, finalizers: [%s], annotations: {csi.alpha.kubernetes.io/node-id: %q}}, spec: {attacher: %s, nodeName: %s, source: {persistentVolumeName: %s}}, status: {%s}}",
			name, pick("external-attacher/d1", "external-attacher/d1", "one.io/f"), pick("", "i"), pick("d1", "d2"), node, pick("pv1", "pv2"), pick("", "detachError: {message: locked}"))
	case 11:
		text = fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: r1, namespace: %s}, status: {allocation: {devices: {results: [{request: r, driver: %s, pool: p, device: d}]}, nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [%s]}]}]}}, reservedFor: [%s]}}",
			ns, pick("d1", "d2"), node, pick("{resource: pods, name: x, uid: u}", "{resource: pods, name: x, uid: u}, {resource: pods, name: v, uid: w}"))
	case 12:
		text = fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %s}, spec: {driver: %s, nodeName: %s, pool: {name: p, generation: 1, resourceSliceCount: 1}}}", name, pick("d1", "d2"), pick(node, `""`))
	}
	return objects(t, text)[0]
}

func TestNamesAreBounded(t *testing.T) {
	race.Skip(t)
	w := NewWorld(Options{})
	res := Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true}
	w.Begin(res)
	cm := func(i int) *unstructured.Unstructured {
		return objects(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: c%04d, namespace: big, finalizers: [x.io/f]}}", i))[0]
	}
	for i := range 5000 {
		if err := w.Apply(res, cm(i), true); err != nil {
			t.Fatal(err)
		}
	}
	w.End(res)
	want := func(count int, names ...any) {
		t.Helper()
		got, _ := at(w, "finalized", "big", "x.io/f", "configmaps", "").(map[string]any)
		if diff := cmp.Diff([]any{count, names}, []any{got["count"], got["names"]}); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	want(5000, "c0000", "c0001", "c0002", "c0003", "c0004")
	for i := range 5 {
		if err := w.Remove(res, cm(i)); err != nil {
			t.Fatal(err)
		}
	}
	want(4995, "c0005", "c0006", "c0007", "c0008", "c0009")
}

// A reader sees the changes since its last read, in the same second too, and the time.
func TestViewFollows(t *testing.T) {
	now := time.Unix(0, 0)
	w := NewWorld(Options{Now: func() time.Time { return now }})
	if was := at(w, "version", "git"); was != nil {
		t.Fatalf("version %v before it was set", was)
	}
	w.SetVersion("v1.36.3")
	if got := at(w, "version", "git"); got != "v1.36.3" {
		t.Errorf("version %v in the second in which it was set", got)
	}
	now = now.Add(time.Second)
	if got := at(w, "now"); got != "1970-01-01T00:00:01Z" {
		t.Errorf("now %v a second later", got)
	}
}

// TestReached checks that facts held by a reader, for which a change waits, cannot be read by
// others until the reader releases them.
func TestReached(t *testing.T) {
	w := NewWorld(Options{})
	within := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return w.Reached(ctx)
	}
	reads, letGo, changed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go w.View(func(map[string]any) { close(reads); <-letGo })
	<-reads
	if err := within(time.Minute); err != nil {
		t.Errorf("while a reader holds the facts: %v", err)
	}
	go func() { w.SetLeases(nil); close(changed) }()
	for w.TryAsk(nil, func(Moment) {}) { // until the change waits
		goruntime.Gosched()
	}
	if err := within(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while a change waits for a reader: %v, want %v", err, context.DeadlineExceeded)
	}
	close(letGo)
	<-changed
	if err := within(time.Minute); err != nil {
		t.Errorf("after that: %v", err)
	}
}
