package scenario

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/test/lab"
)

// refusals compares "refused" with the API server: such a deletion is refused at once, and one that differs in
// one fact is done.
func refusals(t *testing.T, g *Guarded) {
	const world = `
{apiVersion: v1, kind: Namespace, metadata: {name: refused}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: guarded, namespace: refused, labels: {guarded: "true"}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: free, namespace: refused, labels: {guarded: "false"}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: precious, namespace: refused, annotations: {precious: "yes"}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: common, namespace: refused, annotations: {precious: "no"}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: held, namespace: refused, labels: {guarded: "true"}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: refused.test}
webhooks:
- name: hook.refused.test
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: refused, name: nobody}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: refused}}
  objectSelector: {matchLabels: {guarded: "true"}}
  matchConditions: [{name: people, expression: '!request.userInfo.username.startsWith("system:serviceaccount:")'}]
  rules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps, persistentvolumeclaims]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refused.test}
spec:
  matchConstraints: {resourceRules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [secrets]}]}
  validations: [{expression: 'oldObject.metadata.?annotations["precious"].orValue("no") == "no"', message: precious things stay}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refused.test}
spec: {policyName: refused.test, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: refused}}}}
`
	ctx := t.Context()
	if err := g.Create(ctx, world); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ target, verdict, says string }{
		{"configmap/guarded", Refused, "webhook refused.test/hook.refused.test fails closed and Service refused/nobody is down"},
		{"configmap/free", Completes, ""},
		{"secret/precious", Refused, "validating admission policy refused.test denies"},
		{"secret/common", Completes, ""},
		{"pvc/held", Refused, "webhook refused.test/hook.refused.test fails closed"},
		{"namespace/kube-system", Refused, "the API server never deletes namespace kube-system"},
		{"namespace/default", Refused, "the API server never deletes namespace default"},
		{"namespace/kube-node-lease", Completes, ""},
	} {
		var deleted lab.Result
		refused := tc.verdict == Refused
		err := g.Await(ctx, 30*time.Second, "the API server to do with "+tc.target+" as it should", func(ctx context.Context) (_ bool, err error) {
			deleted, err = g.Kubectl(ctx, "delete", "-n", "refused", tc.target, "--dry-run=server")
			return deleted.Code != 0 == refused, err
		})
		if err != nil {
			t.Errorf("kubectl delete %s: %v: %s", tc.target, err, deleted.Stderr)
		}
		report, err := g.Check(ctx, "-n", "refused", tc.target)
		if err != nil {
			t.Fatal(err)
		}
		if string(report.Verdict) != tc.verdict || !strings.Contains(messages(report), tc.says) {
			t.Errorf("check %s: %s: %s; want %s: %s", tc.target, report.Verdict, messages(report), tc.verdict, tc.says)
		}
		if tc.target == "pvc/held" && !strings.Contains(deleted.Stderr, "termguard: will be refused: webhook refused.test/hook.refused.test") {
			t.Errorf("termguard does not warn of it beside the refusal: %s", deleted.Stderr)
		}
	}
	for _, kind := range []string{"validatingwebhookconfiguration", "validatingadmissionpolicybinding", "validatingadmissionpolicy"} {
		if r, err := g.Kubectl(ctx, "delete", kind, "refused.test"); err != nil || r.Code != 0 {
			t.Errorf("clean up: %v: %s", err, r.Stderr)
		}
	}
}

func messages(r Report) string {
	var all []string
	for _, f := range r.Findings {
		all = append(all, f.Message)
	}
	return strings.Join(all, "; ")
}
