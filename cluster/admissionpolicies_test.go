package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDenied asks what policies deny in a namespace that holds one ConfigMap and
// one claim.
func TestDenied(t *testing.T) {
	const cluster = `
apiVersion: v1
kind: Namespace
metadata: {name: demo, labels: {team: a}}
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
spec: {policyName: p, validationActions: [ACTION], matchResources: {BINDING}}
`
	defaults := []string{
		"FINALIZER", "kubernetes.io/pvc-protection", "POLICY", "Fail", "PARAMS", "", "SELECT", "", "OP", "DELETE", "RES", "configmaps", "NAMES", "",
		"VARS", "", "COND", "", "EXPR", "false", "ACTION", "Deny", "BINDING", "",
	}
	const configmap, claim, finalize = "DELETE configmaps", "UPDATE persistentvolumeclaims", "UPDATE namespaces/finalize"
	tests := map[string]struct {
		reason string
		with   []string
		want   map[string]string
	}{
		"always denied":            {"the namespace controller is no exception", nil, map[string]string{configmap: "will"}},
		"nothing of it exists":     {"no secret is there to be deleted", []string{"RES", "secrets"}, nil},
		"audit only":               {"the binding does not deny", []string{"ACTION", "Audit"}, nil},
		"another version":          {"equivalent versions are converted", []string{"EXPR", "request.resource.version == 'v2'"}, map[string]string{configmap: "will"}},
		"caller spared":            {"the namespace controller is let through by the validation", []string{"EXPR", "request.userInfo.username.startsWith('system:serviceaccount:kube-system:')"}, nil},
		"caller spared, condition": {"the same by a matchCondition", []string{"COND", "{name: a, expression: \"!('system:serviceaccounts:kube-system' in request.userInfo.groups)\"}"}, nil},
		"condition on the object":  {"which objects it exempts is not known", []string{"COND", "{name: a, expression: \"oldObject.metadata.name != 'x'\"}"}, map[string]string{configmap: "may"}},
		"reads the object":         {"so does the validation", []string{"EXPR", "!has(oldObject.metadata.labels)"}, map[string]string{configmap: "may"}},
		"reads it by a variable":   {"by way of two variables", []string{"VARS", "variables: [{name: a, expression: oldObject}, {name: b, expression: variables.a}]", "EXPR", "variables.b == null"}, map[string]string{configmap: "may"}},
		"operation decides":        {"the object does not matter for a DELETE", []string{"EXPR", "request.operation == 'DELETE' || object.spec.x"}, nil},
		"operation decides, deny":  {"nor does it here", []string{"EXPR", "request.operation != 'DELETE' && object.spec.x"}, map[string]string{configmap: "will"}},
		"optional":                 {"an object that is not at hand is no object without the field", []string{"EXPR", "oldObject.?spec.x.orValue('') != ''"}, map[string]string{configmap: "may"}},
		"parameters":               {"they are not at hand", []string{"PARAMS", "paramKind: {apiVersion: v1, kind: ConfigMap}"}, map[string]string{configmap: "may"}},
		"error":                    {"an error of evaluation fails closed", []string{"EXPR", "int(request.namespace) > 0"}, map[string]string{configmap: "will"}},
		"error, open":              {"or open", []string{"EXPR", "int(request.namespace) > 0", "POLICY", "Ignore"}, nil},
		"does not compile":         {"an expression that the API server accepted once", []string{"EXPR", "nonsense("}, map[string]string{configmap: "will"}},
		"does not compile, open":   {"or open", []string{"EXPR", "nonsense(", "POLICY", "Ignore"}, nil},
		"labels of objects":        {"which carry it is not known", []string{"SELECT", "objectSelector: {matchLabels: {a: b}}"}, map[string]string{configmap: "may"}},
		"labels of the namespace":  {"that of the namespace is", []string{"SELECT", "namespaceSelector: {matchLabels: {team: a}}"}, map[string]string{configmap: "will"}},
		"other namespaces":         {"another team's", []string{"BINDING", "namespaceSelector: {matchLabels: {team: b}}"}, nil},
		"excluded":                 {"the binding takes it out again", []string{"BINDING", `excludeResourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: [configmaps]}]`}, nil},
		"excluded by name":         {"perhaps it does", []string{"BINDING", `excludeResourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: [configmaps], resourceNames: [it]}]`}, map[string]string{configmap: "may"}},
		"finalizer":                {"the update by which the claim's finalizer goes", []string{"OP", "UPDATE", "RES", "persistentvolumeclaims"}, map[string]string{claim: "will"}},
		"finalizer, owner spared":  {"its controller is known by name", []string{"OP", "UPDATE", "RES", "persistentvolumeclaims", "EXPR", "request.userInfo.username.endsWith(':pvc-protection-controller')"}, nil},
		"finalizer, owner unknown": {"who removes it is not known by name", []string{"FINALIZER", "x.io/f", "OP", "UPDATE", "RES", "persistentvolumeclaims", "EXPR", "request.userInfo.username.endsWith(':pvc-protection-controller')"}, map[string]string{claim: "may"}},
		"finalize":                 {"the last step of the namespace controller", []string{"OP", "UPDATE", "RES", "namespaces/finalize"}, map[string]string{finalize: "will"}},
		"finalize of another":      {"by name", []string{"OP", "UPDATE", "RES", "namespaces/finalize", "NAMES", ", resourceNames: [other]"}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer(append(append([]string{}, tc.with...), defaults...)...).Replace(cluster)
			w := world(t, text)
			var got map[string]string
			requests, _ := at(w, "denied", "demo", "p/b").([]any)
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
