package lint_test

import (
	"strings"
	"testing"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// provider is a Deployment with the name suffix of Cluster API's, beside a Cluster.
const provider = `apiVersion: apps/v1
kind: Deployment
metadata: {name: acme-capi-controller-manager, namespace: acme}
spec:
  selector: {matchLabels: {app: acme}}
  template:
    metadata: {labels: {app: acme}}
    spec: {serviceAccountName: acme, containers: [{name: manager, image: "ghcr.io/acme/machines:v1"}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: acme}
rules: [{apiGroups: [cluster.x-k8s.io], resources: [clusters], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: acme}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: acme}
subjects: [{kind: ServiceAccount, name: acme, namespace: acme}]
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: c, namespace: a}
`

// TestNamesake checks that the end of a name does not make a workload the owner of a finalizer if
// its image and its rights contradict that.
func TestNamesake(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason, from, to string
		findings         int
	}{
		"Another":  {"It runs another image, and may only read Clusters.", "", "", 0},
		"Image":    {"Its image is Cluster API's.", "acme/machines", "mirror/cluster-api-controller", 1},
		"Vendor":   {"So it is under the name of a vendor.", "acme/machines", "acme/mirrored-capi-controller-manager", 1},
		"Rights":   {"It may take the finalizer off.", "verbs: [get]", "verbs: [get, patch]", 1},
		"ItsName":  {"It is called as the catalog says.", "acme-capi-controller-manager", "capi-controller-manager", 1},
		"NoImages": {"Its image is unknown.", `[{name: manager, image: "ghcr.io/acme/machines:v1"}]`, "[]", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(provider, tc.from, tc.to, 1)
			if r := run(t, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(text)}}); len(r.Findings) != tc.findings {
				t.Errorf("%s: got %v, want %d findings", tc.reason, lines(r), tc.findings)
			}
		})
	}
}

// TestKin checks that a finalizer without a catalog entry belongs to the project of its domain if
// that runs somewhere in the same repository.
func TestKin(t *testing.T) {
	t.Parallel()
	const configMap, mention = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {a: kiali-operator}\n"
	for name, tc := range map[string]struct {
		reason, object, finalizer, operator string
		findings                            int
	}{
		"Project":  {"Its operator lies two folders away.", configMap, "kiali.io/other", kialiOperator, 0},
		"Alone":    {"The project is not in the repository.", configMap, "kiali.io/other", "", 1},
		"Another":  {"Another operator is.", configMap, "kiali.io/other", strings.ReplaceAll(kialiOperator, "kiali-operator", "other-operator"), 1},
		"Mention":  {"A text names the image, and no workload runs it.", configMap, "kiali.io/other", mention, 1},
		"Stranger": {"The domain is no project's.", configMap, "example.com/other", kialiOperator, 1},
		"Misspelt": {"It is nearly one that the catalog knows on the kind.", kiali, "kiali.io/finalizers", kialiOperator, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := strings.Replace(tc.object, "}", ", finalizers: ["+tc.finalizer+"]}", 1)
			dir := write(t, map[string]string{"apps/a.yaml": object, "infra/kiali/base/o.yaml": tc.operator})
			if r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}}}); len(r.Findings) != tc.findings {
				t.Errorf("%s: got %v, want %d findings", tc.reason, lines(r), tc.findings)
			}
		})
	}
}

// TestScaledToZero checks that an operator that is scaled to zero in one folder and runs in another
// is no finding: only a cluster shows which of them is applied there.
func TestScaledToZero(t *testing.T) {
	t.Parallel()
	down := strings.Replace(kialiOperator, "spec:\n", "spec:\n  replicas: 0\n", 1)
	for name, tc := range map[string]struct {
		reason   string
		files    map[string]string
		findings int
	}{
		"Alone":      {"Nothing runs it.", map[string]string{"apps/o.yaml": down + kiali}, 1},
		"Elsewhere":  {"Another folder runs it.", map[string]string{"apps/o.yaml": down + kiali, "infra/o.yaml": kialiOperator}, 0},
		"Vendor":     {"That runs it by another name.", map[string]string{"apps/o.yaml": down + kiali, "infra/o.yaml": strings.ReplaceAll(kialiOperator, "name: kiali-operator", "name: acme")}, 0},
		"Mirror":     {"That runs it under another image.", map[string]string{"apps/o.yaml": down + kiali, "infra/o.yaml": strings.ReplaceAll(kialiOperator, "/kiali-operator:", "/acme-kiali:")}, 0},
		"BothAtZero": {"That folder scales it to zero as well.", map[string]string{"apps/o.yaml": down + kiali, "infra/o.yaml": down}, 1},
		"Another":    {"That folder runs another operator.", map[string]string{"apps/o.yaml": down + kiali, "infra/o.yaml": strings.ReplaceAll(kialiOperator, "kiali-operator", "other-operator")}, 1},
		"Mention":    {"That folder only mentions it.", map[string]string{"apps/o.yaml": down + kiali, "infra/o.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {a: kiali-operator}\n"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, tc.files)
			if r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}}}); len(r.Findings) != tc.findings {
				t.Errorf("%s: got %v, want %d findings", tc.reason, lines(r), tc.findings)
			}
		})
	}
}
