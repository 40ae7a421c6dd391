package refusals_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/question"
)

const guards = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: demo}}
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingWebhookConfiguration
  metadata: {name: validates}
  webhooks: [&hook {name: x.io, failurePolicy: Fail, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {namespace: ops, name: gone}}, objectSelector: {matchLabels: {a: b}}, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}]
- apiVersion: admissionregistration.k8s.io/v1
  kind: MutatingWebhookConfiguration
  metadata: {name: mutates}
  webhooks: [*hook]
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicy
  metadata: {name: denies}
  spec: {matchConstraints: {resourceRules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}, validations: [{expression: "false"}]}
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: here}
  spec: {policyName: denies, validationActions: [Deny]}
`

func TestRefusals(t *testing.T) {
	var list struct{ Items []map[string]any }
	if err := yaml.Unmarshal([]byte(guards), &list); err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, item := range list.Items {
		objects = append(objects, &unstructured.Unstructured{Object: item})
	}
	world, err := cluster.FromObjects(cluster.Options{}, objects)
	if err != nil {
		t.Fatal(err)
	}
	request := func(group, resource, kind, name string, metadata map[string]any) *question.Request {
		metadata["name"] = name
		return question.Target{
			Kind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, Resource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource},
			Namespace: "demo", Name: name, User: authenticationv1.UserInfo{Username: "alice"}, Object: map[string]any{"metadata": metadata},
		}.Delete(nil)
	}
	labelled := map[string]any{"uid": "u", "labels": map[string]any{"a": "b"}}
	const validates, mutates, denies = "webhook/validating/validates/x.io", "webhook/mutating/mutates/x.io", "policy/validating/denies/here"
	for name, tc := range map[string]struct {
		reason   string
		request  *question.Request
		admitted bool
		want     []string
	}{
		"All":            {"Whatever sees it refuses it.", request("", "configmaps", "ConfigMap", "c", labelled), false, []string{mutates + " will", validates + " will", denies + " will"}},
		"Admitted":       {"What came before termguard has let it pass.", request("", "configmaps", "ConfigMap", "c", labelled), true, []string{validates + " will"}},
		"OtherLabels":    {"The object decides.", request("", "secrets", "Secret", "s", map[string]any{"uid": "u"}), false, nil},
		"UnknownObject":  {"What is not known whole may be selected.", request("", "secrets", "Secret", "s", map[string]any{}), false, []string{mutates + " may", validates + " may"}},
		"Exempt":         {"No webhook sees the configuration of webhooks.", request("admissionregistration.k8s.io", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "validates", labelled), false, nil},
		"Protected":      {"Kubernetes keeps it.", request("", "namespaces", "Namespace", "kube-system", map[string]any{"uid": "u"}), false, []string{"apiserver will"}},
		"ProtectedLater": {"It is refused before termguard reviews it.", request("", "namespaces", "Namespace", "kube-system", map[string]any{"uid": "u"}), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			tc.request.UnderWay = tc.admitted
			world.Ask(tc.request, func(m cluster.Moment) {
				for _, refusal := range m.Refusals() {
					r, _ := refusal.(map[string]any)
					got = append(got, r["by"].(string)+" "+r["certainty"].(string))
				}
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nMoment.Refusals(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
