package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/test/lab"
)

// operation is a column. "$R" is a unique name for each cell.
type operation struct {
	name, about string
	// reviews is over all webhooks of termguard.
	reviews int
	objects string
	// ready has arguments of kubectl wait, a call per line.
	ready   string
	prepare func(ctx context.Context, w *world, name string) error
	// act are the user's commands, with kubectl and helm.
	act string
	// gone are arguments of kubectl get for objects that must not exist.
	gone string
}

const pod = `{nodeName: steady, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}`

var operations = []operation{
	{
		name: "namespace", about: "`kubectl delete namespace`, with a ConfigMap in it: one review. The namespace controller deletes the content without a review.",
		reviews: 1,
		objects: `{apiVersion: v1, kind: ConfigMap, metadata: {name: it, namespace: $R}}`,
		act:     "kubectl delete namespace $R --wait=false",
		gone:    "namespace $R",
	},
	{
		name: "pod", about: "`kubectl delete pod` of a running pod: one review. The kubelet's own delete afterwards is not reviewed.",
		reviews: 1,
		objects: "{apiVersion: v1, kind: Pod, metadata: {name: it, namespace: $R}, spec: " + pod + "}",
		ready:   "pod/it --for=condition=Ready",
		act:     "kubectl delete pod it -n $R --timeout=90s",
		gone:    "pod it -n $R",
	},
	{
		name: "drain", about: "`kubectl drain` of a node with two pods, below a PodDisruptionBudget that allows it: a review for each eviction.",
		reviews: 2,
		objects: `{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: $R, labels: {of: $R}}, spec: {nodeName: drained, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: $R, labels: {of: $R}}, spec: {nodeName: drained, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: it, namespace: $R}, spec: {minAvailable: 0, selector: {matchLabels: {of: $R}}}}`,
		ready: "pod/a pod/b --for=condition=Ready\npdb/it --for=jsonpath={.status.currentHealthy}=2",
		act:   "kubectl drain drained --pod-selector=of=$R --force --timeout=90s",
		gone:  "pod -l of=$R -n $R",
	},
	{
		name: "finalizer", about: "delete of a custom resource whose controller removes a finalizer: one review of the delete, one of the controller's update.",
		reviews: 2,
		objects: `{apiVersion: harm.test/v1, kind: Thing, metadata: {name: it, namespace: $R, finalizers: [harm.test/cleanup]}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: cleaner, namespace: $R}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: $R}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: things}, subjects: [{kind: ServiceAccount, name: cleaner, namespace: $R}]}`,
		prepare: func(ctx context.Context, w *world, name string) error {
			return w.Controller(ctx, name, "cleaner", "harm.test/cleanup", schema.GroupVersionResource{Group: "harm.test", Version: "v1", Resource: "things"})
		},
		act:  "kubectl delete thing it -n $R --timeout=90s",
		gone: "thing it -n $R",
	},
	{
		name: "garbage", about: "`kubectl delete deployment --cascade=foreground`: one review. The garbage collector deletes the ReplicaSet and the pod without a review.",
		reviews: 1,
		objects: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: it, namespace: $R}, spec: {selector: {matchLabels: {app: it}}, template: {metadata: {labels: {app: it}}, spec: ` + pod + `}}}`,
		ready:   "deployment/it --for=condition=Available",
		act:     "kubectl delete deployment it -n $R --cascade=foreground --timeout=90s",
		gone:    "deployment,replicaset,pod -n $R",
	},
	{
		name: "helm", about: "`helm uninstall` of a release with a Deployment, a Service, a ServiceAccount and a ConfigMap: three reviews, because a ConfigMap without finalizers is not reviewed.",
		reviews: 3,
		prepare: func(ctx context.Context, w *world, name string) error {
			return w.helm(ctx, "install", "it", filepath.Join(lab.Root(), "test", "cmd", "harmlessness", "app"), "--namespace", name, "--wait", "--timeout", "90s")
		},
		act:  "helm uninstall it --namespace $R",
		gone: "deployment,replicaset,pod,service -n $R",
	},
	{
		name: "definition", about: "`kubectl delete crd` with one instance: one review. The API server deletes the objects itself.",
		reviews: 1,
		objects: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: parts.$R.test}, spec: {group: $R.test, scope: Namespaced, names: {kind: Part, plural: parts, singular: part}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}
---
{apiVersion: $R.test/v1, kind: Part, metadata: {name: it, namespace: $R}}`,
		act:  "kubectl delete crd parts.$R.test --wait=false",
		gone: "crd parts.$R.test",
	},
	{
		name: "node", about: "a node is tainted NoExecute, and the control plane deletes its pod without a review; and `kubectl delete node` of another: one review.",
		reviews: 1,
		objects: `{apiVersion: v1, kind: Node, metadata: {name: $R}}
---
{apiVersion: v1, kind: Pod, metadata: {name: it, namespace: $R}, spec: {nodeName: tainted, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}}`,
		ready: "pod/it --for=condition=Ready",
		act: `kubectl taint node tainted harm.test/out=:NoExecute
kubectl wait pod/it -n $R --for=delete --timeout=90s
kubectl taint node tainted harm.test/out-
kubectl delete node $R --wait=false`,
		gone: "node $R",
	},
}

const definitions = `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.harm.test}, spec: {group: harm.test, scope: Namespaced, names: {kind: Thing, plural: things, singular: thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: things}, rules: [{apiGroups: [harm.test], resources: [things], verbs: ["*"]}]}
---
{apiVersion: v1, kind: Namespace, metadata: {name: stuck, finalizers: [finalizers.kubesphere.io/namespaces]}}
`

func (w *world) set(ctx context.Context, o operation, name string) error {
	objects := fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n---\n%s\n", name, strings.ReplaceAll(o.objects, "$R", name))
	if err := w.AwaitApplied(ctx, settling, objects); err != nil {
		return fmt.Errorf("set up %s: %w", o.name, err)
	}
	for wait := range strings.Lines(o.ready) {
		if err := w.run(ctx, "kubectl wait -n "+name+" --timeout=90s "+strings.TrimSpace(wait)); err != nil {
			return err
		}
	}
	if o.prepare != nil {
		return o.prepare(ctx, w, name)
	}
	return nil
}

func (w *world) do(ctx context.Context, o operation, name string) error {
	for line := range strings.Lines(strings.ReplaceAll(o.act, "$R", name)) {
		line = strings.TrimSpace(line)
		if args, isHelm := strings.CutPrefix(line, "helm "); isHelm {
			if err := w.helm(ctx, strings.Fields(args)...); err != nil {
				return err
			}
		} else if err := w.run(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) over(ctx context.Context, o operation, name string) error {
	args := append([]string{"get", "--ignore-not-found", "-o", "name"}, strings.Fields(strings.ReplaceAll(o.gone, "$R", name))...)
	return w.Await(ctx, limit, "what "+o.name+" deletes to be gone", func(ctx context.Context) (bool, error) {
		r, err := w.Kubectl(ctx, args...)
		return r.Code == 0 && r.Stdout == "", err
	})
}

func (w *world) run(ctx context.Context, line string) error {
	r, err := w.Shell(ctx, line)
	return failed(line, r, err)
}

func (w *world) helm(ctx context.Context, args ...string) error {
	r, err := w.Helm(ctx, args...)
	return failed("helm "+strings.Join(args, " "), r, err)
}

func failed(what string, r lab.Result, err error) error {
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: %s", what, strings.TrimSpace(r.Stderr))
	}
	return err
}
