package answer

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/policies"
)

// dryServer answers by "METHOD PATH", from answers first and from serving otherwise. A request that
// changes something and is no dry run fails the test.
func dryServer(t *testing.T, answers map[string]any) (*rest.Config, func() []string) {
	t.Helper()
	var mu sync.Mutex
	requests := map[string]bool{}
	served := serving(nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, exists := answers[r.Method+" "+r.URL.Path]
		if !exists {
			answer, exists = served[r.URL.Path]
		}
		if !exists {
			answer = refusal(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		var body struct {
			DryRun  []string `json:"dryRun"`
			Cascade string   `json:"propagationPolicy"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		if r.Method != http.MethodGet {
			if dry := append(body.DryRun, r.URL.Query()["dryRun"]...); !slices.Equal(dry, []string{"All"}) {
				t.Errorf("%s %s is not a dry run: %q", r.Method, r.URL, dry)
			}
			request := r.Method + " " + r.URL.Path
			if body.Cascade != "" {
				request += " in " + body.Cascade
			}
			mu.Lock()
			requests[request] = true
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		if status, ok := answer.(metav1.Status); ok && status.Code != 0 {
			w.WriteHeader(int(status.Code))
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, func() []string { return slices.Sorted(maps.Keys(requests)) }
}

func denied(message string) metav1.Status {
	status := refusal(http.StatusForbidden, metav1.StatusReasonForbidden)
	status.Message = message
	return status
}

func TestDryRun(t *testing.T) {
	ok := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
	const hook = `admission webhook "hook.test" denied the request: no`
	pod := func(finalizers ...any) inObject {
		return inObject{"apiVersion": "v1", "kind": "Pod", "metadata": inObject{"name": "p", "namespace": "demo", "finalizers": finalizers}}
	}
	held := inObject{"apiVersion": "v1", "kind": "PodList", "items": []any{pod(), pod("x.io/f")}}
	const pods, namespace = "/api/v1/namespaces/demo/pods", "/api/v1/namespaces/demo"
	for _, tt := range []struct {
		reason  string
		answers map[string]any
		verdict policies.Verdict
		want    []string
		unseen  []string
	}{
		{"nothing refuses", map[string]any{
			"DELETE " + namespace: ok, "GET " + pods: held, "DELETE " + pods + "/p": ok, "PATCH " + pods + "/p": pod(),
		}, policies.Unknown, nil, []string{"services: dry run: forbidden"}},
		{"a webhook refuses what is in it", map[string]any{
			"DELETE " + namespace: ok, "GET " + pods: held, "DELETE " + pods + "/p": denied(hook), "PATCH " + pods + "/p": pod(),
		}, policies.AtRisk, []string{"may a dry run of its deletion is refused: " + hook}, []string{"services: dry run: forbidden"}},
		{"a webhook refuses that finalizers are removed", map[string]any{
			"DELETE " + namespace: ok, "GET " + pods: held, "DELETE " + pods + "/p": ok, "PATCH " + pods + "/p": denied(hook),
		}, policies.AtRisk, []string{"may a dry run of the removal of its finalizers is refused: " + hook}, []string{"services: dry run: forbidden"}},
		{"a webhook puts the finalizer back", map[string]any{
			"DELETE " + namespace: ok, "GET " + pods: held, "DELETE " + pods + "/p": ok, "PATCH " + pods + "/p": pod("x.io/f"),
		}, policies.AtRisk, []string{"may a dry run of the removal of its finalizers leaves x.io/f: a webhook or a policy puts them back"}, []string{"services: dry run: forbidden"}},
		{"the namespace itself is refused", map[string]any{
			"DELETE " + namespace: denied(hook), "GET " + pods: inObject{"apiVersion": "v1", "kind": "PodList", "items": []any{}},
		}, policies.Refused, []string{"will a dry run of its deletion is refused: " + hook}, []string{"services: dry run: forbidden"}},
		{"who asks may not", map[string]any{
			"DELETE " + namespace: denied(`namespaces "demo" is forbidden: User "u" cannot delete resource "namespaces"`), "GET " + pods: inObject{"apiVersion": "v1", "kind": "PodList", "items": []any{}},
		}, policies.Unknown, nil, []string{"dry run of its deletion of namespaces/demo: forbidden", "services: dry run: forbidden"}},
		{"a webhook with side effects is not asked", map[string]any{
			"DELETE " + namespace: func() metav1.Status {
				status := denied(`admission webhook "hook.test" does not support dry run`)
				status.Code, status.Reason = http.StatusBadRequest, metav1.StatusReasonBadRequest
				return status
			}(), "GET " + pods: inObject{"apiVersion": "v1", "kind": "PodList", "items": []any{}},
		}, policies.Unknown, nil, []string{`dry run of its deletion of namespaces/demo: admission webhook "hook.test" does not support dry run`, "services: dry run: forbidden"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			config, requests := dryServer(t, tt.answers)
			s := Subject{Type: Type{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}, Name: "demo", Object: inObject{"metadata": inObject{"name": "demo"}}}
			all := Answer{Items: []Item{{Verdict: policies.Completes}}}
			report := &all.Items[0]
			background := map[string]any{"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background", "gracePeriodSeconds": int64(1)}
			if err := report.dryRun(t.Context(), config, s, background); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, f := range report.Findings {
				want = append(want, string(f.Certainty)+" "+f.Message)
			}
			unseen := policies.UnseenTexts(policies.SortUnseen(report.Unseen))
			if diff := cmp.Diff(tt.want, want); diff != "" || report.Verdict != tt.verdict {
				t.Errorf("%s; -want, +got:\n%s", report.Verdict, diff)
			}
			if diff := cmp.Diff(tt.unseen, unseen); diff != "" {
				t.Errorf("unseen: -want, +got:\n%s", diff)
			}
			if strings.Contains(tt.reason, "nothing") {
				if diff := cmp.Diff([]string{"DELETE " + namespace + " in Background", "DELETE " + pods + "/p in Background", "PATCH " + pods + "/p"}, requests()); diff != "" {
					t.Errorf("requests: -want, +got:\n%s", diff)
				}
			}
		})
	}
}

// TestDryRunWarns checks that a user who cannot read the results of node probes sees them in the
// webhook's warning, which names no path. The warning repeats nothing that the check knows itself.
func TestDryRunWarns(t *testing.T) {
	const immutable = "termguard: will hang: 1 pod on 1 node has files that nobody can remove [immutable-files]"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodDelete || r.URL.Path != "/api/v1/namespaces/demo/pods/p" {
			t.Errorf("unexpected request %s %s", r.Method, r.URL)
		}
		for _, text := range []string{immutable, "termguard: may hang: its node is silent [unreachable-node]", `termguard: run \"kubectl termguard check pods/p -n demo\" for evidence and the safe way out`, "v1 Endpoints is deprecated"} {
			w.Header().Add("Warning", `299 - "`+text+`"`)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	}))
	defer server.Close()
	s := Subject{Type: Type{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespaced: true}, Namespace: "demo", Name: "p", Object: inObject{"metadata": inObject{"name": "p", "namespace": "demo"}}}
	silent := policies.Finding{Policy: "unreachable-node", Certainty: policies.May, Message: "its node is silent"}
	all := Answer{Items: []Item{{Verdict: policies.AtRisk, Findings: []policies.Finding{silent}, Guard: &Guard{Answer: Unknown}}}}
	report := &all.Items[0]
	if err := report.dryRun(t.Context(), &rest.Config{Host: server.URL}, s, nil); err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) != 2 || report.Findings[1].Message != "a webhook that answers dry runs warns: "+immutable || report.Findings[1].Certainty != policies.May || report.Verdict != policies.AtRisk {
		t.Errorf("%s: %+v", report.Verdict, report.Findings)
	}
	if report.Guard.Answer != Warns {
		t.Errorf("Guard = %+v", report.Guard)
	}
}

// TestDryRunGuard checks that the answer reports what the webhook itself would do, and nothing
// about it if the webhook was not heard.
func TestDryRunGuard(t *testing.T) {
	const path = "/api/v1/namespaces/demo/pods/p"
	ok := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
	s := Subject{Type: Type{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespaced: true}, Namespace: "demo", Name: "p", Object: inObject{"metadata": inObject{"name": "p", "namespace": "demo"}}}
	down := refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	down.Message = `Internal error occurred: failed calling webhook "delete.termguard.dev": no endpoints available`
	for name, tt := range map[string]struct {
		reason string
		answer metav1.Status
		guard  *Guard
		want   *Guard
	}{
		"Allows":   {"nobody says anything", ok, &Guard{Answer: Unknown, Why: "x"}, &Guard{Answer: Allows}},
		"Refuses":  {"it refuses", denied(`admission webhook "delete.termguard.dev" denied the request: termguard: no`), &Guard{Answer: Unknown}, &Guard{Answer: Refuses}},
		"Down":     {"it cannot be called, and fails closed", down, &Guard{Answer: Unknown}, &Guard{Answer: Refuses}},
		"Another":  {"another webhook refuses first", denied(`admission webhook "hook.test" denied the request: no`), &Guard{Answer: Unknown}, &Guard{Answer: Unknown, Why: "the dry run of the deletion ended before: forbidden"}},
		"NoRight":  {"who asks may not delete it", denied(`pods "p" is forbidden: User "u" cannot delete resource "pods"`), &Guard{Answer: Unknown}, &Guard{Answer: Unknown, Why: "the dry run of the deletion ended before: forbidden"}},
		"NoneHere": {"there is none", ok, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			config, _ := dryServer(t, map[string]any{"DELETE " + path: tt.answer})
			all := Answer{Items: []Item{{Verdict: policies.Completes, Guard: tt.guard}}}
			report := &all.Items[0]
			if err := report.dryRun(t.Context(), config, s, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, report.Guard); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tt.reason, diff)
			}
		})
	}
}
