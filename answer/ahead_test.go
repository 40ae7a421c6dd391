package answer

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/policies"
)

// heldStore is a store with a finalizer of its operator, which runs.
const heldStore = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: external-secrets, namespace: external-secrets}
spec: {replicas: 1, selector: {matchLabels: {app: c}}, template: {metadata: {labels: {app: c}}, spec: {containers: [{name: c, image: "ghcr.io/external-secrets/external-secrets:v2.9.0"}]}}}
status: {replicas: 1, readyReplicas: 1}
---
apiVersion: external-secrets.io/v1
kind: ClusterSecretStore
metadata: {name: vault, finalizers: [secretstore.externalsecrets.io/finalizer]}
`

// TestForesee checks that the steps of a plan can finish: whatever blocks an object that a step
// deletes is dealt with before that step.
func TestForesee(t *testing.T) {
	push := func(metadata, policy string) string {
		return "---\napiVersion: external-secrets.io/v1alpha1\nkind: PushSecret\nmetadata: {name: push, namespace: demo" + metadata +
			"}\nspec: {deletionPolicy: " + policy + ", secretStoreRefs: [{kind: ClusterSecretStore, name: vault}]}\n"
	}
	const (
		vault    = "kubectl delete clustersecretstores.external-secrets.io/vault"
		push1    = "kubectl delete pushsecrets.external-secrets.io/push -n demo"
		operator = "kubectl delete deployments.apps/external-secrets -n external-secrets"
	)
	engine := newEngine(t)
	for name, tc := range map[string]struct {
		reason, cluster string
		want            []string
	}{
		"nothing blocks it":                             {"the store goes at once", heldStore, []string{vault, operator}},
		"waits for one that the plan does not name":     {"it has no finalizer, so the operator does not clean it up", heldStore + push("", "Delete"), []string{push1, vault, operator}},
		"waits for one that comes later":                {"the operator cleans it up as well, and the store waits for it", heldStore + push(", finalizers: [pushsecret.externalsecrets.io/finalizer]", "Delete"), []string{push1, vault, operator}},
		"near miss: it deletes nothing at the provider": {"the store does not wait for that", heldStore + push("", "None"), []string{vault, operator}},
		"waits for one that another object controls":    {"a person decides what to delete first", heldStore + push(", ownerReferences: [{apiVersion: x.io/v1, kind: App, name: a, uid: u, controller: true}]", "Delete"), []string{"For clustersecretstores.external-secrets.io/vault: delete the owners of the pushsecrets.external-secrets.io, named in the owner references of demo/push, or let those refer to another object", vault, operator}},
	} {
		t.Run(name, func(t *testing.T) {
			world := worldFrom(t, tc.cluster)
			s, err := FromFacts(world, Name{Object: policies.Object{Resource: "deployments.apps", Namespace: "external-secrets", Name: "external-secrets"}})
			if err != nil {
				t.Fatal(err)
			}
			report, err := ask(t.Context(), engine, world, s, nil)
			if err != nil {
				t.Fatal(err)
			}
			together, err := Ask(t.Context(), engine, world, Question{Targets: []Subject{s}, Together: true, Command: operator})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(report.all.Foresee(t.Context(), engine, world), together.Foresee(t.Context(), engine, world)); err != nil {
				t.Fatal(err)
			}
			for who, plan := range map[string][]Step{"alone": report.all.Plan, "in a set": together.Plan} {
				var got []string
				for _, step := range plan {
					if strings.HasPrefix(step.Command, "kubectl delete") {
						got = append(got, step.Command)
					} else {
						got = append(got, step.Do)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s\n%s: -want +got\n%s", tc.reason, who, diff)
				}
			}
		})
	}
}

// TestDefinitionWithItsOperator checks that a definition does not complete if the same command
// deletes the operator that its instances need.
func TestDefinitionWithItsOperator(t *testing.T) {
	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clustersecretstores.external-secrets.io}
spec:
  group: external-secrets.io
  scope: Cluster
  names: {kind: ClusterSecretStore, plural: clustersecretstores}
  versions: [{name: v1, served: true, storage: true}]
---`
	world, engine := worldFrom(t, definition+heldStore), newEngine(t)
	crd := Name{Object: policies.Object{Resource: "customresourcedefinitions.apiextensions.k8s.io", Name: "clustersecretstores.external-secrets.io"}}
	operator := Name{Object: policies.Object{Resource: "deployments.apps", Namespace: "external-secrets", Name: "external-secrets"}, Place: 1}
	for reason, tc := range map[string]struct {
		names []Name
		want  policies.Verdict
	}{
		"no controller is left to remove the finalizer of its instance": {[]Name{crd, operator}, policies.AtRisk},
		"near miss: the operator stays":                                 {[]Name{crd}, policies.Completes},
	} {
		subjects, _, err := AllFromFacts(world, tc.names)
		if err != nil {
			t.Fatal(err)
		}
		set, err := Ask(t.Context(), engine, world, Question{Targets: subjects, Together: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Items[0].Verdict; got != tc.want {
			t.Errorf("%s: got %s, want %s", reason, got, tc.want)
		}
	}
}
