package lint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// TestDefinitionsElsewhere takes the scope and the plural of a kind from its definition in any file
// that is read.
func TestDefinitionsElsewhere(t *testing.T) {
	const webhook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: teams}
webhooks:
- name: teams.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [DELETE], resources: [teams]}]
  clientConfig: {service: {namespace: demo, name: teams}}
---
apiVersion: v1
kind: Service
metadata: {name: teams, namespace: demo}
spec: {selector: {app: teams}, ports: [{port: 443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: teams, namespace: demo}
spec:
  selector: {matchLabels: {app: teams}}
  template:
    metadata: {labels: {app: teams}}
    spec: {serviceAccountName: teams, containers: [{name: a, image: registry.example.com/teams}]}
`
	define := func(scope, plural string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + plural + ".example.com}\nspec: {group: example.com, scope: " + scope + ", names: {plural: " + plural + ", kind: Team}, versions: [{name: v1, served: true, storage: true}]}\n"
	}
	const controls = `---
apiVersion: v1
kind: ServiceAccount
metadata: {name: teams, namespace: demo}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: teams}
rules: [{apiGroups: [example.com], resources: [teamses, teamses/status], verbs: [get, list, watch, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: teams}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: teams}
subjects: [{kind: ServiceAccount, name: teams, namespace: demo}]
---
apiVersion: example.com/v1
kind: Team
metadata: {name: a, namespace: demo, finalizers: [example.com/team]}
`
	operator := strings.Join(strings.Split(webhook, "---\n")[1:], "---\n") + controls
	for name, tc := range map[string]struct {
		reason string
		files  map[string]string
		want   []string
	}{
		"NotDefined":    {"The scope is unknown: the namespace of the webhook may have some.", map[string]string{"install/webhook.yaml": webhook}, []string{"self-blocking-webhook"}},
		"Elsewhere":     {"A file of another folder says that the kind is cluster-scoped.", map[string]string{"install/webhook.yaml": webhook, "api/generated/all.yaml": define("Cluster", "teams")}, nil},
		"Namespaced":    {"It is in namespaces.", map[string]string{"install/webhook.yaml": webhook, "api/generated/all.yaml": define("Namespaced", "teams")}, []string{"self-blocking-webhook"}},
		"Disagree":      {"Two files differ: nothing is known.", map[string]string{"install/webhook.yaml": webhook, "v1/all.yaml": define("Namespaced", "teams"), "v2/all.yaml": define("Cluster", "teams")}, []string{"self-blocking-webhook"}},
		"Broken":        {"What is no definition says nothing.", map[string]string{"install/webhook.yaml": webhook, "api/a.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\nspec: []\n"}, []string{"self-blocking-webhook"}},
		"Plural":        {"The definition has the name of the kind in RBAC rules.", map[string]string{"install/operator.yaml": operator, "api/all.yaml": define("Namespaced", "teamses")}, []string{"operator-in-same-set"}},
		"PluralUnknown": {"Without it, only a cluster tells who removes the finalizer.", map[string]string{"install/operator.yaml": operator}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range run(t, lint.Options{Input: sets.Options{Dir: write(t, tc.files), Paths: []string{"."}}}).Findings {
				got = append(got, f.Policy)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
