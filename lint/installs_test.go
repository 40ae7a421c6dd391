package lint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

// TestInstalled checks that an operator whose manifests are elsewhere is deleted with the object that installs it.
func TestInstalled(t *testing.T) {
	t.Parallel()
	const (
		release   = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: mesh, namespace: ops}\nspec: {chart: {spec: {chart: kiali-operator, sourceRef: {kind: HelmRepository, name: kiali}}}}\n"
		app       = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: mesh, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}\nspec: {destination: {namespace: ops}, sources: [{chart: kiali-operator}]}\n"
		olm       = "apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\nmetadata: {name: mesh, namespace: ops}\nspec: {name: kiali-operator}\n"
		namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: ops}\n"
	)
	const kiali = "apiVersion: kiali.io/v1alpha1\nkind: Kiali\nmetadata: {name: kiali, namespace: web}\n"
	together := func(severity, by string) string {
		return severity + ": kubectl delete -f deletes kialis.kiali.io/kiali together with deployment ops/kiali-operator, which removes kiali.io/finalizer: " + by + " installs Deployment kiali-operator"
	}
	for name, tc := range map[string]struct {
		reason string
		files  map[string]string
		want   []string
	}{
		"HelmRelease":  {"Flux uninstalls the chart.", map[string]string{"a.yaml": release + "---\n" + kiali}, []string{together("medium", "HelmRelease mesh")}},
		"ChartRef":     {"The chart is an OCIRepository.", map[string]string{"a.yaml": strings.Replace(release, "chart: {spec: {chart: kiali-operator, sourceRef: {kind: HelmRepository, name: kiali}}}", "chartRef: {kind: OCIRepository, name: kiali-operator}", 1) + "---\n" + kiali}, []string{together("medium", "HelmRelease mesh")}},
		"Target":       {"The release is in another namespace than its HelmRelease.", map[string]string{"a.yaml": strings.NewReplacer("namespace: ops", "namespace: flux-system", "spec: {chart", "spec: {targetNamespace: ops, chart").Replace(release) + "---\n" + kiali}, []string{together("medium", "HelmRelease mesh")}},
		"Kustomized":   {"A kustomization lists both.", map[string]string{"kustomization.yaml": "resources: [a.yaml, b.yaml]\n", "a.yaml": release, "b.yaml": kiali}, []string{together("medium", "HelmRelease mesh")}},
		"Folder":       {"People may delete one of the files.", map[string]string{"a.yaml": release, "b.yaml": kiali}, []string{together("low", "HelmRelease mesh")}},
		"K3s":          {"K3s uninstalls the chart.", map[string]string{"a.yaml": "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: mesh, namespace: kube-system}\nspec: {chart: kiali/kiali-operator, targetNamespace: ops}\n---\n" + kiali}, []string{together("medium", "HelmChart mesh")}},
		"Application":  {"Argo CD deletes the chart's objects.", map[string]string{"a.yaml": app + "---\n" + kiali}, []string{together("medium", "Application mesh")}},
		"Subscription": {"The operator is deleted with its namespace.", map[string]string{"a.yaml": olm + "---\n" + namespace + "---\n" + kiali}, []string{together("medium", "Subscription mesh")}},
		"HelmCharts":   {"The kustomization takes the chart.", map[string]string{"kustomization.yaml": "helmCharts: [{name: kiali-operator, namespace: ops, repo: https://kiali.org/helm-charts}]\nresources: [a.yaml]\n", "a.yaml": kiali}, []string{together("medium", "a chart that it depends on")}},

		"OnlyIt":     {"It has no object in the set.", map[string]string{"a.yaml": release}, nil},
		"NoCascade":  {"Argo CD leaves the chart's objects.", map[string]string{"a.yaml": strings.Replace(app, ", finalizers: [resources-finalizer.argocd.argoproj.io]", "", 1) + "---\n" + kiali}, nil},
		"OLM":        {"OLM leaves the operator.", map[string]string{"a.yaml": olm + "---\n" + kiali}, nil},
		"OtherChart": {"The chart is of its server.", map[string]string{"a.yaml": strings.Replace(release, "kiali-operator", "kiali-server", 1) + "---\n" + kiali}, nil},
		"OtherKind":  {"The operator does not own the object.", map[string]string{"a.yaml": release + "---\n" + strings.Replace(kiali, "kiali.io", "example.com", 1)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range run(t, lint.Options{Input: sets.Options{Paths: []string{"."}, Dir: write(t, tc.files)}}).Findings {
				by := f.Evidence[slices.IndexFunc(f.Evidence, func(fact string) bool { return strings.Contains(fact, " installs ") })]
				got = append(got, string(f.Severity)+": "+f.Message+": "+by)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestServedVolumes checks that the server that a StorageClass names counts as that of the claims' volumes.
func TestServedVolumes(t *testing.T) {
	t.Parallel()
	const manifests = `apiVersion: v1
kind: Service
metadata: {name: nfs, namespace: files}
spec: {selector: {app: nfs}, ports: [{port: 2049}]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: nfs}
provisioner: nfs.csi.k8s.io
parameters: {server: nfs.files.svc.cluster.local, share: /}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: web}
spec: {storageClassName: nfs, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`
	for name, want := range map[string]int{"nfs.files.svc.cluster.local": 1, "nfs.example.com": 0} {
		text := strings.Replace(manifests, "nfs.files.svc.cluster.local", name, 1)
		findings := run(t, lint.Options{Input: sets.Options{Paths: []string{"."}, Dir: write(t, map[string]string{"a.yaml": text})}}).Findings
		if len(findings) != want || slices.ContainsFunc(findings, func(f lint.Finding) bool { return f.Policy != "volume-server-removed" }) {
			t.Errorf("server %s: want %d findings about it, got %v", name, want, findings)
		}
	}
}
