package answer

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/policies"
)

// withGitOps returns a cluster that serves the kinds of Argo CD and Flux, and the answers in more.
func withGitOps(more map[string]any) map[string]any {
	answers := serving(more)
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	verbs := metav1.Verbs{"get", "list", "delete"}
	for _, api := range []struct {
		group, version string
		resources      []metav1.APIResource
	}{
		{"argoproj.io", "v1alpha1", []metav1.APIResource{
			{Name: "applications", SingularName: "application", Kind: "Application", Namespaced: true, ShortNames: []string{"app", "apps"}, Verbs: verbs},
			{Name: "applicationsets", SingularName: "applicationset", Kind: "ApplicationSet", Namespaced: true, ShortNames: []string{"appset"}, Verbs: verbs},
		}},
		{"kustomize.toolkit.fluxcd.io", "v1", []metav1.APIResource{{Name: "kustomizations", SingularName: "kustomization", Kind: "Kustomization", Namespaced: true, ShortNames: []string{"ks"}, Verbs: verbs}}},
		{"helm.toolkit.fluxcd.io", "v2", []metav1.APIResource{{Name: "helmreleases", SingularName: "helmrelease", Kind: "HelmRelease", Namespaced: true, ShortNames: []string{"hr"}, Verbs: verbs}}},
	} {
		version := metav1.GroupVersionForDiscovery{GroupVersion: api.group + "/" + api.version, Version: api.version}
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: api.group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		answers["/apis/"+version.GroupVersion] = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: version.GroupVersion, APIResources: api.resources}
	}
	answers["/apis"] = groups
	return answers
}

type inObject = map[string]any

func resource(group, kind, namespace, name string, wave int) any {
	return inObject{"group": group, "kind": kind, "namespace": namespace, "name": name, "syncWave": wave, "version": "v1"}
}

func app(name string, more inObject, resources ...any) inObject {
	metadata := inObject{"name": name, "namespace": "argocd", "uid": name, "finalizers": []any{"resources-finalizer.argocd.argoproj.io"}}
	for key, value := range more {
		metadata[key] = value
	}
	return inObject{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata,
		"spec":   inObject{"syncPolicy": inObject{"automated": inObject{"selfHeal": true}}},
		"status": inObject{"resources": resources},
	}
}

func TestFromInventory(t *testing.T) {
	const apps, sets = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications", "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets"
	operator, object := resource("apps", "Deployment", "kiali", "operator", -1), resource("kiali.io", "Kiali", "demo", "kiali", 5)
	owned := inObject{"ownerReferences": []any{inObject{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "all", "uid": "set"}}}
	for _, tt := range []struct {
		reason  string
		answers map[string]any
		name    Name
		want    []Name
		waits   bool
		note    string // a part of the notes
		unseen  string
		err     string
		other   bool // it has no inventory
	}{
		{
			reason: "an Application deletes the highest wave first, and itself last", name: Name{Object: policies.Object{Resource: "app", Namespace: "argocd", Name: "kiali"}},
			answers: map[string]any{apps + "/kiali": app("kiali", nil, operator, object)}, waits: true,
			want: []Name{{Object: policies.Object{Resource: "kiali.kiali.io", Namespace: "demo", Name: "kiali"}, Place: -5}, {Object: policies.Object{Resource: "deployment.apps", Namespace: "kiali", Name: "operator"}, Place: 1}, {Object: policies.Object{Resource: "app", Namespace: "argocd", Name: "kiali"}, Place: 2}},
		},
		{
			reason: "an Application that does not prune", name: Name{Object: policies.Object{Resource: "application", Namespace: "argocd", Name: "kiali"}},
			answers: map[string]any{apps + "/kiali": app("kiali", inObject{"finalizers": nil}, operator, object)}, waits: true,
			want: []Name{{Object: policies.Object{Resource: "application", Namespace: "argocd", Name: "kiali"}}}, note: "only the Application is deleted",
		},
		{
			reason: "an ApplicationSet: waves order the objects of one Application only", name: Name{Object: policies.Object{Resource: "appset", Namespace: "argocd", Name: "all"}},
			answers: map[string]any{
				sets + "/all": inObject{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": inObject{"name": "all", "namespace": "argocd", "uid": "set"}},
				apps: inObject{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationList", "items": []any{
					app("a", owned, operator), app("b", owned, object), app("other", nil, resource("", "Pod", "x", "x", 0)),
				}},
			},
			want: []Name{
				{Object: policies.Object{Resource: "deployment.apps", Namespace: "kiali", Name: "operator"}}, {Object: policies.Object{Resource: "applications.argoproj.io", Namespace: "argocd", Name: "a"}},
				{Object: policies.Object{Resource: "kiali.kiali.io", Namespace: "demo", Name: "kiali"}}, {Object: policies.Object{Resource: "applications.argoproj.io", Namespace: "argocd", Name: "b"}}, {Object: policies.Object{Resource: "appset", Namespace: "argocd", Name: "all"}, Place: 1},
			},
		},
		{
			reason: "an ApplicationSet whose Applications may not be read", name: Name{Object: policies.Object{Resource: "appset", Namespace: "argocd", Name: "all"}},
			answers: map[string]any{sets + "/all": inObject{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": inObject{"name": "all", "namespace": "argocd", "uid": "set"}}},
			want:    []Name{{Object: policies.Object{Resource: "appset", Namespace: "argocd", Name: "all"}}}, unseen: "applications.argoproj.io: forbidden",
		},
		{
			reason: "a Kustomization", name: Name{Object: policies.Object{Resource: "ks", Namespace: "flux-system", Name: "kiali"}},
			answers: map[string]any{"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/kiali": inObject{
				"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": inObject{"name": "kiali", "namespace": "flux-system"},
				"spec":   inObject{"prune": true, "interval": "10m"},
				"status": inObject{"inventory": inObject{"entries": []any{inObject{"id": "kiali_operator_apps_Deployment", "v": "v1"}, inObject{"id": "demo_kiali_kiali.io_Kiali", "v": "v1"}}}},
			}},
			want: []Name{{Object: policies.Object{Resource: "kiali.kiali.io", Namespace: "demo", Name: "kiali"}}, {Object: policies.Object{Resource: "deployment.apps", Namespace: "kiali", Name: "operator"}}, {Object: policies.Object{Resource: "ks", Namespace: "flux-system", Name: "kiali"}, Place: 1}},
			note: "Flux recreates objects that are deleted by hand at its next interval (10m)",
		},
		{
			reason: "a HelmRelease: its release", name: Name{Object: policies.Object{Resource: "hr", Namespace: "ops", Name: "kiali"}},
			answers: map[string]any{
				"/apis/helm.toolkit.fluxcd.io/v2/namespaces/ops/helmreleases/kiali": inObject{
					"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": inObject{"name": "kiali", "namespace": "ops"},
					"status": inObject{"history": []any{inObject{"name": "kiali", "namespace": "ops", "version": 1}}},
				},
				"/api/v1/namespaces/ops/secrets":                             records("kiali.v1"),
				"/api/v1/namespaces/ops/secrets/sh.helm.release.v1.kiali.v1": stored(t, "helm.sh/release.v1", inObject{"name": "kiali", "version": 1, "info": inObject{"status": "deployed"}, "manifest": manifest}),
			},
			want: []Name{{Object: policies.Object{Resource: "deployment.apps", Namespace: "ops", Name: "kiali-operator"}}, {Object: policies.Object{Resource: "kiali.kiali.io", Namespace: "demo", Name: "kiali"}, Place: 1}, {Object: policies.Object{Resource: "hr", Namespace: "ops", Name: "kiali"}, Place: 2}},
			note: "helm.sh/resource-policy keeps: persistentvolumeclaim/data",
		},
		{
			reason: "a HelmRelease whose release does not exist", name: Name{Object: policies.Object{Resource: "hr", Namespace: "ops", Name: "kiali"}},
			answers: map[string]any{
				"/apis/helm.toolkit.fluxcd.io/v2/namespaces/ops/helmreleases/kiali": inObject{
					"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": inObject{"name": "kiali", "namespace": "ops"},
					"status": inObject{"history": []any{inObject{"name": "kiali"}}},
				},
				"/api/v1/namespaces/ops/secrets": records(),
			},
			err: `release "kiali" not found in namespace "ops"`,
		},
		{
			reason: "an Application that may not be read", name: Name{Object: policies.Object{Resource: "app", Namespace: "argocd", Name: "kiali"}},
			want: []Name{{Object: policies.Object{Resource: "app", Namespace: "argocd", Name: "kiali"}}}, unseen: "applications.argoproj.io/kiali -n argocd itself: forbidden",
		},
		{
			reason: "a missing object is an error of the caller", name: Name{Object: policies.Object{Resource: "app", Namespace: "argocd", Name: "none"}}, other: true,
			answers: map[string]any{apps + "/none": refusal(http.StatusNotFound, metav1.StatusReasonNotFound)},
		},
		{reason: "another kind", name: Name{Object: policies.Object{Resource: "ns", Name: "demo"}}, other: true},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			got, err := FromInventory(t.Context(), apiServer(t, withGitOps(tt.answers)), tt.name)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("got error %v, want %q", err, tt.err)
			}
			if tt.other {
				tt.want = []Name{tt.name}
			}
			if got.Together == tt.other && tt.err == "" {
				t.Errorf("has an inventory: got %t", got.Together)
			}
			if diff := cmp.Diff(tt.want, got.Names); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			if got.Waits != tt.waits || !strings.Contains(strings.Join(got.Notes, "\n"), tt.note) || strings.Join(policies.UnseenTexts(got.Unseen), "\n") != tt.unseen {
				t.Errorf("waits %t, notes %q, unseen %q", got.Waits, got.Notes, got.Unseen)
			}
		})
	}
}

// The objects that may hang are evaluated first among 10,000, and the answer says how many were not
// evaluated. No others are read. The cluster's resource types are looked up once for all of them,
// and once more for the facts.
func TestLargeInventory(t *testing.T) {
	resources := make([]any, 0, 10_000)
	for n := range 9_999 {
		resources = append(resources, resource("", "ConfigMap", "demo", fmt.Sprintf("c%d", n), 0))
	}
	resources = append(resources, resource("kiali.io", "Kiali", "demo", "kiali", 0))
	verbs := metav1.Verbs{"get", "list", "delete"}
	config, sent := apiServer(t, withGitOps(map[string]any{
		"/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/all": app("all", nil, resources...),
		"/api/v1": metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap", Namespaced: true, Verbs: verbs},
		}},
	})), &requests{paths: map[string]int{}}
	config.Wrap(sent.count)
	got, err := FromInventory(t.Context(), config, Name{Object: policies.Object{Resource: "app", Namespace: "argocd", Name: "all"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Names) != maxInventory+1 || got.Names[0].Name != "kiali" || got.Names[maxInventory].Name != "all" {
		t.Errorf("%d objects, the first %v", len(got.Names), got.Names[0])
	}
	if want := []string{"9000 of the 10000 objects in the inventory: only 1000 are checked"}; !cmp.Equal(want, policies.UnseenTexts(got.Unseen)) {
		t.Errorf("unseen %q, want %q", got.Unseen, want)
	}
	world, err := sessionOf(t, config).Find(t.Context(), &got)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Ask(t.Context(), evaluated{}, world, got)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Items)+len(set.Missing) != maxInventory+1 || set.Verdict != policies.Unknown || !cmp.Equal(set.Unseen, got.Unseen) {
		t.Errorf("verdict %s, %d objects, %d missing, unseen %q", set.Verdict, len(set.Items), len(set.Missing), set.Unseen)
	}
	if n := sent.within("/api/v1/namespaces/demo/configmaps/"); n != maxInventory-1 {
		t.Errorf("read %d objects, want %d", n, maxInventory-1)
	}
	if n := sent.within("/api/v1") - sent.within("/api/v1/"); n != 1 {
		t.Errorf("%d requests for the cluster's resource types, want 1", n)
	}
	if n := sent.within("/") - sent.within("/api/v1/namespaces/demo/configmaps/"); n > 50 {
		t.Errorf("%d more requests, want only the few lists of the facts", n)
	}
}

// requests counts the requests of a client by path.
type requests struct {
	http.RoundTripper
	mu    sync.Mutex
	paths map[string]int
}

func (r *requests) count(next http.RoundTripper) http.RoundTripper {
	r.RoundTripper = next
	return r
}

// RoundTrip counts a request and passes it on.
func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.paths[req.URL.Path]++
	r.mu.Unlock()
	return r.RoundTripper.RoundTrip(req)
}

// within counts the requests whose path begins with prefix.
func (r *requests) within(prefix string) (n int) {
	for path, count := range r.paths {
		if strings.HasPrefix(path, prefix) {
			n += count
		}
	}
	return n
}

// Argo CD waits from one wave to the next: an operator in the higher wave no longer exists when the
// object is deleted; in the lower wave it still does.
func TestWaves(t *testing.T) {
	world, engine := worldOf(t, "gitops.yaml"), newEngine(t)
	for file, waves := range map[string][2]int{"waves-hang.txt": {1, 0}, "waves-ok.txt": {0, 1}} {
		config := apiServer(t, withGitOps(map[string]any{
			"/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/kiali": app("kiali", nil,
				resource("apps", "Deployment", "ops", "kiali-operator", waves[0]), resource("kiali.io", "Kiali", "demo", "kiali", waves[1])),
		}))
		q, err := FromInventory(t.Context(), config, Name{Object: policies.Object{Resource: "application", Namespace: "argocd", Name: "kiali"}})
		if err != nil {
			t.Fatal(err)
		}
		if q.Targets, q.Missing, err = AllFromFacts(world, q.Names); err != nil || len(q.Missing) > 0 {
			t.Fatal(err, q.Missing)
		}
		for i := range q.Targets {
			q.Targets[i].Unseen = nil // they stand for those of a cluster
		}
		set, err := Ask(t.Context(), engine, world, q)
		if err != nil {
			t.Fatal(err)
		}
		if hangs := set.Verdict == policies.Hangs; hangs != (file == "waves-hang.txt") {
			t.Errorf("%s: %s", file, set.Verdict)
		}
		var text bytes.Buffer
		if err := set.Text(&text); err != nil {
			t.Fatal(err)
		}
		golden(t, file, text.Bytes())
	}
}

// An object that an annotation keeps is left out and named.
func TestSettle(t *testing.T) {
	var q Question
	q.kept = func(o *unstructured.Unstructured) string { return o.GetAnnotations()["keep"] }
	kept := Subject{Name: "kept", Object: inObject{"metadata": inObject{"annotations": inObject{"keep": "said so"}}}}
	goes := Subject{Name: "goes", Object: inObject{"metadata": inObject{}}}
	q.Targets = []Subject{kept, goes}
	if got, notes := q.settle(); len(got) != 1 || got[0].Name != "goes" || !strings.HasSuffix(notes[0], "said so") {
		t.Errorf("%v, %q", got, notes)
	}
}
