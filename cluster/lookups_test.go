package cluster

import (
	"fmt"
	"testing"

	"github.com/termguard/termguard/internal/race"
)

// TestLookupsAreBounded holds that a policy about many namespaces does not make
// termguard ask without end.
func TestLookupsAreBounded(t *testing.T) {
	race.Skip(t)
	text := `
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {paramKind: {apiVersion: v1, kind: Secret}, matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}, validations: [{expression: "params.data.x == ''"}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p, validationActions: [Deny], paramRef: {name: x, parameterNotFoundAction: Deny}}}
`
	for i := range 600 {
		text += fmt.Sprintf("---\n{apiVersion: v1, kind: Namespace, metadata: {name: n%d}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: it, namespace: n%[1]d}}\n", i)
	}
	w := world(t, text)
	if n := len(w.refusals.Lookups()); n != 500 {
		t.Errorf("%d lookups, want 500", n)
	}
	for _, namespace := range []string{"n0", "n599"} {
		requests, _ := at(w, "denied", namespace, "validating/p/b").([]any)
		if len(requests) == 0 || requests[0].(map[string]any)["certainty"] != "may" {
			t.Errorf("what was not read is not said to be uncertain: %v", requests)
		}
	}
}
