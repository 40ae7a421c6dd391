package answer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/policies"
)

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.UnmarshalJSON(asJSON); err != nil {
		t.Fatal(err)
	}
	return o
}

// argoApplication has the form that argocd-application-controller writes
// (docs/operator-manual/application.yaml).
const argoApplication = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: kiali, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  destination: {server: "https://kubernetes.default.svc", namespace: kiali}
status:
  resources:
  - {group: apps, kind: Deployment, name: operator, namespace: kiali, status: Synced, version: v1, syncWave: -1}
  - {group: kiali.io, kind: Kiali, name: kiali, namespace: demo, status: Synced, version: v1alpha1, syncWave: 5}
  - {group: apiextensions.k8s.io, kind: CustomResourceDefinition, name: kialis.kiali.io, status: Synced, version: v1}
  - {kind: Namespace, name: kiali, status: Synced, version: v1}
  - {group: argoproj.io, kind: Application, name: kiali, namespace: argocd, version: v1alpha1}
  - nonsense
  - {kind: ConfigMap}
`

func TestApplication(t *testing.T) {
	want := []Name{
		{Object: policies.Object{Resource: "kiali.kiali.io", Namespace: "demo", Name: "kiali"}, Place: -5},
		{Object: policies.Object{Resource: "deployment.apps", Namespace: "kiali", Name: "operator"}, Place: 1},
		{Object: policies.Object{Resource: "namespace", Namespace: "argocd", Name: "kiali"}},
	}
	for _, tt := range []struct {
		reason     string
		from, to   string // in the application
		entries    []Name
		background bool
		stays      string
	}{
		{reason: "it prunes, in the foreground", entries: want},
		{reason: "in the foreground, said", from: "argoproj.io]}", to: "argoproj.io/foreground]}", entries: want},
		{reason: "in the background", from: "argoproj.io]}", to: "argoproj.io/background]}", entries: want, background: true},
		{reason: "the cluster by its name", from: `server: "https://kubernetes.default.svc"`, to: "name: in-cluster", entries: want},
		{reason: "it does not prune", from: "finalizers: [resources-finalizer", to: "finalizers: [other", stays: "does not have the finalizer"},
		{reason: "another finalizer", from: "resources-finalizer.argocd.argoproj.io]", to: "post-delete-finalizer.argocd.argoproj.io]", stays: "does not have the finalizer"},
		{reason: "another cluster", from: "https://kubernetes.default.svc", to: "https://10.0.0.1", stays: `it deletes in cluster "https://10.0.0.1"`},
		{reason: "another cluster by its name", from: `server: "https://kubernetes.default.svc"`, to: "name: prod", stays: `it deletes in cluster "prod"`},
	} {
		var got Question
		got.application(objectOf(t, strings.Replace(argoApplication, tt.from, tt.to, 1)))
		if diff := cmp.Diff(tt.entries, got.Names); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", tt.reason, diff)
		}
		if notes := strings.Join(got.Notes, "\n"); (len(got.Names) == 0) != (tt.stays != "") || !strings.Contains(notes, tt.stays) {
			t.Errorf("%s: notes %q, want %q", tt.reason, notes, tt.stays)
		}
		if foreground := got.Options != nil; tt.stays == "" && foreground == tt.background {
			t.Errorf("%s: foreground %t", tt.reason, foreground)
		}
	}
}

// fluxKustomization has the form that kustomize-controller writes (docs/spec/v1/kustomizations.md).
const fluxKustomization = `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: kiali, namespace: flux-system}
spec: {interval: 10m, prune: true}
status:
  inventory:
    entries:
    - {id: kiali_operator_apps_Deployment, v: v1}
    - {id: demo_kiali_kiali.io_Kiali, v: v1alpha1}
    - {id: _system__kiali_rbac.authorization.k8s.io_ClusterRole, v: v1}
    - {id: _kiali__Namespace, v: v1}
    - {id: nonsense, v: v1}
    - {id: a_b, v: v1}
    - {id: a__b_c, v: v1}
`

func TestKustomization(t *testing.T) {
	want := []Name{
		{Object: policies.Object{Resource: "kiali.kiali.io", Namespace: "demo", Name: "kiali"}},
		{Object: policies.Object{Resource: "deployment.apps", Namespace: "kiali", Name: "operator"}},
		{Object: policies.Object{Resource: "clusterrole.rbac.authorization.k8s.io", Namespace: "flux-system", Name: "system:kiali"}},
		{Object: policies.Object{Resource: "namespace", Namespace: "flux-system", Name: "kiali"}},
	}
	for _, tt := range []struct {
		reason, spec string
		entries      []Name
		stays        string
	}{
		{"it prunes", "{prune: true}", want, ""},
		{"it prunes, said", "{prune: true, deletionPolicy: MirrorPrune}", want, ""},
		{"it deletes, though it does not prune", "{prune: false, deletionPolicy: Delete}", want, ""},
		{"it deletes, and waits", "{prune: false, deletionPolicy: WaitForTermination}", want, ""},
		{"it does not prune", "{prune: false}", nil, "does not prune"},
		{"it orphans", "{prune: true, deletionPolicy: Orphan}", nil, "Orphan"},
		{"it is suspended", "{prune: true, suspend: true}", nil, "it is suspended: only the Kustomization is deleted"},
		{"in another cluster", "{prune: true, kubeConfig: {secretRef: {name: k}}}", nil, "the cluster of its kubeConfig"},
	} {
		var got Question
		got.kustomization(objectOf(t, strings.Replace(fluxKustomization, "{interval: 10m, prune: true}", tt.spec, 1)))
		if diff := cmp.Diff(tt.entries, got.Names); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", tt.reason, diff)
		}
		if notes := strings.Join(got.Notes, "\n"); (len(got.Names) == 0) != (tt.stays != "") || !strings.Contains(notes, tt.stays) {
			t.Errorf("%s: notes %q, want %q", tt.reason, notes, tt.stays)
		}
	}
}

func TestHelmRelease(t *testing.T) {
	const release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: kiali, namespace: apps}\nspec: {}\nstatus: {history: [{name: apps-kiali, namespace: kiali, version: 3}, {name: old}]}\n"
	for _, tt := range []struct{ reason, text, namespace, name, stays string }{
		{"beside it", release, "apps", "apps-kiali", ""},
		{"in a namespace of its own", strings.Replace(release, "status: {", "status: {storageNamespace: store, ", 1), "store", "apps-kiali", ""},
		{"suspended", strings.Replace(release, "spec: {}", "spec: {suspend: true}", 1), "", "", "it is suspended: only the HelmRelease is deleted"},
		{"never installed", strings.Split(release, "status:")[0], "", "", "it has no release yet"},
	} {
		namespace, name, stays := helmRelease(objectOf(t, tt.text))
		if namespace != tt.namespace || name != tt.name || (stays == "") != (tt.stays == "") || !strings.Contains(stays, tt.stays) {
			t.Errorf("%s: got %q %q %q", tt.reason, namespace, name, stays)
		}
	}
}

func TestKept(t *testing.T) {
	kept := func(by func(*unstructured.Unstructured) string, metadata string) string {
		return by(objectOf(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: "+metadata))
	}
	for metadata, want := range map[string]string{
		"{annotations: {argocd.argoproj.io/sync-options: 'Prune=false, Delete=false'}}": "argocd.argoproj.io/sync-options: Delete=false",
		"{annotations: {argocd.argoproj.io/sync-options: Prune=false}}":                 "", // is about syncs
		"{annotations: {helm.sh/resource-policy: keep}}":                                "helm.sh/resource-policy: keep",
		"{name: a}": "",
	} {
		if got := kept(keptByArgo, metadata); got != want {
			t.Errorf("Argo CD, %s: %q, want %q", metadata, got, want)
		}
	}
	for metadata, want := range map[string]string{
		"{annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}}": "kustomize.toolkit.fluxcd.io/prune: disabled",
		"{labels: {kustomize.toolkit.fluxcd.io/prune: Disabled}}":      "kustomize.toolkit.fluxcd.io/prune: disabled",
		"{labels: {kustomize.toolkit.fluxcd.io/prune: enabled}}":       "",
	} {
		if got := kept(keptByFlux, metadata); got != want {
			t.Errorf("Flux, %s: %q, want %q", metadata, got, want)
		}
	}
}

func TestOwned(t *testing.T) {
	set := &unstructured.Unstructured{}
	set.SetUID(types.UID("u"))
	mine, other := objectOf(t, argoApplication), objectOf(t, argoApplication)
	mine.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "s", "uid": "u"}}
	var got Question
	if got.applicationsOf(set, []unstructured.Unstructured{*other, *mine}); len(got.Names) != 4 || got.Names[3].Name != "kiali" || !got.Waits {
		t.Errorf("got %v, want the objects of one Application and itself", got.Names)
	}
}

func FuzzParseEntry(f *testing.F) {
	f.Add("ns_name_group_Kind")
	f.Fuzz(func(t *testing.T, id string) {
		if n, ok := parseEntry(id); ok && (n.Name == "" || strings.HasPrefix(n.Resource, ".")) {
			t.Errorf("%q: an object without a name or a kind", id)
		}
	})
}
