package answer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// apart has the fixtures for which check in the cluster differs from the handler, and why.
// docs/limits.md lists what they have in common.
var apart = map[string]string{
	"admission_policy_blocks_delete/testdata/hang_some_objects.yaml": "it reads the objects that a policy would see",
	"failing_webhook_blocks_delete/testdata/hang_some_objects.yaml":  "it reads the labels by which a webhook selects objects",
	"webhook_backend_in_namespace/testdata/hang_labels.yaml":         "it reads the labels by which a webhook selects objects",
}

// TestLiveParity serves the objects of each fixture from an API server: check in the cluster
// reports the handler's findings, except for those in apart.
func TestLiveParity(t *testing.T) {
	engine := newEngine(t)
	compared := 0
	for d := range samples(t) {
		short, _ := filepath.Rel("../policies", d.file)
		config, can := served(t, d.all)
		if !can {
			continue
		}
		s, world, err := fromCluster(t, config, cluster.Options{}, d.name)
		if err != nil {
			t.Errorf("%s: %v", short, err)
			continue
		}
		ask := func(world *cluster.World, s Subject) (policies.Verdict, []string) {
			s.User = authenticationv1.UserInfo{}
			report, err := ask(t.Context(), engine, world, s, nil)
			if err != nil {
				t.Fatal(err)
			}
			var findings []string
			for _, f := range report.Findings {
				findings = append(findings, fmt.Sprintf("%s %s: %s", f.Policy, f.Certainty, f.Message))
			}
			slices.Sort(findings)
			return report.Verdict, findings
		}
		wantVerdict, want := ask(d.world, d.subject)
		gotVerdict, got := ask(world, s)
		diff := cmp.Diff(want, got)
		if gotVerdict != wantVerdict && gotVerdict != policies.Unknown {
			diff += fmt.Sprintf("handler: %s, check: %s", wantVerdict, gotVerdict)
		}
		switch why := apart[filepath.ToSlash(short)]; {
		case why != "" && diff == "":
			t.Errorf("%s: check and the handler agree: remove it from apart", short)
		case why == "" && diff != "":
			t.Errorf("%s: -handler, +check:\n%s", short, diff)
		}
		compared++
	}
	if !race.Detector && compared < 100 {
		t.Errorf("compared only %d fixtures", compared)
	}
}

// TestNeededElsewhere checks that an object needed from another namespace is read by name, and that
// the verdict is not "completes" if that read is forbidden.
func TestNeededElsewhere(t *testing.T) {
	_, name, all, _ := fixture(t, "../policies/missing_reference/testdata/hang_other_namespace.yaml")
	there := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "token", "namespace": "elsewhere"}}}
	for reason, tc := range map[string]struct {
		objects []*unstructured.Unstructured
		refused bool
		verdict policies.Verdict
		unseen  string
	}{
		"it does not exist":             {all, false, policies.AtRisk, ""},
		"it exists":                     {append(slices.Clone(all), there), false, policies.Completes, ""},
		"it cannot be read":             {all, true, policies.Unknown, "secrets elsewhere/token: "},
		"it exists, and cannot be read": {append(slices.Clone(all), there), true, policies.Unknown, "secrets elsewhere/token: "},
	} {
		config, _ := served(t, tc.objects)
		var reads []string
		forbid(config, func(r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/secrets") {
				reads = append(reads, r.URL.Path+"?"+r.URL.Query().Get("fieldSelector"))
			}
			return tc.refused && strings.Contains(r.URL.Path, "/namespaces/elsewhere/")
		})
		s, world, err := fromCluster(t, config, cluster.Options{}, name)
		if err != nil {
			t.Fatal(err)
		}
		report, err := ask(t.Context(), newEngine(t), world, s, nil)
		if err != nil || report.Verdict != tc.verdict {
			t.Errorf("%s: got %s, want %s: %v %v", reason, report.Verdict, tc.verdict, report.Unseen, err)
		}
		if unseen := strings.Join(policies.UnseenTexts(report.Unseen), "\n"); !strings.Contains(unseen, tc.unseen) || tc.unseen == "" && strings.Contains(unseen, "elsewhere") {
			t.Errorf("%s: unseen is %q, want %q", reason, unseen, tc.unseen)
		}
		slices.Sort(reads)
		want := []string{"/api/v1/namespaces/demo/secrets?", "/api/v1/namespaces/elsewhere/secrets?metadata.name=token"}
		if diff := cmp.Diff(want, reads); diff != "" {
			t.Errorf("%s: reads of Secrets: -want, +got:\n%s", reason, diff)
		}
	}
}

// forbid makes the API server refuse the requests that hides matches.
func forbid(config *rest.Config, hides func(*http.Request) bool) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if !hides(r) {
				return next.RoundTrip(r)
			}
			w := httptest.NewRecorder()
			w.WriteHeader(http.StatusForbidden)
			return w.Result(), nil
		})
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// served returns an API server with these objects and no others; can is false if an API server
// cannot hold one of them.
func served(t *testing.T, objects []*unstructured.Unstructured) (config *rest.Config, can bool) {
	t.Helper()
	groups, kinds := map[string][]metav1.APIResource{}, map[string]map[string]bool{}
	lists := map[string][]*unstructured.Unstructured{}
	all := map[string]*unstructured.Unstructured{}
	add := func(gv, plural, kind string, namespaced bool) {
		if kinds[gv] == nil {
			kinds[gv] = map[string]bool{}
		}
		if !kinds[gv][plural] {
			kinds[gv][plural] = true
			groups[gv] = append(groups[gv], metav1.APIResource{Name: plural, SingularName: strings.ToLower(kind), Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "list", "watch", "delete"}})
		}
	}
	add("v1", "namespaces", "Namespace", false)
	for _, o := range objects {
		if strings.HasPrefix(o.GetAPIVersion(), "termguard.dev/") {
			return nil, false
		}
		res := cluster.Resources(objects)[o.GroupVersionKind()]
		root := "/apis/"
		if res.Group == "" {
			root = "/api/"
		}
		add(o.GetAPIVersion(), res.Resource, o.GetKind(), res.Namespaced)
		path := root + o.GetAPIVersion()
		lists[path+"/"+res.Resource] = append(lists[path+"/"+res.Resource], o)
		in := path + "/" + res.Resource
		if o.GetNamespace() != "" {
			in = path + "/namespaces/" + o.GetNamespace() + "/" + res.Resource
			lists[in] = append(lists[in], o)
		}
		all[in+"/"+o.GetName()] = o
	}
	answer := func(r *http.Request) any {
		path := r.URL.Path
		switch path {
		case "/version":
			return map[string]any{"gitVersion": "v1.36.3"}
		case "/api":
			return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
		case "/apis":
			list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
			for gv := range groups {
				if group, version, named := strings.Cut(gv, "/"); named {
					is := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
					list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{is}, PreferredVersion: is})
				}
			}
			return list
		}
		gv := strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
		if resources := groups[gv]; resources != nil {
			return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv, APIResources: resources}
		}
		if o := all[path]; o != nil {
			return o.Object
		}
		parts := strings.Split(path, "/")
		plural, gv := parts[len(parts)-1], strings.Join(parts[2:len(parts)-1], "/")
		gv, _, _ = strings.Cut(gv, "/namespaces/")
		if !kinds[gv][plural] {
			return refusal(http.StatusNotFound, metav1.StatusReasonNotFound)
		}
		items := []any{}
		var kind string
		for _, api := range groups[gv] {
			if api.Name == plural {
				kind = api.Kind
			}
		}
		for _, o := range lists[path] {
			items = append(items, o.Object)
		}
		list := map[string]any{"apiVersion": gv, "kind": kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items}
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
		}
		return list
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := answer(r)
		w.Header().Set("Content-Type", "application/json")
		if status, failed := a.(metav1.Status); failed {
			w.WriteHeader(int(status.Code))
		}
		if err := json.NewEncoder(w).Encode(a); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, true
}
