package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster/refusals"
)

// TestDenied checks what policies deny in a namespace that holds one ConfigMap and one claim.
func TestDenied(t *testing.T) {
	const cluster = `
apiVersion: v1
kind: Namespace
metadata: {name: demo, labels: {team: a}, annotations: {frozen: "true"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: it, namespace: demo}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: demo, finalizers: [FINALIZER]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  failurePolicy: POLICY
  PARAMS
  matchConstraints:
    SELECT
    resourceRules: [{operations: [OP], apiGroups: [""], apiVersions: ["v1"], resources: [RES] NAMES}]
  VARS
  matchConditions: [COND]
  validations: [{expression: "EXPR"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [ACTION], matchResources: {BINDING} REF}
MORE
`
	defaults := []string{
		"FINALIZER", "kubernetes.io/pvc-protection", "POLICY", "Fail", "PARAMS", "", "SELECT", "", "OP", "DELETE", "RES", "configmaps", "NAMES", "",
		"VARS", "", "COND", "", "EXPR", "false", "ACTION", "Deny", "BINDING", "", "REF", "", "MORE", "",
	}
	const (
		ofConfigMaps = "paramKind: {apiVersion: v1, kind: ConfigMap}"
		byName       = ", paramRef: {name: param, namespace: ops, parameterNotFoundAction: Deny}"
		byLabels     = ", paramRef: {selector: {matchLabels: {for: p}}, namespace: ops, parameterNotFoundAction: Deny}"
	)
	theParameter := func(frozen string) string {
		return "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: param, namespace: ops, labels: {for: p}}, data: {frozen: '" + frozen + "'}}\n"
	}
	pod := func(label, phase string) string {
		return "---\n{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: demo, labels: {" + label + "}}, spec: {nodeName: one}, status: {phase: " + phase + "}}\n"
	}
	const pods, configmap, claim, finalize = "DELETE pods", "DELETE configmaps", "UPDATE persistentvolumeclaims", "UPDATE namespaces/finalize"
	tests := map[string]struct {
		reason string
		with   []string
		want   map[string]string
	}{
		"always denied":            {"the namespace controller is no exception", nil, map[string]string{configmap: "will"}},
		"nothing of it exists":     {"no Secret exists", []string{"RES", "secrets"}, nil},
		"audit only":               {"the binding does not deny", []string{"ACTION", "Audit"}, nil},
		"another version":          {"equivalent versions are converted", []string{"EXPR", "request.resource.version == 'v2'"}, map[string]string{configmap: "will"}},
		"caller spared":            {"the validation exempts the namespace controller", []string{"EXPR", "request.userInfo.username.startsWith('system:serviceaccount:kube-system:')"}, nil},
		"caller spared, condition": {"the same by a matchCondition", []string{"COND", "{name: a, expression: \"!('system:serviceaccounts:kube-system' in request.userInfo.groups)\"}"}, nil},
		"condition on the object":  {"the exempted objects are unknown", []string{"COND", "{name: a, expression: \"oldObject.metadata.name != 'x'\"}"}, map[string]string{configmap: "may"}},
		"reads the object":         {"so does the validation", []string{"EXPR", "!has(oldObject.metadata.labels)"}, map[string]string{configmap: "may"}},
		"reads it by a variable":   {"by way of two variables", []string{"VARS", "variables: [{name: a, expression: oldObject}, {name: b, expression: variables.a}]", "EXPR", "variables.b == null"}, map[string]string{configmap: "may"}},
		"operation decides":        {"the object does not matter for a DELETE", []string{"EXPR", "request.operation == 'DELETE' || object.spec.x"}, nil},
		"operation decides, deny":  {"nor does it here", []string{"EXPR", "request.operation != 'DELETE' && object.spec.x"}, map[string]string{configmap: "will"}},
		"has a field":              {"has() on the object is unknown", []string{"EXPR", "!has(oldObject.spec)"}, map[string]string{configmap: "may"}},
		"optional":                 {"an object that is not at hand is no object without the field", []string{"EXPR", "oldObject.?spec.x.orValue('') != ''"}, map[string]string{configmap: "may"}},
		"no reference":             {"the binding gives no parameters: they are null", []string{"PARAMS", ofConfigMaps, "EXPR", "params != null"}, map[string]string{configmap: "will"}},
		"found":                    {"a parameter that allows it", []string{"PARAMS", ofConfigMaps, "REF", byName, "EXPR", "params.data.frozen != 'yes'", "MORE", theParameter("no")}, nil},
		"found, denies":            {"its parameter denies", []string{"PARAMS", ofConfigMaps, "REF", byName, "EXPR", "params.data.frozen != 'yes'", "MORE", theParameter("yes")}, map[string]string{configmap: "will"}},
		"found, condition":         {"its parameter exempts the object", []string{"PARAMS", ofConfigMaps, "REF", byName, "COND", "{name: a, expression: \"params.data.frozen == 'yes'\"}", "MORE", theParameter("no")}, nil},
		"missing, denies":          {"a missing parameter denies", []string{"PARAMS", ofConfigMaps, "REF", byName, "EXPR", "true"}, map[string]string{configmap: "will"}},
		"missing, open":            {"unless the policy fails open", []string{"PARAMS", ofConfigMaps, "REF", byName, "POLICY", "Ignore"}, nil},
		"missing, allows":          {"a missing parameter allows", []string{"PARAMS", ofConfigMaps, "REF", strings.Replace(byName, "Deny", "Allow", 1)}, nil},
		"in another namespace":     {"the parameter of that name elsewhere is another", []string{"PARAMS", ofConfigMaps, "REF", byName, "EXPR", "true", "MORE", strings.Replace(theParameter("no"), "namespace: ops", "namespace: demo", 1)}, map[string]string{configmap: "will"}},
		"of each namespace":        {"the default is the namespace of the request", []string{"PARAMS", ofConfigMaps, "REF", strings.Replace(byName, ", namespace: ops", "", 1), "EXPR", "params.data.frozen != 'yes'", "MORE", strings.Replace(theParameter("yes"), "namespace: ops", "namespace: demo", 1)}, map[string]string{configmap: "will"}},
		"by labels, one denies":    {"every selected parameter is evaluated", []string{"PARAMS", ofConfigMaps, "REF", byLabels, "EXPR", "params.data.frozen != 'yes'", "MORE", theParameter("no") + strings.Replace(theParameter("yes"), "name: param", "name: other", 1)}, map[string]string{configmap: "will"}},
		"by labels, none":          {"none is selected", []string{"PARAMS", ofConfigMaps, "REF", byLabels, "EXPR", "params.data.frozen != 'yes'", "MORE", strings.Replace(theParameter("yes"), "for: p", "for: q", 1)}, map[string]string{configmap: "will"}},
		"of a kind not served":     {"the API server cannot read them", []string{"PARAMS", "paramKind: {apiVersion: y.io/v1, kind: Rules}", "REF", strings.Replace(byName, "Deny", "Allow", 1), "EXPR", "true"}, map[string]string{configmap: "will"}},
		"in a secret":              {"Secrets are not read for parameters", []string{"PARAMS", "paramKind: {apiVersion: v1, kind: Secret}", "REF", byName}, map[string]string{configmap: "may"}},
		"a variable reads them":    {"by way of a variable", []string{"PARAMS", ofConfigMaps, "REF", byName, "VARS", "variables: [{name: a, expression: params.data.frozen}]", "EXPR", "variables.a != 'yes'", "MORE", theParameter("yes")}, map[string]string{configmap: "will"}},
		"namespace":                {"its annotations are known", []string{"EXPR", "!('frozen' in namespaceObject.metadata.annotations)"}, map[string]string{configmap: "will"}},
		"namespace, another":       {"the namespace lacks the annotation", []string{"EXPR", "!('thawed' in namespaceObject.metadata.annotations)"}, nil},
		"fate of the namespace":    {"its status changes when it is deleted", []string{"EXPR", "namespaceObject.status.phase != 'Terminating'"}, map[string]string{configmap: "may"}},
		"error":                    {"an error of evaluation fails closed", []string{"EXPR", "int(request.namespace) > 0"}, map[string]string{configmap: "will"}},
		"error, open":              {"or open", []string{"EXPR", "int(request.namespace) > 0", "POLICY", "Ignore"}, nil},
		"does not compile":         {"an expression that a later API server rejects", []string{"EXPR", "nonsense("}, map[string]string{configmap: "will"}},
		"does not compile, open":   {"or open", []string{"EXPR", "nonsense(", "POLICY", "Ignore"}, nil},
		"labels of objects":        {"the objects with the label are unknown", []string{"SELECT", "objectSelector: {matchLabels: {a: b}}"}, map[string]string{configmap: "may"}},
		"labels of no pod":         {"no pod has the label", []string{"SELECT", "objectSelector: {matchLabels: {a: b}}", "RES", "pods", "MORE", pod("a: c", "Running")}, nil},
		"labels of a pod":          {"one of two has it", []string{"SELECT", "objectSelector: {matchLabels: {a: b}}", "RES", "pods", "MORE", pod("a: c", "Running") + strings.Replace(pod("a: b", "Running"), "web", "db", 1)}, map[string]string{pods: "will"}},
		"labels, not kept":         {"the labels of a pod that does not run yet are unknown", []string{"SELECT", "objectSelector: {matchLabels: {a: b}}", "RES", "pods", "MORE", pod("a: c", "Pending")}, map[string]string{pods: "may"}},
		"condition on labels":      {"the labels exempt the pod", []string{"COND", "{name: a, expression: \"'a' in oldObject.metadata.labels\"}", "RES", "pods", "MORE", pod("b: c", "Running")}, nil},
		"validation of labels":     {"the labels protect the pod", []string{"EXPR", "oldObject.metadata.labels[?'a'].orValue('') != 'b'", "RES", "pods", "MORE", pod("a: b", "Running")}, map[string]string{pods: "will"}},
		"validation of a spec":     {"only labels are known", []string{"EXPR", "oldObject.spec.hostNetwork == true", "RES", "pods", "MORE", pod("a: b", "Running")}, map[string]string{pods: "may"}},
		"pod by name":              {"the kubelet names the pod in its request", []string{"SELECT", "objectSelector: {matchLabels: {a: b}}", "RES", "pods", "NAMES", ", resourceNames: [web]", "MORE", pod("a: b", "Running")}, map[string]string{pods: "may"}},
		"labels of the namespace":  {"the namespace's label is known", []string{"SELECT", "namespaceSelector: {matchLabels: {team: a}}"}, map[string]string{configmap: "will"}},
		"other namespaces":         {"another team's", []string{"BINDING", "namespaceSelector: {matchLabels: {team: b}}"}, nil},
		"excluded":                 {"the binding takes it out again", []string{"BINDING", `excludeResourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: [configmaps]}]`}, nil},
		"excluded by name":         {"the object may be excluded", []string{"BINDING", `excludeResourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: [configmaps], resourceNames: [it]}]`}, map[string]string{configmap: "may"}},
		"finalizer":                {"the update that removes the claim's finalizer", []string{"OP", "UPDATE", "RES", "persistentvolumeclaims"}, map[string]string{claim: "will"}},
		"finalizer, owner spared":  {"its controller is known by name", []string{"OP", "UPDATE", "RES", "persistentvolumeclaims", "EXPR", "request.userInfo.username.endsWith(':pvc-protection-controller')"}, nil},
		"finalizer, owner unknown": {"its owner has no known name", []string{"FINALIZER", "x.io/f", "OP", "UPDATE", "RES", "persistentvolumeclaims", "EXPR", "request.userInfo.username.endsWith(':pvc-protection-controller')"}, map[string]string{claim: "may"}},
		"finalize":                 {"the last step of the namespace controller", []string{"OP", "UPDATE", "RES", "namespaces/finalize"}, map[string]string{finalize: "will"}},
		"finalize of another":      {"by name", []string{"OP", "UPDATE", "RES", "namespaces/finalize", "NAMES", ", resourceNames: [other]"}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer(append(append([]string{}, tc.with...), defaults...)...).Replace(cluster)
			w := world(t, text)
			var got map[string]string
			requests, _ := at(w, "denied", "demo", "validating/p/b").([]any)
			for _, r := range requests {
				r := r.(map[string]any)
				key := r["operation"].(string) + " " + r["resource"].(string)
				if r["subresource"] != "" {
					key += "/" + r["subresource"].(string)
				}
				if got == nil {
					got = map[string]string{}
				}
				got[key] = r["certainty"].(string)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\ndenied: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestDeniedFollowsLabels checks that what a policy denies changes with the labels of a pod.
func TestDeniedFollowsLabels(t *testing.T) {
	w := world(t, `
{apiVersion: v1, kind: Namespace, metadata: {name: demo}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: demo, labels: {app: web}}, spec: {nodeName: one}, status: {phase: Running}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {objectSelector: {matchLabels: {app: db}}, resourceRules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [Deny]}
`)
	for _, step := range []struct {
		app    string
		denied bool
	}{{"web", false}, {"db", true}, {"cache", false}} {
		apply(t, w, namespaced(corev1.SchemeGroupVersion, "pods"), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "demo", Labels: map[string]string{"app": step.app}},
			Spec:       corev1.PodSpec{NodeName: "one"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}, false)
		w.Settle()
		if got := at(w, "denied", "demo", "validating/p/b") != nil; got != step.denied {
			t.Errorf("app: %s: denied: %v, want %v", step.app, got, step.denied)
		}
	}
}

// answered answers the lookups of a world in a namespace with those objects among all.
func answered(w *World, namespace string, all []*unstructured.Unstructured) {
	w.refusals.AskForObjects(namespace)
	w.Settle()
	results := map[refusals.Lookup]refusals.LookupResult{}
	for _, lookup := range w.refusals.Lookups() {
		var result refusals.LookupResult
		for _, obj := range all {
			gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
			if gvr == lookup.Resource && obj.GetNamespace() == lookup.Namespace && (lookup.Name == "" || lookup.Name == obj.GetName()) {
				result.Objects = append(result.Objects, obj)
			}
		}
		results[lookup] = result
	}
	w.refusals.TakeIn(results)
	w.Settle()
}

// TestDeniedObjects checks what policies that read objects deny, after the objects were read: two
// ConfigMaps, a claim with a finalizer and one without.
func TestDeniedObjects(t *testing.T) {
	const cluster = `
{apiVersion: v1, kind: Namespace, metadata: {name: demo}, spec: {finalizers: [kubernetes]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: demo, labels: {keep: "yes"}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: two, namespace: demo}, data: {a: b}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: demo, finalizers: [kubernetes.io/pvc-protection]}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: free, namespace: demo}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: KINDAdmissionPolicy
metadata: {name: p}
spec:
  failurePolicy: POLICY
  matchConstraints: {resourceRules: [{operations: [OP], apiGroups: [""], apiVersions: [v1], resources: [RES]}], objectSelector: {SELECT}}
  matchConditions: [COND]
  DEMANDS
---
apiVersion: admissionregistration.k8s.io/v1
kind: KINDAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, ACTIONS}
`
	validating := []string{"KIND", "Validating", "DEMANDS", `validations: [{expression: "EXPR"}]`, "ACTIONS", "validationActions: [Deny]"}
	mutating := []string{"KIND", "Mutating", "DEMANDS", `reinvocationPolicy: Never
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels/x', value: EXPR}]"}}]`, "ACTIONS", ""}
	applying := []string{"KIND", "Mutating", "DEMANDS", `reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'x': EXPR}}}"}}]`, "ACTIONS", ""}
	defaults := []string{"POLICY", "Fail", "SELECT", "", "OP", "DELETE", "RES", "configmaps", "COND", ""}
	claims := []string{"OP", "UPDATE", "RES", "persistentvolumeclaims"}
	tests := map[string]struct {
		reason string
		kind   []string
		with   []string
		expr   string
		want   map[string][]string // names by request and certainty
	}{
		"one of two":              {"just that one stays", validating, nil, "!has(oldObject.metadata.labels)", map[string][]string{"will DELETE configmaps": {"one"}}},
		"both":                    {"both do", validating, nil, "oldObject.metadata.namespace != 'demo'", map[string][]string{"will DELETE configmaps": {"one", "two"}}},
		"none":                    {"it is about others", validating, nil, "oldObject.metadata.name != 'three'", nil},
		"content":                 {"whatever there is of it", validating, nil, "!has(oldObject.data)", map[string][]string{"will DELETE configmaps": {"two"}}},
		"selected by labels":      {"the selector does not match the other", validating, []string{"SELECT", "matchLabels: {keep: 'yes'}"}, "false", map[string][]string{"will DELETE configmaps": {"one"}}},
		"condition on the object": {"it exempts one", validating, []string{"COND", "{name: a, expression: \"oldObject.metadata.name != 'one'\"}"}, "false", map[string][]string{"will DELETE configmaps": {"two"}}},
		"name of the request":     {"requests of a collection have no name, so reading it fails", validating, nil, "request.name != 'one'", map[string][]string{"will DELETE configmaps": {"one", "two"}}},
		"finalizer":               {"one without is not updated", validating, claims, "has(oldObject.metadata.labels)", map[string][]string{"will UPDATE persistentvolumeclaims": {"data"}}},
		"result of an update":     {"the update removes the finalizers", validating, claims, "has(object.metadata.finalizers)", map[string][]string{"will UPDATE persistentvolumeclaims": {"data"}}},
		"exempts Terminating":     {"as good policies do", validating, claims, "has(oldObject.metadata.deletionTimestamp)", nil},
		"finalize":                {"the namespace is an object, too", validating, []string{"OP", "UPDATE", "RES", "namespaces/finalize"}, "has(object.spec.finalizers)", map[string][]string{"will UPDATE namespaces/finalize": {"demo"}}},
		"options":                 {"the options of the request are unknown", validating, nil, "request.options.x == 1", map[string][]string{"may DELETE configmaps": {"one", "two"}}},
		"mutates":                 {"a mutation can be made", mutating, claims, "object.metadata.name", nil},
		"mutates, fails":          {"evaluation fails: no such field", mutating, claims, "object.metadata.labels['team']", map[string][]string{"will UPDATE persistentvolumeclaims": {"data"}}},
		"mutates, fails open":     {"the failure is ignored", mutating, append([]string{"POLICY", "Ignore"}, claims...), "object.metadata.labels['team']", nil},
		"mutates, exempted":       {"Terminating objects are exempt", mutating, append([]string{"COND", "{name: a, expression: '!has(object.metadata.deletionTimestamp)'}"}, claims...), "object.metadata.labels['team']", nil},
		"mutates, deletes":        {"deletes are not mutated", mutating, nil, "oldObject.metadata.labels['team']", nil},
		"applies":                 {"the other kind of mutation", applying, claims, "object.metadata.name", nil},
		"applies, fails":          {"fails likewise", applying, claims, "object.metadata.labels['team']", map[string][]string{"will UPDATE persistentvolumeclaims": {"data"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer(append(slices.Clone(tc.with), defaults...)...).Replace(strings.NewReplacer(tc.kind...).Replace(cluster))
			text = strings.ReplaceAll(text, "EXPR", tc.expr)
			w := world(t, text)
			answered(w, "", objects(t, text))
			var got map[string][]string
			kind := strings.ToLower(tc.kind[1])
			requests, _ := at(w, "denied", "demo", kind+"/p/b").([]any)
			for _, r := range requests {
				r := r.(map[string]any)
				key := r["certainty"].(string) + " " + r["operation"].(string) + " " + r["resource"].(string)
				if r["subresource"] != "" {
					key += "/" + r["subresource"].(string)
				}
				var names []string
				for _, name := range r["names"].([]any) {
					names = append(names, name.(string))
				}
				if got == nil {
					got = map[string][]string{}
				}
				got[key] = names
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\ndenied: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
