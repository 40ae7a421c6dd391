package cluster

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/refusals"
	"github.com/termguard/termguard/internal/race"
)

// TestLookupsAreBounded checks that a policy about many namespaces causes a limited number of
// lookups.
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
			t.Errorf("unread facts are not uncertain: %v", requests)
		}
	}
}

// TestSettings checks that an operator that a ConfigMap confines to one namespace is not the owner
// in others, once the ConfigMap was read.
func TestSettings(t *testing.T) {
	const variable = "image: i, env: [{name: OP_WATCH_NAMESPACE, valueFrom: {configMapKeyRef: {name: op, key: watch}}}]"
	text := gadget + as("one", anAccount, controls, strings.ReplaceAll(running, "image: i", variable))
	w := world(t, text)
	state := func() any {
		w.Settle()
		verdict, _ := w.Ownership(objects(t, text)[1], schema.GroupResource{Group: "x.io", Resource: "gadgets"}, nil)["x.io/cleanup"].(map[string]any)
		return verdict["state"]
	}
	lookups := w.Lookups()
	if len(lookups) != 1 || state() != Alive {
		t.Fatalf("lookups %v, state %v", lookups, state())
	}
	confined := func(value string) map[refusals.Lookup]refusals.LookupResult {
		return map[refusals.Lookup]refusals.LookupResult{lookups[0]: {Objects: []*unstructured.Unstructured{{Object: map[string]any{"data": map[string]any{"watch": value}}}}}}
	}
	for value, want := range map[string]string{"prod": Unknown, "": Alive} {
		if w.TakeIn(confined(value)); state() != want {
			t.Errorf("confined to %q: %v, want %s", value, state(), want)
		}
	}
}
