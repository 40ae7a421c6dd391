package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/termguard/termguard/test/lab"
)

// A Composed world has random parts; its outcome is not written down.
type Composed struct {
	Name   string
	Parts  []Part
	Target int // an index into the targets that the parts offer
	// First, deleted before the check, is an index into the targets plus one, 0 for none.
	First int
	// Mortal dies once everything is up; pods that select "" run on the steady node.
	Mortal string
}

type Part struct {
	Kind    string
	ID      string // in the names of its objects
	Variant []int
}

func (p Part) String() string { return fmt.Sprint(p.ID, ":", p.Kind, p.Variant) }

func (c Composed) String() string {
	w := c.render()
	text := fmt.Sprintf("%v, delete %s", c.Parts, w.target)
	if w.first != "" {
		text += " after " + w.first
	}
	if c.Mortal != "" {
		text += ", with a node that dies"
	}
	return text
}

// How many variants each choice has.
var kinds = map[string][]int{
	"content": {3}, // how many ConfigMaps
	// state, where, instances, second finalizer, a ConfigMap for the garbage collector,
	// rights
	"operator":  {5, 2, 2, 2, 2, 3},
	"pod":       {3, 3, 2, 2},    // how many, grace period, finalizer, on the node that dies
	"claim":     {3},             // unused, by a running pod, by a pod without a node
	"webhook":   {3, 4, 3, 2, 4}, // backend, what it sees, where, failure policy, condition
	"tree":      {2},             // a Deployment, whose pods keep a finalizer
	"namespace": {2},             // a finalizer of the namespace: in metadata, in spec
	"balancer":  {1},             // a load balancer without a cloud
	"policy":    {2, 3, 2, 3},    // what it denies, where, action, whom
	"needy":     {2, 2},          // whether its Secret is there, instances
	"used":      {3},             // by nobody, from inside, from elsewhere
	"failing":   {2, 2},          // whether its owner reports failure, and fails; instances
	"converted": {3, 2, 2},       // state of the conversion webhook, where the object is, version that it is stored in
}

func Compose(r *rand.Rand, name string, size int) Composed {
	c := Composed{Name: name}
	names := make([]string, 0, len(kinds))
	for kind := range kinds {
		names = append(names, kind)
	}
	slices.Sort(names)
	for i := range 1 + r.IntN(size) {
		kind := names[r.IntN(len(names))]
		p := Part{Kind: kind, ID: fmt.Sprintf("p%d", i)}
		for _, n := range kinds[kind] {
			p.Variant = append(p.Variant, r.IntN(n))
		}
		once := kind == "namespace"
		if once && slices.ContainsFunc(c.Parts, func(q Part) bool { return q.Kind == kind }) {
			continue
		}
		c.Parts = append(c.Parts, p)
	}
	if r.IntN(2) == 0 { // half of all deletes are of the namespace
		c.Target = 1 + r.IntN(8)
	}
	if r.IntN(4) == 0 {
		c.First = 1 + r.IntN(8)
	}
	return c
}

type rendered struct {
	objects     []string
	controllers []Controller
	webhooks    []Webhook
	wait        []string
	later       []string
	do          []string
	targets     []string
	target      string
	first       string
	after       []string
	release     []string // after that, so that hanging objects do not keep the lab busy
	fails       bool     // an owner that runs reports that it fails
}

// Cluster-scoped names contain the world's, so that worlds stay apart.
func (c Composed) render() rendered {
	ns := c.Name
	w := rendered{targets: []string{"namespace " + ns}}
	add := func(format string, args ...any) { w.objects = append(w.objects, fmt.Sprintf(format, args...)) }
	var metaFinalizers, specFinalizers string
	for _, p := range c.Parts {
		v, id := p.Variant, p.ID
		switch p.Kind {
		case "content":
			for n := range v[0] + 1 {
				add(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s-%d, namespace: %s}}`, id, n, ns)
			}
			w.targets = append(w.targets, fmt.Sprintf("configmap %s-0 -n %s", id, ns))
		case "operator":
			w.operator(ns, id, v)
		case "pod":
			finalizer := []string{"", ", finalizers: [actions.summerwind.dev/runner-pod]"}[v[2]]
			node := "steady"
			if v[3] == 1 && c.Mortal != "" {
				node = c.Mortal
			}
			for n := range v[0] + 1 {
				add(`{apiVersion: v1, kind: Pod, metadata: {name: %s-%d, namespace: %s%s}, spec: {nodeName: %s, terminationGracePeriodSeconds: %d, containers: [{name: c, image: i}]}}`, id, n, ns, finalizer, node, v[1])
			}
			w.targets = append(w.targets, fmt.Sprintf("pod %s-0 -n %s", id, ns))
			w.wait = append(w.wait, fmt.Sprintf("pod/%s-0 -n %s --for=condition=Ready", id, ns))
		case "claim":
			add(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %[1]s, namespace: %[2]s}, spec: {accessModes: [ReadWriteOnce], storageClassName: %[2]s, resources: {requests: {storage: 1Gi}}}}`, id, ns)
			w.targets = append(w.targets, fmt.Sprintf("pvc %s -n %s", id, ns))
			if v[0] > 0 {
				node := []string{"", "", "nodeSelector: {no: node}, "}[v[0]]
				if v[0] == 1 {
					node = "nodeName: steady, "
				}
				add(`{apiVersion: v1, kind: Pod, metadata: {name: %[1]s-user, namespace: %[2]s}, spec: {%[3]sterminationGracePeriodSeconds: 1, containers: [{name: c, image: i}], volumes: [{name: d, persistentVolumeClaim: {claimName: %[1]s}}]}}`, id, ns, node)
			}
		case "webhook":
			w.webhook(ns, id, v)
		case "tree":
			finalizer := []string{"", ", finalizers: [actions.summerwind.dev/runner-pod]"}[v[0]]
			add(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, namespace: %[2]s}, spec: {selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}%[3]s}, spec: {nodeName: steady, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}}}}`, id, ns, finalizer)
			w.wait = append(w.wait, fmt.Sprintf("deployment/%s -n %s --for=condition=Available", id, ns))
			for _, cascade := range []string{"foreground", "background", "orphan"} {
				w.targets = append(w.targets, fmt.Sprintf("deployment %s -n %s --cascade=%s", id, ns, cascade))
			}
		case "namespace":
			if v[0] == 0 {
				metaFinalizers = ", finalizers: [finalizers.kubesphere.io/namespaces]"
			} else {
				specFinalizers = ", spec: {finalizers: [kubernetes, finalizers.kubesphere.io/namespaces]}"
			}
		case "balancer":
			add(`{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, finalizers: [service.kubernetes.io/load-balancer-cleanup]}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`, id, ns)
			w.targets = append(w.targets, fmt.Sprintf("service %s -n %s", id, ns))
		case "policy":
			w.policy(ns, id, v)
		case "needy":
			w.needy(ns, id, v)
		case "used":
			w.used(ns, id, v)
		case "failing":
			w.failing(ns, id, v)
		case "converted":
			w.converted(ns, id, v)
		}
	}
	w.objects = append([]string{fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: %s%s}%s}`, ns, metaFinalizers, specFinalizers)}, w.objects...)
	namespace := w.targets[0]
	if w.fails {
		w.targets = w.targets[1:] // the webhook reads no conditions of content (docs/limits.md)
	}
	w.target = w.targets[c.Target%len(w.targets)]
	// Nothing is left to check if a namespace is deleted first.
	if first := w.targets[c.First%len(w.targets)]; c.First > 0 && first != w.target && first != namespace {
		w.first = first
	}
	return w
}

// States of an operator.
const (
	alive = iota
	scaledToZero
	absent
	accountOnly
	declaredGone
)

// Rights of an operator to update its objects.
const (
	everywhere = iota
	here       // by a binding in their namespace
	nowhere
)

// The service account may also read Secrets.
func (w *rendered) mayDo(role, group, verbs, namespace, account string) {
	w.objects = append(w.objects,
		fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s}, rules: [{apiGroups: [%q], resources: ["*"], verbs: [%s]}, {apiGroups: [""], resources: [secrets], verbs: [get]}]}`, role, group, verbs),
		fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}, subjects: [{kind: ServiceAccount, name: %[2]s, namespace: %[3]s}]}`, role, account, namespace))
	w.after = append(w.after, "delete clusterrole,clusterrolebinding --ignore-not-found "+role)
}

// Operators of other worlds handle the same kinds.
func (w *rendered) catalogued(ns, id, deployment, image, group string, c Controller, plurals map[string]string) {
	home := fmt.Sprintf("%s-%s", ns, id)
	add := func(format string, args ...any) { w.objects = append(w.objects, fmt.Sprintf(format, args...)) }
	add(`{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, home)
	w.after = append(w.after, "delete namespace --ignore-not-found --wait=false "+home)
	for _, plural := range slices.Sorted(maps.Keys(plurals)) {
		add(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.%[2]s, annotations: {api-approved.kubernetes.io: unapproved}}, spec: {group: %[2]s, scope: Namespaced, names: {kind: %[3]s, plural: %[1]s}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`, plural, group, plurals[plural])
	}
	add(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: op, namespace: %s}}`, home)
	add(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, namespace: %[2]s}, spec: {selector: {matchLabels: {app: op}}, template: {metadata: {labels: {app: op}}, spec: {serviceAccountName: op, nodeName: steady, terminationGracePeriodSeconds: 1, containers: [{name: manager, image: %[3]q}]}}}}`, deployment, home, image)
	w.mayDo(home, group, `"*"`, home, "op")
	w.wait = append(w.wait, fmt.Sprintf("deployment/%s -n %s --for=condition=Available", deployment, home))
	c.Account = home + "/op"
	w.controllers = append(w.controllers, c)
}

// The operator must read a Secret beside its objects.
func (w *rendered) needy(ns, id string, v []int) {
	const group = "app.terraform.io"
	w.catalogued(ns, id, "hcp-terraform-operator", "hashicorp/hcp-terraform-operator:2.9.0", group,
		Controller{Finalizer: "project.app.terraform.io/finalizer", Resource: "projects.v1." + group, Reads: []string{"token"}}, map[string]string{"projects": "Project"})
	if v[0] == 0 {
		w.objects = append(w.objects, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: %s}}`, ns))
		w.targets = append(w.targets, "secret token -n "+ns)
	}
	for n := range v[1] + 1 {
		w.objects = append(w.objects, fmt.Sprintf(`{apiVersion: %s/v1, kind: Project, metadata: {name: %s-%d, namespace: %s, finalizers: [project.app.terraform.io/finalizer]}, spec: {token: {secretKeyRef: {name: token, key: token}}}}`, group, id, n, ns))
		object := fmt.Sprintf("projects.%s %s-%d -n %s", group, id, n, ns)
		w.targets = append(w.targets, object)
		w.release = append(w.release, "patch "+object+` --type=merge -p '{"metadata":{"finalizers":null}}'`)
	}
}

// The operator keeps its object while others refer to it.
func (w *rendered) used(ns, id string, v []int) {
	const group = "gateway.networking.k8s.io"
	w.catalogued(ns, id, "aws-gateway-controller-chart", "public.ecr.aws/aws-application-networking-k8s/aws-gateway-controller:v2", group,
		Controller{Finalizer: "gateway.k8s.aws/resources", Resource: "gateways.v1." + group, WaitsFor: []Reference{{Resource: "httproutes.v1." + group, Path: "spec.gateway"}}},
		map[string]string{"gateways": "Gateway", "httproutes": "HTTPRoute"})
	name := ns + "-" + id
	w.objects = append(w.objects, fmt.Sprintf(`{apiVersion: %s/v1, kind: Gateway, metadata: {name: %s, namespace: %s, finalizers: [gateway.k8s.aws/resources]}}`, group, name, ns))
	object := fmt.Sprintf("gateways.%s %s -n %s", group, name, ns)
	w.targets = append(w.targets, object)
	w.release = append(w.release, "patch "+object+` --type=merge -p '{"metadata":{"finalizers":null}}'`)
	if v[0] > 0 {
		home := []string{"", ns, name}[v[0]]
		w.objects = append(w.objects, fmt.Sprintf(`{apiVersion: %[1]s/v1, kind: HTTPRoute, metadata: {name: %[2]s, namespace: %[3]s}, spec: {gateway: %[4]s, parentRefs: [{name: %[4]s, namespace: %[5]s}]}}`, group, id, home, name, ns))
		w.targets = append(w.targets, fmt.Sprintf("httproutes.%s %s -n %s", group, id, home))
	}
}

// The owner fails without a Secret; an old status says whether it does.
func (w *rendered) failing(ns, id string, v []int) {
	group, ready, reason, c := fmt.Sprintf("%s.%s.test", id, ns), "True", "Synced", Controller{}
	if v[0] == 0 {
		ready, reason, c.Reads, w.fails = "False", "CredentialsNotFound", []string{id}, true
	}
	c.Finalizer, c.Resource = group+"/cleanup", "buckets.v1."+group
	w.catalogued(ns, id, "op", "example.test/op:v1", group, c, map[string]string{"buckets": "Bucket"})
	w.after = append(w.after, "delete crd --ignore-not-found --wait=false buckets."+group)
	for n := range v[1] + 1 {
		w.objects = append(w.objects, fmt.Sprintf(`{apiVersion: %[1]s/v1, kind: Bucket, metadata: {name: %[2]s-%[3]d, namespace: %[4]s, finalizers: [%[1]s/cleanup]}, status: {conditions: [{type: Ready, status: %[5]q, reason: %[6]s, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`, group, id, n, ns, ready, reason))
		object := fmt.Sprintf("buckets.%s %s-%d -n %s", group, id, n, ns)
		w.targets = append(w.targets, object)
		w.release = append(w.release, "patch "+object+` --type=merge -p '{"metadata":{"finalizers":null}}'`)
	}
}

func (w *rendered) operator(ns, id string, v []int) {
	state, inside, instances, second, collected := v[0], v[1] == 1, v[2]+1, v[3] == 1, v[4] == 1
	group := fmt.Sprintf("%s.%s.test", id, ns)
	home := ns
	if !inside {
		home = fmt.Sprintf("%s-%s", ns, id)
	}
	add := func(format string, args ...any) { w.objects = append(w.objects, fmt.Sprintf(format, args...)) }
	add(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.%[1]s}, spec: {group: %[1]s, scope: Namespaced, names: {kind: Thing, plural: things, singular: thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`, group)
	w.after = append(w.after, "delete crd --ignore-not-found --wait=false things."+group)
	if state != absent && state != declaredGone {
		if !inside {
			add(`{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, home)
			w.after = append(w.after, "delete namespace --ignore-not-found --wait=false "+home)
		}
		add(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: %s, namespace: %s}}`, id, home)
		all := map[string]string{group: `"*"`}
		if v[5] != everywhere {
			all = map[string]string{group + "-reads": "get, list, watch"}
		}
		if v[5] == here {
			add(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %s, namespace: %s}, rules: [{apiGroups: [%q], resources: ["*"], verbs: ["*"]}]}`, id, ns, group)
			add(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %[1]s, namespace: %[2]s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}, subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[3]s}]}`, id, ns, home)
			w.targets = append(w.targets, fmt.Sprintf("rolebinding %s -n %s", id, ns))
		}
		for role, verbs := range all {
			w.mayDo(role, group, verbs, home, id)
		}
	}
	if state == alive || state == scaledToZero {
		add(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, namespace: %[2]s}, spec: {replicas: %[3]d, selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: {serviceAccountName: %[1]s, nodeName: steady, terminationGracePeriodSeconds: 1, containers: [{name: manager, image: "corp/%[1]s:1"}]}}}}`, id, home, 1-state)
	}
	if state == alive {
		w.wait = append(w.wait, fmt.Sprintf("deployment/%s -n %s --for=condition=Available", id, home))
		w.controllers = append(w.controllers, Controller{Account: home + "/" + id, Finalizer: group + "/f", Resource: "things.v1." + group})
		w.targets = append(w.targets, fmt.Sprintf("deployment %s -n %s", id, home))
	}
	finalizers, annotations := group+"/f", ""
	if second {
		finalizers += ", kiali.io/finalizer"
	}
	if state == declaredGone {
		annotations = fmt.Sprintf(", annotations: {termguard.dev/finalizer-owner: Deployment/%s/gone}", home)
	}
	for n := range instances {
		add(`{apiVersion: %s/v1, kind: Thing, metadata: {name: it-%d, namespace: %s, finalizers: [%s]%s}}`, group, n, ns, finalizers, annotations)
		w.release = append(w.release, fmt.Sprintf(`patch things.%s it-%d -n %s --type=merge -p '{"metadata":{"finalizers":null}}'`, group, n, ns))
	}
	if collected {
		add(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s-collected, namespace: %s, finalizers: [foregroundDeletion]}}`, id, ns)
		w.targets = append(w.targets, fmt.Sprintf("configmap %s-collected -n %s", id, ns))
	}
	w.targets = append(w.targets, fmt.Sprintf("things.%s it-0 -n %s", group, ns), "crd things."+group)
}

// The certificate may not fit.
func (w *rendered) webhook(ns, id string, v []int) {
	up, sees, where, ignore := v[0] > 0, v[1], v[2], v[3] == 1
	name := ns + "-" + id
	add := func(format string, args ...any) { w.objects = append(w.objects, fmt.Sprintf(format, args...)) }
	ca := ""
	if up {
		w.objects = append(w.objects, service(name, true)...)
		w.webhooks = append(w.webhooks, Webhook{Service: "default/" + name})
		w.after = append(w.after, "delete service,endpointslice -n default --ignore-not-found "+name)
		ca = []string{"", `, caBundle: "$CA"`, `, caBundle: "$OTHERCA"`}[v[0]]
	}
	rule := []string{
		`operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]`,
		`operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [pods]`,
		`operations: [UPDATE], apiGroups: ["*"], apiVersions: ["*"], resources: [things]`,
		`operations: [UPDATE], apiGroups: [""], apiVersions: [v1], resources: [namespaces/finalize]`,
	}[sees]
	selector := []string{ns, ns, "elsewhere"}[where]
	condition := []string{
		"true",
		"!request.userInfo.username.startsWith('system:serviceaccount:kube-system:')",
		"object.metadata.name != 'x'",
		"object == null || object.metadata.name != 'x'",
	}[v[4]]
	policy := "Fail"
	if ignore {
		policy = "Ignore"
	}
	add(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: %[1]s}, webhooks: [{name: %[1]s.example.com, clientConfig: {service: {namespace: default, name: %[1]s}%[2]s}, rules: [{%[3]s}], failurePolicy: %[4]s, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[5]s}}, matchConditions: [{name: c, expression: %[6]q}], admissionReviewVersions: [v1], sideEffects: None, timeoutSeconds: 2}]}`, name, ca, rule, policy, selector, condition)
	w.after = append(w.after, "delete validatingwebhookconfiguration --ignore-not-found "+name)
}

func (w *rendered) policy(ns, id string, v []int) {
	name := ns + "-" + id
	rule := []string{
		`operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]`,
		`operations: [UPDATE], apiGroups: ["*"], apiVersions: ["*"], resources: [things]`,
	}[v[0]]
	selector := []string{ns, ns, "elsewhere"}[v[1]]
	action := []string{"Deny", "Audit"}[v[2]]
	demands := []string{"false", "request.userInfo.username.startsWith('system:serviceaccount:')", "!has(oldObject.metadata.labels)"}[v[3]]
	w.objects = append(w.objects,
		fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: %s}, spec: {failurePolicy: Fail, matchConstraints: {resourceRules: [{%s}]}, validations: [{expression: %q, message: not here}]}}`, name, rule, demands),
		fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: %[1]s}, spec: {policyName: %[1]s, validationActions: [%[2]s], matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[3]s}}}}}`, name, action, selector))
	w.after = append(w.after, "delete validatingadmissionpolicybinding,validatingadmissionpolicy --ignore-not-found "+name)
}

// States of a conversion webhook.
const (
	converts = iota
	// died fills the API server's cache first: objects that need conversion cannot be written after it.
	died
	// neverRan has no object: with one, it would block every namespace.
	neverRan
)

func (w *rendered) converted(ns, id string, v []int) {
	state, home, stored := v[0], []string{ns, "default"}[v[1]], []string{"v1", "v2"}[v[2]]
	name, group := ns+"-"+id, fmt.Sprintf("%s.%s.test", id, ns)
	object := fmt.Sprintf("things.%s it -n %s", group, home)
	w.objects = append(w.objects, append(service(name, state != neverRan), convertedDefinition(group, name, stored))...)
	w.after = append(w.after, unconvert(group), "delete crd --ignore-not-found --wait=false things."+group, "delete service,endpointslice -n default --ignore-not-found "+name)
	if state == neverRan {
		w.targets = append(w.targets, "crd things."+group)
		return
	}
	w.webhooks = append(w.webhooks, Webhook{Service: "default/" + name, Converts: true})
	w.later = append(w.later, fmt.Sprintf(`{apiVersion: %s/%s, kind: Thing, metadata: {name: it, namespace: %s}}`, group, stored, home))
	w.do = append(w.do, fmt.Sprintf("get things.v2.%s -A -o name => thing", group))
	w.targets = append(w.targets, object)
	switch state {
	case converts:
		w.targets = append(w.targets, "crd things."+group)
	case died:
		w.do = append(w.do, fmt.Sprintf(`patch endpointslice %s -n default --type=json -p '[{"op":"replace","path":"/endpoints/0/conditions/ready","value":false}]'`, name))
	}
}

func service(name string, ready bool) []string {
	return []string{
		fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: default}, spec: {ports: [{port: 443}]}}`, name),
		fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %[1]s, namespace: default, labels: {kubernetes.io/service-name: %[1]s}}, addressType: IPv4, ports: [{port: 443}], endpoints: [{addresses: [192.0.2.1], conditions: {ready: %[2]t}}]}`, name, ready),
	}
}

func convertedDefinition(group, service, stored string) string {
	return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.%[1]s}, spec: {group: %[1]s, scope: Namespaced, names: {kind: Thing, plural: things, singular: thing}, conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {caBundle: $CA, service: {namespace: default, name: %[2]s}}}}, versions: [{name: v1, served: true, storage: %[3]t, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}, {name: v2, served: true, storage: %[4]t, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`, group, service, stored == "v1", stored == "v2")
}

func unconvert(group string) string {
	return fmt.Sprintf(`patch crd things.%s --type=merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'`, group)
}

// A broken watch is retried with growing pauses.
const factsLag = 4 * time.Second

// A composed world waits for a few passes of the namespace controller.
const completesWithin = 75 * time.Second

// Explore judges only false alarms and misses. After the setup it calls ready, which may wait for others and
// change the surroundings of all.
func (g *Guarded) Explore(ctx context.Context, c Composed, ready func() error) (o Outcome) {
	w := c.render()
	s := Scenario{Name: c.Name, About: c.String(), Delete: w.target, Objects: strings.Join(w.objects, "\n---\n"), Live: Live{Controllers: w.controllers, Webhooks: w.webhooks}, Wait: w.wait, Later: strings.Join(w.later, "\n---\n"), Do: w.do}
	o.Scenario = s
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fail := func(err error) Outcome {
		o.Err = err
		return o
	}
	defer func() {
		for _, command := range append(append(w.after, w.release...), "delete namespace --ignore-not-found --wait=false "+c.Name) {
			if _, err := g.Kubectl(context.WithoutCancel(ctx), Words(command)...); err != nil {
				o.Err = errors.Join(o.Err, err)
			}
		}
	}()
	err := g.setUp(ctx, s)
	if err == nil && w.first != "" {
		// A refusal or a hang is one more state.
		_, err = g.Kubectl(ctx, append([]string{"delete", "--timeout=10s"}, strings.Fields(w.first)...)...)
	}
	if befallen := ready(); err == nil {
		err = befallen
	}
	if err != nil {
		return fail(fmt.Errorf("set up: %w", err))
	}
	// No webhook sees the second deletion of a Terminating object.
	r, err := g.Kubectl(ctx, append([]string{"get", "-o", "jsonpath={.metadata.deletionTimestamp}"}, s.target()...)...)
	if err != nil {
		return fail(err)
	}
	if r.Code != 0 || r.Stdout != "" {
		o.Predicted, o.Real = Unknown, "deleted before"
		return o
	}
	var last string
	var since time.Time
	same := 0
	err = g.Await(ctx, 45*time.Second, "the same answer four times, and for some seconds", func(ctx context.Context) (bool, error) {
		r, err := g.Kubectl(ctx, append([]string{"delete", "--dry-run=server"}, strings.Fields(s.Delete)...)...)
		if err != nil {
			return false, err
		}
		if same++; r.Stderr != last {
			last, since, same = r.Stderr, time.Now(), 1
		}
		return same >= 4 && time.Since(since) > factsLag, nil
	})
	if err != nil {
		return fail(err)
	}
	began := time.Now()
	r, err = g.Kubectl(ctx, append([]string{"delete", "--wait=false"}, strings.Fields(s.Delete)...)...)
	if err != nil {
		return fail(err)
	}
	o.Warnings = Warnings(r.Stderr)
	o.Predicted = Verdict(o.Warnings)
	if r.Code != 0 { // refused by a webhook or policy of this world, not hanging
		o.Predicted, o.Real = Unknown, "refused"
		return o
	}
	var gone bool
	if o.Predicted == Completes {
		gone, err = g.Gone(ctx, s, completesWithin)
	} else {
		gone, err = g.gone(ctx, s)
	}
	if err == nil && !gone && o.Predicted == Completes {
		gone, err = g.goneAtLast(ctx, s)
	}
	if err != nil {
		return fail(err)
	}
	o.Real, o.Took = Completes, time.Since(began)
	if !gone {
		o.Real = Hangs
	}
	switch {
	case o.FalseAlarm():
		o.Wrong = append(o.Wrong, "false alarm")
	case o.Miss():
		o.Wrong = append(o.Wrong, "miss")
	}
	return o
}

// goneAtLast is for a busy machine: the API server empties five definitions at once, a minute each
// (apiextensions-apiserver, pkg/controller/finalizer/crd_finalizer.go).
func (g *Guarded) goneAtLast(ctx context.Context, s Scenario) (bool, error) {
	empty := s.Name + "-empty"
	yardstick, remove := "{apiVersion: v1, kind: Namespace, metadata: {name: "+empty+"}}", "namespace "+empty
	switch kind, _, _ := strings.Cut(s.Delete, " "); kind {
	case "namespace":
	case "crd":
		yardstick, remove = convertedDefinition(empty+".test", "nobody", "v1"), "crd things."+empty+".test"
	default:
		yardstick = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: " + empty + ", namespace: default}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}"
		remove = "deployment " + empty + " --cascade=foreground"
	}
	if err := g.Create(ctx, yardstick); err != nil {
		return false, err
	}
	if r, err := g.Kubectl(ctx, Words("delete --timeout=5m "+remove)...); err != nil || r.Code != 0 {
		return false, fmt.Errorf("the lab is too busy to tell what hangs: kubectl delete %s: %w: %s", remove, err, r.Stderr)
	}
	return g.Gone(ctx, s, 20*time.Second)
}

type surroundings struct {
	mortal     *lab.Node
	name       string // of that node
	apiservice string
	// unconverted is a group whose object cannot be converted.
	unconverted string
}

// surround is in turn none, an aggregated API without a backend, a node that dies, and an object that cannot
// be converted.
func (g *Guarded) surround(ctx context.Context, n int) (s surroundings, err error) {
	switch n % 4 {
	case 1:
		s.apiservice = fmt.Sprintf("v1.b%d.example.com", n)
	case 2:
		s.name = fmt.Sprintf("mortal-%d", n)
		s.mortal, err = g.StartNode(ctx, s.name)
	case 3:
		name := fmt.Sprintf("b%d", n)
		s.unconverted = name + ".test"
		objects := append(service(name, false), convertedDefinition(s.unconverted, name, "v1"))
		err = g.Create(ctx, strings.Join(objects, "\n---\n"))
	}
	return s, err
}

func (g *Guarded) befall(ctx context.Context, s surroundings) error {
	if s.apiservice != "" {
		version, group, _ := strings.Cut(s.apiservice, ".")
		if err := g.Apply(ctx, fmt.Sprintf(`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: %s}, spec: {group: %s, version: %s, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: default, name: nobody}}}`, s.apiservice, group, version)); err != nil {
			return err
		}
		_, err := g.Kubectl(ctx, "wait", "--timeout=60s", "apiservice/"+s.apiservice, "--for=condition=Available=False")
		return err
	}
	if s.unconverted != "" {
		if err := g.Create(ctx, fmt.Sprintf(`{apiVersion: %s/v1, kind: Thing, metadata: {name: it, namespace: default}}`, s.unconverted)); err != nil {
			return err
		}
		// A changed definition gets a new cache.
		if _, err := g.Kubectl(ctx, "patch", "crd", "things."+s.unconverted, "--type=merge", "-p", `{"spec":{"conversion":{"webhook":{"conversionReviewVersions":["v1","v1beta1"]}}}}`); err != nil {
			return err
		}
		return g.Await(ctx, 60*time.Second, "lists to fail", func(ctx context.Context) (bool, error) {
			r, err := g.Kubectl(ctx, "get", "--raw", "/apis/"+s.unconverted+"/v2/namespaces/default/things")
			return r.Code != 0, err
		})
	}
	if s.mortal == nil {
		return nil
	}
	s.mortal.Kill()
	return s.mortal.AwaitReady(ctx, "Unknown")
}

func (g *Guarded) clear(ctx context.Context, s surroundings) error {
	var err error
	if s.apiservice != "" {
		_, err = g.Kubectl(ctx, "delete", "apiservice", s.apiservice)
	}
	if s.mortal != nil {
		_, err = g.Kubectl(ctx, "delete", "node", s.name)
	}
	if s.unconverted != "" {
		for _, command := range []string{unconvert(s.unconverted), "delete crd things." + s.unconverted} {
			if _, err := g.Kubectl(ctx, Words(command)...); err != nil {
				return err
			}
		}
	}
	return err
}

// Shrink removes parts while the world fails in the same way.
func (g *Guarded) Shrink(ctx context.Context, c Composed, wrong string) Composed {
	for again := true; again && len(c.Parts) > 1; {
		again = false
		for i := range c.Parts {
			smaller := Composed{Name: fmt.Sprintf("%s-%d", c.Name, i), Parts: slices.Delete(slices.Clone(c.Parts), i, i+1)}
			if first := c.render().first; first != "" {
				smaller.First = 1 + slices.Index(smaller.render().targets, strings.ReplaceAll(first, c.Name, smaller.Name))
			}
			// The target keeps its arguments if it is still there.
			target := strings.ReplaceAll(c.render().target, c.Name, smaller.Name)
			if smaller.Target = slices.Index(smaller.render().targets, target); smaller.Target < 0 {
				continue
			}
			if o := g.Explore(ctx, smaller, func() error { return nil }); o.Err == nil && slices.Contains(o.Wrong, wrong) {
				c, again = smaller, true
				break
			}
		}
	}
	return c
}
