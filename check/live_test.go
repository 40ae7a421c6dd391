package check

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// apiServer answers what is in answers by path, and forbids the rest.
func apiServer(t *testing.T, answers map[string]any) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.URL.Path]
		if !found {
			answer = refusal(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		w.Header().Set("Content-Type", "application/json")
		if status, ok := answer.(metav1.Status); ok {
			w.WriteHeader(int(status.Code))
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func refusal(code int32, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: string(reason)}
}

// serving is a cluster that has namespaces and pods, and what is in more.
func serving(more map[string]any) map[string]any {
	verbs := metav1.Verbs{"get", "list", "delete"}
	answers := map[string]any{
		"/version": map[string]any{"gitVersion": "v1.36.3"},
		"/api":     metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis":    metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}},
		"/api/v1": metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", ShortNames: []string{"ns"}, Verbs: verbs},
			{Name: "pods", SingularName: "pod", Kind: "Pod", Namespaced: true, Verbs: verbs},
			{Name: "services", SingularName: "service", Kind: "Service", Namespaced: true, Verbs: verbs},
			{Name: "bindings", SingularName: "binding", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}},
		}},
	}
	for path, answer := range more {
		answers[path] = answer
	}
	return answers
}

func TestFromCluster(t *testing.T) {
	demo := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "demo"}, "spec": map[string]any{"finalizers": []any{"kubernetes"}}}
	named := func(kind, name string) any {
		return map[string]any{
			"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": map[string]any{},
			"items": []any{map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}},
		}
	}
	hooks := admissionregistrationv1.SchemeGroupVersion
	for _, tt := range []struct {
		reason  string
		answers map[string]any
		target  Name
		verdict policies.Verdict
		err     string // a part of it
	}{
		{
			reason:  "the object can be read, what is in it cannot",
			answers: serving(map[string]any{"/api/v1/namespaces/demo": demo}),
			target:  Name{"ns", "demo", "", 0, ""}, verdict: policies.Unknown,
		},
		{
			reason:  "the object cannot be read",
			answers: serving(nil),
			target:  Name{"ns", "demo", "", 0, ""}, verdict: policies.Unknown,
		},
		{
			reason: "rights in one namespace do not show what may refuse the request",
			answers: serving(map[string]any{
				"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{
					{Name: hooks.Group, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: hooks.String(), Version: hooks.Version}}, PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: hooks.String(), Version: hooks.Version}},
				}},
				"/apis/" + hooks.String(): metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: hooks.String(), APIResources: []metav1.APIResource{
					{Name: "validatingwebhookconfigurations", SingularName: "validatingwebhookconfiguration", Kind: "ValidatingWebhookConfiguration", Verbs: metav1.Verbs{"get", "list", "watch", "delete"}},
				}},
				"/api/v1/namespaces/demo/services/web": map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web", "namespace": "demo"}},
				"/api/v1/namespaces/demo/services":     map[string]any{"apiVersion": "v1", "kind": "ServiceList", "metadata": map[string]any{}, "items": []any{}},
			}),
			target: Name{"service", "web", "demo", 0, ""}, verdict: policies.Unknown,
		},
		{
			reason: "no such object",
			answers: serving(map[string]any{
				"/api/v1/namespaces/dmo": refusal(http.StatusNotFound, metav1.StatusReasonNotFound),
				"/api/v1/namespaces":     named("Namespace", "demo"),
			}),
			target: Name{"ns", "dmo", "", 0, ""}, err: `there is no namespaces/dmo; did you mean "demo"?`,
		},
		{
			reason: "no such object, nor namespace",
			answers: serving(map[string]any{
				"/api/v1/namespaces/dmo/pods/web": refusal(http.StatusNotFound, metav1.StatusReasonNotFound),
				"/api/v1/namespaces/dmo":          refusal(http.StatusNotFound, metav1.StatusReasonNotFound),
				"/api/v1/namespaces":              named("Namespace", "demo"),
			}),
			target: Name{"pod", "web", "dmo", 0, ""}, err: `there is no pods/web -n dmo, for there is no namespace "dmo"; did you mean "demo"?`,
		},
		{
			reason:  "no such type",
			answers: serving(nil),
			target:  Name{"pud", "web", "demo", 0, ""}, err: `there is no type "pud"; did you mean "pod"?`,
		},
		{
			reason:  "nothing that can be deleted",
			answers: serving(nil),
			target:  Name{"binding", "web", "demo", 0, ""}, err: "bindings cannot be deleted",
		},
		{
			reason:  "expired credentials",
			answers: map[string]any{"/api": refusal(http.StatusUnauthorized, metav1.StatusReasonUnauthorized), "/apis": refusal(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)},
			target:  Name{"ns", "demo", "", 0, ""}, err: "the cluster does not accept the credentials",
		},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			subject, world, err := FromCluster(t.Context(), apiServer(t, tt.answers), cluster.Options{}, tt.target, slog.New(slog.DiscardHandler))
			if err != nil || tt.err != "" {
				if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got error %v, want %q", err, tt.err)
				}
				return
			}
			report, err := Ask(t.Context(), newEngine(t), world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.verdict, report.Verdict); diff != "" || (len(report.Unseen) == 0) != (tt.verdict == policies.Completes) {
				t.Errorf("unseen %q, -want, +got:\n%s", report.Unseen, diff)
			}
		})
	}
}

func TestFromClusterThatIsNotThere(t *testing.T) {
	_, _, err := FromCluster(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"}, cluster.Options{}, Name{"ns", "demo", "", 0, ""}, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "the cluster does not answer: check the network and --context") {
		t.Errorf("got error %v", err)
	}
}

// TestUnread counts objects whose status nobody looked at.
func TestUnread(t *testing.T) {
	wait := Wait{Finalizer: "x.io/f", Resource: "gadgets.x.io", Namespace: "demo", Names: []string{"a", "b"}, Count: 5}
	definition := map[string]any{"gadgets.x.io": map[string]any{}}
	read := map[string]any{"demo": map[string]any{"gadgets.x.io": map[string]any{"a": []any{}, "other": []any{}}}}
	for _, tt := range []struct {
		reason string
		doc    map[string]any
		want   int
	}{
		{"one was read", map[string]any{"crds": definition, "conditions": read}, 4},
		{"none could be read", map[string]any{"crds": definition, "conditions": map[string]any{"demo": map[string]any{}}}, 5},
		{"nobody reads conditions, as over a snapshot", map[string]any{"crds": definition}, 0},
		{"what built-in kinds say is not about their finalizers", map[string]any{"conditions": read}, 0},
	} {
		if got := unread(tt.doc, wait); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.reason, got, tt.want)
		}
	}
}
