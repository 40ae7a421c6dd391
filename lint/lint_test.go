package lint_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/sets"
)

// lines returns findings, problems and notes, one each in a line.
func lines(r *lint.Result) []string {
	var got []string
	for _, f := range r.Findings {
		place := fmt.Sprintf("%s:%d:%d", f.Place.File, f.Place.Line, f.Place.Column)
		if f.Place.Rendered != "" {
			place += " (" + f.Place.Rendered + ")"
		}
		got = append(got, fmt.Sprintf("%s %s %s %s: %s", place, f.Question, f.Certainty, f.Policy, f.Message))
	}
	for _, p := range r.Problems {
		got = append(got, fmt.Sprintf("%s:%d:%d problem: %s", p.File, p.Line, p.Column, p.Message))
	}
	for _, n := range r.Notes {
		got = append(got, "note: "+n)
	}
	return got
}

func exclude(t *testing.T, dir string, patterns ...string) (e files.Exclude) {
	t.Helper()
	if err := e.Add(dir, patterns...); err != nil {
		t.Fatal(err)
	}
	return e
}

func run(t *testing.T, o lint.Options) *lint.Result {
	t.Helper()
	r, err := lint.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	kialiCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kialis.kiali.io}
spec: {group: kiali.io, scope: Namespaced, names: {plural: kialis, kind: Kiali}, versions: [{name: v1alpha1, served: true, storage: true}]}
---
`
	kialiOperator = `apiVersion: apps/v1
kind: Deployment
metadata: {name: kiali-operator, namespace: kiali}
spec:
  selector: {matchLabels: {app: kiali}}
  template:
    metadata: {labels: {app: kiali}}
    spec: {containers: [{name: o, image: quay.io/kiali/kiali-operator}]}
---
`
	kiali = `apiVersion: kiali.io/v1alpha1
kind: Kiali
metadata: {name: kiali, namespace: mesh}
---
`
	fluxController = `apiVersion: apps/v1
kind: Deployment
metadata: {name: kustomize-controller, namespace: flux-system}
spec:
  template:
    spec: {containers: [{name: c, image: ghcr.io/fluxcd/kustomize-controller}]}
---
`
	olm = `apiVersion: apps/v1
kind: Deployment
metadata: {name: olm-operator, namespace: olm}
spec:
  template:
    spec: {containers: [{name: olm-operator, image: "quay.io/operator-framework/olm:%s"}]}
---
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: packageserver, namespace: olm}
`
	kamaji = `apiVersion: apps/v1
kind: Deployment
metadata: {name: kamaji, namespace: kamaji-system}
spec:
  template:
    spec: {containers: [{name: manager, image: "docker.io/clastix/kamaji:%s"}]}
---
apiVersion: kamaji.clastix.io/v1alpha1
kind: DataStore
metadata: {name: default}
`
	// backend serves an API or a webhook.
	backend = `apiVersion: v1
kind: Service
metadata: {name: guard, namespace: guard}
spec: {selector: {app: guard}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: guard, namespace: guard}
spec:
  selector: {matchLabels: {app: guard}}
  template:
    metadata: {labels: {app: guard}}
    spec: {containers: [{name: o, image: guard}]}
---
`
	metricsServer = `apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec: {group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: guard, name: guard}}
---
` + backend
	webhook = `apiVersion: v1
kind: Namespace
metadata: {name: guard}
---
` + backend + `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: guard.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: guard, name: guard}}
  rules: [{operations: [%s], apiGroups: ['%s'], apiVersions: ['*'], resources: ['%s']}]
---
`
)

// budget requires two pods, and there are two.
const (
	budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {minAvailable: 2, selector: {matchLabels: {app: web}}}\n---\n"
	pods   = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}}\n"
)

// selecting returns a webhook that matches deletes of ConfigMaps with a label, and one with the
// label app: guard in its namespace.
func selecting(app string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: guard, labels: {app: guard}}\n---\n" +
		strings.Replace(fmt.Sprintf(webhook, "DELETE", "", "configmaps"), "  rules:", "  objectSelector: {matchLabels: {app: "+app+"}}\n  rules:", 1)
}

func TestRun(t *testing.T) {
	for _, tc := range []struct {
		reason, text string
		want         []string // parts of the lines
	}{
		{"nothing to say", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", nil},
		{"an operator with its custom resource", kialiCRD + kialiOperator + kiali, []string{"-:17:18 delete-set may operator-in-same-set: kubectl delete -f deletes kialis.kiali.io/kiali together with deployment kiali/kiali-operator, which removes kiali.io/finalizer"}},
		{"a custom resource alone: only a cluster shows the owner, which one note says", kiali + strings.ReplaceAll(kiali, "name: kiali,", "name: other,"), []string{"note: only a cluster shows whether the owners of the finalizers of 2 objects run (Kiali"}},
		{"an operator alone", kialiCRD + kialiOperator, nil},
		{"an operator that is scaled to zero", kialiCRD + strings.Replace(kialiOperator, "spec:\n", "spec:\n  replicas: 0\n", 1) + kiali, []string{"-:3:18 delete may crd-removed-with-finalizers", "-:18:18 delete may orphaned-finalizer: finalizer kiali.io/finalizer is not removed"}},
		{"a finalizer without an owner", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  finalizers:\n  - example.com/guard\n", []string{"-:6:5 apply may unowned-finalizer: no controller is known to remove finalizer example.com/guard"}},
		{"a finalizer of a custom resource's own controller has one note", "apiVersion: thing.example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: b, finalizers: [thing.example.com/x]}\n", []string{"note: only a cluster shows whether the owners of the finalizers of 1 object run (controller of thing.example.com)"}},
		{"an object that was exported while it was deleted", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, deletionTimestamp: \"2020-01-01T00:00:00Z\", finalizers: [foregroundDeletion]}\n", nil},
		{"a finalizer of Argo CD, whose software is elsewhere", "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a, finalizers: [resources-finalizer.argocd.argoproj.io]}\n", nil},
		{"Flux beside its own object", fluxController + "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a, namespace: flux-system}\nspec: {path: ./x}\n", []string{"-:10:18 delete-set may operator-in-same-set: kubectl delete -f deletes kustomizations.kustomize.toolkit.fluxcd.io/a together with deployment flux-system/kustomize-controller, which removes finalizers.fluxcd.io"}},
		{"a finalizer in the spec of a namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\nspec:\n  finalizers: [kubernetes, example.com/guard]\n", []string{"-:5:28 apply may unowned-finalizer: no controller is known to remove finalizer example.com/guard: a deletion of namespaces/a may hang"}},
		{"an operator of a version that sets the finalizer", fmt.Sprintf(olm, "v0.27.0"), []string{"delete-set may operator-in-same-set: kubectl delete -f deletes clusterserviceversions.operators.coreos.com/packageserver together with deployment olm/olm-operator, which removes operators.coreos.com/csv-cleanup"}},
		{"one of a version that does not yet", fmt.Sprintf(olm, "v0.26.0"), nil},
		{"Kamaji beside its own DataStore", fmt.Sprintf(kamaji, "26.3.2-edge"), []string{"delete-set may operator-in-same-set: kubectl delete -f deletes datastores.kamaji.clastix.io/default together with deployment kamaji-system/kamaji, which removes kamaji.clastix.io/TenantControlPlane"}},
		{"Kamaji of a version that sets no finalizer on it", fmt.Sprintf(kamaji, "v1.0.0"), nil},
		{"a Flux object", "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\nspec: {path: ./x}\n", nil},
		{"an APIService whose backend is in a namespace", metricsServer, []string{"apiservice-backend-removed: "}},
		{"its namespace is dropped by the API server, so that it is the same object", "apiVersion: v1\nkind: Namespace\nmetadata: {name: guard}\n---\n" + strings.Replace(metricsServer, "k8s.io}", "k8s.io, namespace: guard}", 1), []string{"-:7:18 delete-namespace may apiservice-backend-removed: "}},
		{"a certificate that an installer fills in", strings.Replace(fmt.Sprintf(webhook, "CREATE", "", "pods"), "name: guard}}\n  rules", "name: guard}, caBundle: \"${CA}\"}\n  rules", 1), []string{"-:27:3 apply may self-blocking-webhook"}},
		{"a webhook that matches objects in its namespace", selecting("guard"), []string{"delete-namespace will webhook-backend-in-namespace: "}},
		{"a webhook that selects what nothing here has", selecting("other"), nil},
		{"an object that its owner makes", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, ownerReferences: [{apiVersion: v1, kind: Node, name: n, uid: u}]}\nspec: {terminationGracePeriodSeconds: 900}\n", nil},
		{"the same, made by a person", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {terminationGracePeriodSeconds: 900}\n", []string{"-:4:39 apply may long-grace-period"}},
		{"a webhook that sees nothing that a deletion needs", fmt.Sprintf(webhook, "CREATE", "cert-manager.io", "certificates"), nil},
		{"a webhook that matches the custom resources of its own namespace, with none in the manifests", fmt.Sprintf(webhook, "DELETE", "cert-manager.io", "certificates"), []string{"-:27:3 apply may self-blocking-webhook: webhook guard.example.com fails closed in its own namespace guard: if that is deleted, its certificates.cert-manager.io may stay Terminating"}},
		{"a webhook that leaves its own namespace out", strings.Replace(fmt.Sprintf(webhook, "DELETE", "cert-manager.io", "certificates"), "  rules:", "  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [guard]}]}\n  rules:", 1), nil},
		{"a webhook that sees the deletes of all pods", strings.Replace(fmt.Sprintf(webhook, "DELETE", "", "pods"), "  rules:", "  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [guard]}]}\n  rules:", 1), []string{"-:28:3 apply may self-blocking-webhook: webhook guard.example.com fails closed and matches every namespace that it selects: while its backend is down, no pod in them can be deleted"}},
		{"a webhook that the kubelet passes by", strings.Replace(strings.Replace(fmt.Sprintf(webhook, "DELETE", "", "pods"), "  rules:", "  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [guard]}]}\n  rules:", 1), "  rules:", "  matchConditions: [{name: a, expression: \"!('system:nodes' in request.userInfo.groups)\"}]\n  rules:", 1), nil},
		{"a webhook for pods with a label, which only a Service has", strings.Replace(fmt.Sprintf(webhook, "DELETE", "", "pods"), "  rules:", "  objectSelector: {matchLabels: {app: other}}\n  rules:", 1) + "apiVersion: v1\nkind: Service\nmetadata: {name: other, namespace: guard, labels: {app: other}}\n", nil},
		{"a webhook for pods with a label of a template", strings.Replace(fmt.Sprintf(webhook, "DELETE", "", "pods"), "  rules:", "  objectSelector: {matchLabels: {app: guard}}\n  rules:", 1), []string{"delete-namespace may webhook-backend-in-namespace: "}},
		{"a webhook that sees its own pods", fmt.Sprintf(webhook, "CREATE", "", "pods"), []string{"-:27:3 apply may self-blocking-webhook"}},
		{"a webhook that must allow the objects left in its namespace after its pods are deleted", fmt.Sprintf(webhook, "DELETE", "", "configmaps"), []string{"delete-namespace will webhook-backend-in-namespace: ", "apply may self-blocking-webhook: webhook guard.example.com fails closed and matches every namespace: while its backend is down, none of them can be deleted"}},
		{"a webhook without rules", "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: later}\nwebhooks: [{name: a.b.c}]\n", []string{"note: the requests that 1 webhook configuration (later) matches are unknown"}},
		{"a rendered chart names its template", "---\n# Source: web/templates/web.yaml\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {terminationGracePeriodSeconds: 900, containers: []}\n", []string{"-:6:39 (web/templates/web.yaml) apply may long-grace-period"}},
		{"items of a List", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec:\n    terminationGracePeriodSeconds: 900\n", []string{"-:8:36 apply may long-grace-period"}},
		{"JSON", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"},\n \"spec\": {\"terminationGracePeriodSeconds\": 900}}\n", []string{"-:2:44 apply may long-grace-period"}},
		{"one broken document among others", "a: [\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {terminationGracePeriodSeconds: 900}\n", []string{"-:6:39 apply may long-grace-period", "-:1:5 problem: invalid YAML"}},
		{"of a key given twice the last counts, as for kubectl", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  terminationGracePeriodSeconds: 900\n  terminationGracePeriodSeconds: 30\n", nil},
		{"a document with a placeholder in a value", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, {x}: b}\nspec: {}\n", []string{"note: 1 template skipped (-)"}},
		{"a pod without containers, twice", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {serviceAccountName: b}\n", nil},
		{"golden files of tests", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, finalizers: [a/b]}\nstatus: {phase: Running}\n", nil},
		{"a budget of all pods", budget + pods, []string{"-:4:22 apply may budget-never-allows: PodDisruptionBudget web allows no eviction, ever: minAvailable is all of its pods"}},
		{"a budget of all pods but one", budget + strings.Replace(pods, "replicas: 2", "replicas: 3", 1), nil},
		{"a budget of pods that something else scales", budget + pods + "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n", nil},
		{"a budget of as many pods as an autoscaler may go down to", budget + pods + "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {scaleTargetRef: {kind: Deployment, name: web}, minReplicas: 2}\n", []string{"PodDisruptionBudget web allows no eviction while its autoscaler runs the minimum: minAvailable is all"}},
		{"a budget of fewer pods than an autoscaler may go down to", budget + pods + "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {scaleTargetRef: {kind: Deployment, name: web}, minReplicas: 3}\n", nil},
		{"a budget for pods that may be a single one", budget + pods + "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {scaleTargetRef: {kind: Deployment, name: web}}\n", []string{"while its autoscaler runs the minimum"}},
		{"a budget of pods that may be scaled to none", budget + pods + "---\napiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a}\nspec: {scaleTargetRef: {name: web}}\n", []string{"note: only a cluster shows whether the owners of the finalizers of 1 object run (KEDA)"}},
		{"a budget of as many pods as KEDA may go down to", budget + pods + "---\napiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a}\nspec: {scaleTargetRef: {name: web}, minReplicaCount: 2}\n", []string{"while its autoscaler runs the minimum", "(KEDA)"}},
		{"a budget of fewer pods than KEDA may go down to", budget + pods + "---\napiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a}\nspec: {scaleTargetRef: {name: web}, minReplicaCount: 3}\n", []string{"note: only a cluster shows whether the owners of the finalizers of 1 object run (KEDA)"}},
		{"a budget beside what something else scales", budget + pods + "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {scaleTargetRef: {kind: Deployment, name: other}}\n", []string{"budget-never-allows"}},
		{"a budget of pods that are elsewhere", budget, nil},
		{"a budget of all, of a version that is not served", strings.Replace(budget, "policy/v1", "policy/v1beta1", 1) + pods, []string{"budget-never-allows"}},
		{"comments", "# nothing\n", nil},
		{"templates", "a: {{ x }}\n", []string{"note: 1 template skipped (-): render first, as in helm template CHART | termguard lint -"}},
	} {
		r := run(t, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(tc.text)}})
		got := lines(r)
		ok := len(got) == len(tc.want)
		for i := 0; ok && i < len(got); i++ {
			ok = strings.Contains(got[i], tc.want[i])
		}
		if !ok {
			t.Errorf("%s: got\n  %s\nwant\n  %s", tc.reason, strings.Join(got, "\n  "), strings.Join(tc.want, "\n  "))
		}
	}
}

// TestVersion checks a bug of a version.
func TestVersion(t *testing.T) {
	const text = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: a, namespace: b}
spec:
  template:
    spec:
      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: z, operator: In, values: [b, a]}]}]}}}
      containers: []
`
	for version, want := range map[string]int{"": 0, "v1.11.1": 1, "v1.36.3": 0} {
		r := run(t, lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(text)}, KubernetesVersion: version})
		if len(r.Findings) != want {
			t.Errorf("version %q: got %v, want %d findings", version, lines(r), want)
		}
	}
}

// write creates files in a new directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSets checks which files are deleted together: all of a directory, or all that are given one
// by one.
func TestSets(t *testing.T) {
	dir := write(t, map[string]string{"one/crd.yaml": kialiCRD, "one/operator.yaml": kialiOperator, "one/cr.yaml": kiali, "two/operator.yaml": kialiOperator, "three/cr.yaml": kiali})
	for _, tc := range []struct {
		reason string
		paths  []string
		want   int
	}{
		{"one directory", []string{"one"}, 1},
		{"two directories", []string{"two", "three"}, 0},
		{"files", []string{"two/operator.yaml", "three/cr.yaml"}, 1},
		{"everything", []string{"."}, 1},
	} {
		r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: tc.paths}})
		if len(r.Findings) != tc.want {
			t.Errorf("%s: got %v, want %d findings", tc.reason, lines(r), tc.want)
		}
	}
	// The files that a kustomization names in a folder below it are a set, without others there.
	below := map[string]string{"kustomization.yaml": "resources: [crd.yaml, cr.yaml, below/operator.yaml]\n", "crd.yaml": kialiCRD, "cr.yaml": kiali, "below/operator.yaml": kialiOperator, "below/other.yaml": kiali}
	if r := run(t, lint.Options{Input: sets.Options{Dir: write(t, below), Paths: []string{"."}}}); len(r.Findings) != 1 || r.Findings[0].Place.File != "cr.yaml" || r.Files != 4 {
		t.Errorf("files of a folder below: got %v in %d files, want 1 finding in 4", lines(r), r.Files)
	}
	// A kustomization and its parts are one set, unless a part belongs to several.
	parts := map[string]string{"default/kustomization.yaml": "resources: [../crd, ../manager, ../sample]\n", "crd/crd.yaml": kialiCRD, "manager/operator.yaml": kialiOperator, "sample/cr.yaml": kiali}
	if r := run(t, lint.Options{Input: sets.Options{Dir: write(t, parts), Paths: []string{"."}}}); len(r.Findings) != 1 || r.Files != 3 {
		t.Errorf("parts of one: got %v in %d files, want 1 finding in 3", lines(r), r.Files)
	}
	parts["manager/kustomization.yaml"], parts["manager/other.yaml"] = "resources: [other.yaml]\n", kiali
	if r := run(t, lint.Options{Input: sets.Options{Dir: write(t, parts), Paths: []string{"."}}}); len(r.Findings) != 0 || r.Files != 4 {
		t.Errorf("an operator that the kustomization does not name: got %v in %d files, want none in 4", lines(r), r.Files)
	}
	delete(parts, "manager/kustomization.yaml")
	delete(parts, "manager/other.yaml")
	parts["other/kustomization.yaml"] = "resources: [../manager]\n"
	if r := run(t, lint.Options{Input: sets.Options{Dir: write(t, parts), Paths: []string{"."}}}); len(r.Findings) != 0 || r.Files != 3 {
		t.Errorf("a part of two: got %v in %d files, want none in 3", lines(r), r.Files)
	}
	r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}, Only: map[string]bool{filepath.Join(dir, "one/operator.yaml"): true}}})
	if len(r.Findings) != 0 || r.Files != 3 {
		t.Errorf("with a change beside the finding: got %v in %d files, want none in 3", lines(r), r.Files)
	}
	r = run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}, Exclude: exclude(t, dir, "one")}})
	if len(r.Findings) != 0 || r.Files != 2 {
		t.Errorf("without one: got %v in %d files", lines(r), r.Files)
	}
}

// TestAlternatives resolves names within an installer if another installer in its folder defines
// the same: they are not applied together.
func TestAlternatives(t *testing.T) {
	const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: kiali}\n---\n"
	blocks := fmt.Sprintf(webhook, "DELETE", "", "configmaps") + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: guard}\n"
	elsewhere := strings.ReplaceAll(blocks, "namespace: guard", "namespace: other")
	for name, tc := range map[string]struct {
		reason string
		files  map[string]string
		want   []string // findings, with their files
	}{
		"Webhook": {"Each installer is evaluated by itself.", map[string]string{"full.yaml": elsewhere, "quick.yaml": blocks}, []string{
			"full.yaml:21 high webhook-backend-in-namespace other", "full.yaml:27 high self-blocking-webhook guard",
			"quick.yaml:21 high webhook-backend-in-namespace guard", "quick.yaml:27 high self-blocking-webhook guard",
		}},
		"Definition": {"The custom resource stays with the installer of the most objects.", map[string]string{"crds.yaml": kialiCRD, "install.yaml": kialiCRD + kialiOperator, "cr.yaml": kiali}, []string{"cr.yaml:3 low operator-in-same-set kiali"}},
		"Operator":   {"One installer has the operator, and another the custom resource.", map[string]string{"a.yaml": kialiCRD + namespace + kialiOperator, "b.yaml": kialiCRD + kiali}, nil},
		"Namespace":  {"Files that only share a namespace are one.", map[string]string{"a.yaml": namespace + kialiCRD + kialiOperator, "b.yaml": namespace + kiali}, []string{"b.yaml:7 low operator-in-same-set kiali"}},
		"Both":       {"A namespace and its objects: the installers are alternatives.", map[string]string{"a.yaml": namespace + kialiCRD + kialiOperator, "b.yaml": namespace + kialiOperator + kiali}, []string{"b.yaml:16 medium operator-in-same-set kiali"}},
		"Releases": {"Two releases differ in one line.", map[string]string{"v1.yaml": kialiCRD + kialiOperator + kiali, "v2.yaml": strings.Replace(kialiCRD+kialiOperator+kiali, "kiali-operator}", "kiali-operator:v2}", 1)}, []string{
			"v1.yaml:17 medium operator-in-same-set kiali", "v2.yaml:17 medium operator-in-same-set kiali",
		}},
		"Given": {"A kustomization says that they are one.", map[string]string{"kustomization.yaml": "resources: [a.yaml, b.yaml]", "a.yaml": kialiCRD + namespace + kialiOperator, "b.yaml": kialiCRD + kiali}, []string{"b.yaml:8 medium operator-in-same-set kiali"}},
		"Three": {
			"Each of three versions is evaluated by itself; other files belong to the largest.",
			map[string]string{"v1.yaml": kialiCRD + kialiOperator, "v2.yaml": kialiCRD + kialiOperator + kiali, "v3.yaml": kialiCRD + kialiOperator + namespace + pods, "cr.yaml": strings.ReplaceAll(kiali, "name: kiali,", "name: other,")},
			[]string{"cr.yaml:3 low operator-in-same-set other", "v2.yaml:17 medium operator-in-same-set kiali"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			r := run(t, lint.Options{Input: sets.Options{Dir: write(t, tc.files), Paths: []string{"."}}})
			for _, f := range r.Findings {
				got = append(got, fmt.Sprintf("%s:%d %s %s %s", f.Place.File, f.Place.Line, f.Severity, f.Policy, f.Target.Name))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s\n%q", tc.reason, diff, lines(r))
			}
		})
	}
}

// TestPlaceholder checks that a kustomization replaces the placeholder namespace in kubebuilder's
// files.
func TestPlaceholder(t *testing.T) {
	const apiservice = "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.x.io}\nspec: {group: x.io, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service: {name: x, namespace: %[1]s}}\n---\n" +
		"apiVersion: v1\nkind: Service\nmetadata: {name: x, namespace: %[1]s}\nspec: {ports: [{port: 443}]}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %[1]s}\n"
	for _, tc := range []struct{ reason, kustomization, written, want string }{
		{"it is filled in", "namespace: shapes\nresources: [../api]\n", "system", "shapes"},
		{"nothing fills it in", "resources: [../api]\n", "system", "system"},
		{"another namespace is reported as in the file", "namespace: shapes\nresources: [../api]\n", "other", "other"},
	} {
		dir := write(t, map[string]string{"default/kustomization.yaml": tc.kustomization, "api/kustomization.yaml": "resources: [all.yaml]\n", "api/all.yaml": fmt.Sprintf(apiservice, tc.written)})
		var got []string
		for _, f := range run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}}}).Findings {
			got = append(got, f.Message)
		}
		want := []string{"APIService v1.x.io is served from namespace " + tc.want + ": after that is deleted, no other namespace can finish deleting"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
		}
	}
}

// TestSameName has one object in two files of a folder, as examples often do: each finding is in
// the file that it is about.
func TestSameName(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, command: [sh, -c, 'while true; do work; done']}]%s}\n"
	dir := write(t, map[string]string{"1.yaml": fmt.Sprintf(pod, ", terminationGracePeriodSeconds: 900"), "2.yaml": fmt.Sprintf(pod, ", hostPID: true"), "3.yaml": fmt.Sprintf(pod, "")})
	var got []string
	for _, f := range run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"."}}}).Findings {
		got = append(got, f.Place.File+" "+f.Policy)
	}
	want := []string{"1.yaml shell-hides-sigterm", "1.yaml long-grace-period", "3.yaml shell-hides-sigterm"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestNothing(t *testing.T) {
	dir := write(t, map[string]string{"readme.txt": "x", "a.yaml": kiali})
	for _, tc := range []struct {
		paths []string
		want  string
	}{
		{nil, "nothing to lint"},
		{[]string{"."}, "nothing to lint"},
		{[]string{"absent.yaml"}, "absent.yaml: no such file"},
	} {
		o := lint.Options{Input: sets.Options{Dir: dir, Paths: tc.paths, Exclude: exclude(t, dir, "*.yaml")}}
		if _, err := lint.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: got %v, want %q", tc.paths, err, tc.want)
		}
	}
	if _, err := lint.Run(t.Context(), lint.Options{Input: sets.Options{Paths: []string{"-"}, Stdin: strings.NewReader(" \n")}}); err == nil {
		t.Errorf("nothing on standard input, as from a helm that failed: got %v", err)
	}
	if _, err := lint.Run(t.Context(), lint.Options{Input: sets.Options{Dir: dir}}); !errors.Is(err, sets.ErrNoInput) {
		t.Errorf("no paths: got %v", err)
	}
	if _, err := lint.Run(t.Context(), lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"a.yaml"}}, Snapshot: "readme.txt"}); err == nil || !strings.Contains(err.Error(), "it holds no Kubernetes objects") {
		t.Errorf("a file that is no snapshot: got %v", err)
	}
}

// TestSnapshot takes facts that manifests lack from a cluster.
func TestSnapshot(t *testing.T) {
	const runs = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: kiali-operator, namespace: kiali-operator}, " +
		"spec: {template: {spec: {containers: [{name: a, image: quay.io/kiali/kiali-operator}]}}}, status: {readyReplicas: 1}}"
	for state, want := range map[string][]string{
		runs: nil,
		"{apiVersion: v1, kind: Namespace, metadata: {name: demo}}": {"cr.yaml:3:18 delete will orphaned-finalizer: finalizer kiali.io/finalizer is not removed: its owner, Kiali operator (Ansible operator), is not installed"},
	} {
		const carries = "{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: other, namespace: mesh, finalizers: [kiali.io/finalizer]}}"
		all := strings.Join([]string{"{apiVersion: termguard.dev/v1, kind: Cluster}", state, carries}, "\n---\n")
		dir := write(t, map[string]string{"cr.yaml": kiali, "snapshot.yaml": all})
		r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: []string{"cr.yaml"}}, Snapshot: "snapshot.yaml"})
		if diff := cmp.Diff(want, lines(r)); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", state, diff)
		}
	}
}

// TestRedactedSnapshot says that a snapshot lacks what policies read.
func TestRedactedSnapshot(t *testing.T) {
	const redacted = `{"apiVersion":"termguard.dev/v2","kind":"Snapshot","redacted":true}
{"apiVersion":"termguard.dev/v2","kind":"Answer","path":"/version","code":200,"body":{"gitVersion":"v1.36.0"}}
{"apiVersion":"termguard.dev/v2","kind":"End"}
`
	r := run(t, lint.Options{Input: sets.Options{Dir: write(t, map[string]string{"cr.yaml": kiali, "snapshot.json": redacted}), Paths: []string{"cr.yaml"}}, Snapshot: "snapshot.json"})
	if !slices.ContainsFunc(r.Notes, func(note string) bool { return strings.HasPrefix(note, "snapshot.json is redacted") }) {
		t.Errorf("notes %q", r.Notes)
	}
}

// A pod among manifests with some Node may well be on another.
func TestNodesOfManifests(t *testing.T) {
	node := "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n"
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {nodeName: n2, containers: [{name: a, image: a}]}\n"
	r := run(t, lint.Options{Input: sets.Options{Dir: write(t, map[string]string{"a.yaml": node + pod}), Paths: []string{"."}}})
	if got := lines(r); len(got) > 0 {
		t.Errorf("got %q, although n2 may exist", got)
	}
}

// Where / separates folders, \ is an ordinary character: in arguments, places and patterns.
func TestBackslash(t *testing.T) {
	if filepath.Separator != '/' {
		t.Skip(`here \ separates folders: see TestExcludeSeparator`)
	}
	slow := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {terminationGracePeriodSeconds: 3600, containers: [{name: a, image: a}]}\n"
	dir := write(t, map[string]string{`d/a\b.yaml`: slow, "d/a/b.yaml": slow})
	cases := map[string]struct {
		paths, exclude, want []string
	}{
		"Argument": {paths: []string{`d/a\b.yaml`}, want: []string{`d/a\b.yaml`}},
		"Folder":   {paths: []string{"d"}, want: []string{`d/a\b.yaml`, "d/a/b.yaml"}},
		"Exclude":  {paths: []string{"d"}, exclude: []string{`d/a\\b.yaml`}, want: []string{"d/a/b.yaml"}},
		"Slash":    {paths: []string{"d"}, exclude: []string{"d/a/b.yaml"}, want: []string{`d/a\b.yaml`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := run(t, lint.Options{Input: sets.Options{Dir: dir, Paths: tc.paths, Exclude: exclude(t, dir, tc.exclude...)}})
			var got []string
			for _, f := range r.Findings {
				got = append(got, f.Place.File)
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("files with a finding: -want, +got:\n%s", diff)
			}
		})
	}
}

// TestPatchLeftOver checks that webhooks without rules are not reported if they are a patch that
// the kustomization beside them does not name, such as kubebuilder's for certificates.
func TestPatchLeftOver(t *testing.T) {
	const patch = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a, annotations: {cert-manager.io/inject-ca-from: a/b}}\n"
	const unknown = "note: the requests that 1 webhook configuration (a) matches are unknown: the rules are filled in at run time"
	for name, tc := range map[string]struct {
		kustomization string
		want          []string
	}{
		"Named":   {"resources: [c.yaml]\npatches: [{path: patch.yaml}]\n", []string{unknown}},
		"Unnamed": {"resources: [c.yaml]\n#patches: [{path: patch.yaml}]\n", nil},
		"None":    {"", []string{unknown}},
	} {
		files := map[string]string{"patch.yaml": patch, "c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: demo}\n"}
		if tc.kustomization != "" {
			files["kustomization.yaml"] = tc.kustomization
		}
		got := lines(run(t, lint.Options{Input: sets.Options{Dir: write(t, files), Paths: []string{"."}}}))
		got = slices.DeleteFunc(got, func(line string) bool { return strings.Contains(line, "as the files stand") })
		if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s -want, +got:\n%s", name, diff)
		}
	}
}
