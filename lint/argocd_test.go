package lint_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/sets"
)

const selfManaged = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: argocd
  namespace: argocd
  finalizers:
  - resources-finalizer.argocd.argoproj.io
spec:
  project: default
  source: {repoURL: https://git.example.com/infra, path: platform/argocd}
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
`

// TestArgoDeploysItself checks that only Applications that certainly deploy the Argo CD that
// removes their finalizer are reported.
func TestArgoDeploysItself(t *testing.T) {
	t.Parallel()
	const controller = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: argocd-application-controller}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: argocd}]}}}\n"
	const far = "resources: [https://raw.githubusercontent.com/argoproj/argo-cd/v3.1.0/manifests/install.yaml]\n"
	installed := map[string]string{"platform/argocd/install.yaml": controller}
	chart := strings.Replace(selfManaged, "https://git.example.com/infra, path: platform/argocd", "https://argoproj.github.io/argo-helm, chart: argo-cd", 1)
	change := func(from, to string) string {
		if !strings.Contains(selfManaged, from) {
			t.Fatalf("no %q to change", from)
		}
		return strings.Replace(selfManaged, from, to, 1)
	}
	for name, tc := range map[string]struct {
		reason   string
		app      string
		beside   map[string]string
		reported bool
	}{
		"Manifests":     {"The folder has the controller.", selfManaged, installed, true},
		"Kustomization": {"The folder names Argo CD's manifests.", selfManaged, map[string]string{"platform/argocd/kustomization.yaml": far}, true},
		"Overlay":       {"A folder below it does.", change("platform/argocd", "platform/overlay"), map[string]string{"platform/overlay/kustomization.yaml": "resources: [../argocd]\n", "platform/argocd/kustomization.yaml": far}, true},
		"HelmCharts":    {"The kustomization takes the chart.", selfManaged, map[string]string{"platform/argocd/kustomization.yaml": "helmCharts:\n- {name: argo-cd, repo: https://argoproj.github.io/argo-helm}\n"}, true},
		"Inflation":     {"So it does as it was written before.", selfManaged, map[string]string{"platform/argocd/kustomization.yaml": "helmChartInflationGenerator:\n- {chartName: argo-cd, chartRepoUrl: https://argoproj.github.io/argo-helm}\n"}, true},
		"Umbrella":      {"The folder is a chart that includes Argo CD's.", selfManaged, map[string]string{"platform/argocd/Chart.yaml": "name: argocd\nversion: 1.0.0\ndependencies:\n- {name: argo-cd, version: 9.0.0}\n"}, true},
		"Chart":         {"The chart is Argo CD's.", chart, nil, true},
		"Sources":       {"One of several sources is.", change("source: {repoURL: https://git.example.com/infra, path: platform/argocd}", "sources:\n  - {repoURL: https://git.example.com/infra, ref: values}\n  - {repoURL: https://argoproj.github.io/argo-helm, chart: argo-cd}"), nil, true},
		"Foreground":    {"The finalizer says how to delete.", change("argocd.argoproj.io\n", "argocd.argoproj.io/foreground\n"), installed, true},
		"InCluster":     {"The destination has a name.", change("server: https://kubernetes.default.svc", "name: in-cluster"), installed, true},

		"Autopilot":    {"The name of a remote base identifies it.", selfManaged, map[string]string{"platform/argocd/kustomization.yaml": "resources: ['https://github.com/argoproj-labs/argocd-autopilot/manifests/base?ref=v0.4.20']\n"}, true},
		"RemoteBase":   {"So does that of a third party's base.", selfManaged, map[string]string{"platform/argocd/kustomization.yaml": "resources: ['https://git.example.com/infra//bases/argo-cd?ref=main']\n"}, true},
		"OwnNamespace": {"Argo CD is deleted with its namespace.", selfManaged, map[string]string{"platform/argocd/ns.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: argocd}\n"}, true},

		"RemoteApps":        {"A repository is called so, and the base in it is another.", selfManaged, map[string]string{"platform/argocd/kustomization.yaml": "resources: ['https://git.example.com/argocd//apps/web?ref=main']\n"}, false},
		"OtherNamespace":    {"Argo CD is in another namespace.", selfManaged, map[string]string{"platform/argocd/ns.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: argocd-apps}\n"}, false},
		"NoFinalizer":       {"Argo CD deletes nothing with it.", change("  finalizers:\n  - resources-finalizer.argocd.argoproj.io\n", ""), installed, false},
		"AnotherCluster":    {"The controller of this one stays.", change("server: https://kubernetes.default.svc", "server: https://spoke.example.com"), installed, false},
		"AnotherByName":     {"So it does.", change("server: https://kubernetes.default.svc", "name: spoke"), installed, false},
		"AnotherNamespace":  {"That is another Argo CD.", change("namespace: argocd}", "namespace: team-a}"), installed, false},
		"SomethingElse":     {"The folder has something else.", selfManaged, map[string]string{"platform/argocd/app.yaml": strings.ReplaceAll(controller, "argocd-application-controller", "web")}, false},
		"Notifications":     {"A ConfigMap of it is not the controller.", selfManaged, map[string]string{"platform/argocd/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-application-controller}\n"}, false},
		"Definitions":       {"Only the definitions are deployed.", selfManaged, map[string]string{"platform/argocd/kustomization.yaml": "resources: ['https://github.com/argoproj/argo-cd/manifests/crds?ref=v3.1.0']\n"}, false},
		"Kept":              {"The Application leaves the controller alone.", strings.Replace(chart, "chart: argo-cd", "chart: argo-cd, helm: {values: 'controller: {statefulsetAnnotations: {argocd.argoproj.io/sync-options: Delete=false}}'}", 1), nil, false},
		"KeptByAPatch":      {"A patch beside it does.", selfManaged, map[string]string{"platform/argocd/kustomization.yaml": far, "platform/argocd/keep.yaml": "a: Delete=false\n"}, false},
		"NoSuchFolder":      {"It is in another repository.", selfManaged, nil, false},
		"Root":              {"Every repository has one.", change("platform/argocd", "."), map[string]string{"install.yaml": controller}, false},
		"Outside":           {"Nothing is read there.", change("platform/argocd", "../argocd"), nil, false},
		"NamedByLoop":       {"A kustomization may name itself.", selfManaged, map[string]string{"platform/argocd/kustomization.yaml": "resources: [.]\n"}, false},
		"AppsOfTheOperator": {"Another chart has the name in its values.", strings.Replace(chart, "chart: argo-cd", "chart: argo-rollouts", 1), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files := map[string]string{".git/HEAD": "", "apps/argocd.yaml": tc.app}
			for name, text := range tc.beside {
				files[name] = text
			}
			for name, text := range files {
				path := filepath.Join(dir, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var want []string
			if tc.reported {
				want = []string{"apps/argocd.yaml:7:5 delete may known-obstacle: finalizer resources-finalizer.argocd.argoproj.io"}
				if name == "Foreground" {
					want[0] += "/foreground"
				}
				want[0] += " may stay: Argo CD deletes its own controller with this Application, and no controller remains to remove it"
			}
			var got []string
			for _, line := range lines(run(t, lint.Options{Input: sets.Options{Paths: []string{"."}, Dir: dir}})) {
				if !strings.HasPrefix(line, "note: ") {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: findings (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestArgoInTheTopFolder checks that a repository begins at its root, wherever lint was started.
func TestArgoInTheTopFolder(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "repo")
	for name, text := range map[string]string{
		".git/HEAD": "", "app.yaml": selfManaged,
		"platform/argocd/kustomization.yaml": "resources: [https://raw.githubusercontent.com/argoproj/argo-cd/v3.1.0/manifests/install.yaml]\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []sets.Options{{Dir: dir, Paths: []string{"."}}, {Dir: base, Paths: []string{"repo"}}, {Dir: base, Paths: []string{"repo/app.yaml"}}, {Dir: base, Paths: []string{dir}}} {
		if findings := run(t, lint.Options{Input: o}).Findings; len(findings) != 1 || findings[0].Policy != "known-obstacle" {
			t.Errorf("lint %s in %s: got %v, want one finding", o.Paths[0], o.Dir, findings)
		}
	}
}

// TestArgoDeployedByASet checks the Applications that an ApplicationSet creates.
func TestArgoDeployedByASet(t *testing.T) {
	t.Parallel()
	const directories = `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: platform, namespace: argocd}
spec:
  goTemplate: true
  generators:
  - git: {repoURL: https://git.example.com/infra, directories: [{path: platform/*}]}
  template:
    metadata: {name: '{{.path.basename}}'}
    spec:
      project: default
      source: {repoURL: https://git.example.com/infra, path: '{{.path.path}}'}
      destination: {server: https://kubernetes.default.svc, namespace: '{{.path.basename}}'}
`
	const chart = "helmCharts:\n- {name: argo-cd, repo: https://argoproj.github.io/argo-helm}\n"
	change := func(from, to string) string {
		if !strings.Contains(directories, from) {
			t.Fatalf("no %q to change", from)
		}
		return strings.Replace(directories, from, to, 1)
	}
	list := func(path string) string {
		return change("git: {repoURL: https://git.example.com/infra, directories: [{path: platform/*}]}", "list: {elements: [{path.path: "+path+", path.basename: argocd}]}")
	}
	const clusters = `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: argocd, namespace: argocd}
spec:
  generators: [{clusters: {SELECTOR}}]
  template:
    metadata: {name: 'argocd-{{name}}'}
    spec:
      source: {repoURL: https://argoproj.github.io/argo-helm, chart: argo-cd}
      destination: {server: '{{server}}', namespace: argocd}
`
	for name, tc := range map[string]struct {
		reason, set string
		reported    bool
	}{
		"Directories": {"One of the folders installs Argo CD by its chart.", directories, true},
		"List":        {"An element names the folder.", list("platform/argocd"), true},
		"Clusters":    {"One of all clusters is the one that it is in.", strings.Replace(clusters, "SELECTOR", "", 1), true},

		"Excluded":   {"It is left out.", change("{path: platform/*}", "{path: platform/*}, {path: platform/argocd, exclude: true}"), false},
		"Elsewhere":  {"Other folders are deployed.", change("platform/*", "apps/*"), false},
		"Element":    {"The element names another.", list("platform/web"), false},
		"Selected":   {"The clusters are unknown.", strings.Replace(clusters, "SELECTOR", "selector: {matchLabels: {a: b}}", 1), false},
		"Preserved":  {"The Applications have no cascading deletion.", change("  goTemplate: true\n", "  syncPolicy: {preserveResourcesOnDeletion: true}\n"), false},
		"Finalizers": {"Neither is it with another finalizer.", change("metadata: {name: '{{.path.basename}}'}", "metadata: {name: a, finalizers: [a.example.com/b]}"), false},
		"Outside":    {"Nothing is read there.", change("platform/*", "../*"), false},
		"Functions":  {"The result of the template is unknown.", change("namespace: '{{.path.basename}}'", "namespace: '{{.path.basename | lower}}'"), false},
		"Strange":    {"What is no template says nothing.", change("metadata: {name: '{{.path.basename}}'}", "metadata: 3"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, map[string]string{".git/HEAD": "", "sets/set.yaml": tc.set, "platform/argocd/kustomization.yaml": chart, "platform/web/a.yaml": "", "apps/web/a.yaml": ""})
			findings := run(t, lint.Options{Input: sets.Options{Paths: []string{"."}, Dir: dir}}).Findings
			if reported := len(findings) == 1 && findings[0].Policy == "known-obstacle" && findings[0].Place.File == "sets/set.yaml"; reported != tc.reported || len(findings) > 1 {
				t.Errorf("%s: got %v", tc.reason, findings)
			}
		})
	}
}
