package check

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

func TestAllTerminating(t *testing.T) {
	object := func(kind, namespace, name, deleted string) map[string]any {
		metadata := map[string]any{"name": name, "uid": kind + namespace + name}
		if namespace != "" {
			metadata["namespace"] = namespace
		}
		if deleted != "" {
			metadata["deletionTimestamp"] = deleted
		}
		return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": metadata}
	}
	list := func(kind string, items ...any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": kind + "List", "metadata": map[string]any{}, "items": items}
	}
	pod := object("Pod", "a", "p", "2026-01-01T03:00:00Z")
	pod["metadata"].(map[string]any)["finalizers"] = []any{"example.com/f"}
	stuck, other := object("Namespace", "", "a", "2026-01-01T02:00:00Z"), object("Namespace", "", "b", "2026-01-01T01:00:00Z")
	server := apiServer(t, serving(map[string]any{
		"/api/v1/namespaces":            list("Namespace", stuck, other, object("Namespace", "", "c", "")),
		"/api/v1/namespaces/a":          stuck,
		"/api/v1/namespaces/b":          other,
		"/api/v1/pods":                  list("Pod", pod, object("Pod", "c", "runs", "")),
		"/api/v1/namespaces/a/pods":     list("Pod", pod),
		"/api/v1/namespaces/a/pods/p":   pod,
		"/api/v1/services":              list("Service"),
		"/api/v1/namespaces/a/services": list("Service"),
	}))
	cases := map[string]struct {
		reason, namespace string
		want              []string
	}{
		"everywhere": {"the oldest first; what is not deleted is left out", "", []string{"120m", "namespaces/b", "60m", "namespaces/a", "30s", "pods/p -n a"}},
		"one":        {"the namespace and what is in it", "a", []string{"60m", "namespaces/a", "30s", "pods/p -n a"}},
		"none":       {"a namespace in which nothing is", "c", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all, err := AllTerminating(t.Context(), server, newEngine(t), cluster.Options{}, tc.namespace, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			all.now = time.Date(2026, 1, 1, 3, 0, 30, 0, time.UTC)
			var text strings.Builder
			if err := all.Text(&text); err != nil {
				t.Fatal(err)
			}
			var got []string
			rows, _, _ := strings.Cut(strings.TrimSpace(text.String()), "\n\n")
			for _, row := range strings.Split(rows, "\n")[1:] {
				columns := strings.Fields(row)
				object, _, _ := strings.Cut(row[strings.Index(row, columns[2]):], "  ")
				got = append(got, columns[0], object)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s\n%s", tc.reason, diff, text.String())
			}
		})
	}
}

// TestTerminatingHidden never calls it an end where something could not be listed: that
// may be Terminating.
func TestTerminatingHidden(t *testing.T) {
	list := func(kind string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": kind + "List", "metadata": map[string]any{}, "items": []any{}}
	}
	forbidden := map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
	for name, tc := range map[string]struct {
		reason, namespace, hidden string
		want                      []string
		verdict                   policies.Verdict
	}{
		"Hidden":  {"pods of the namespace", "a", "/api/v1/namespaces/a/pods", []string{"pods: forbidden"}, policies.Unknown},
		"Nothing": {"all was listed", "a", "", []string{}, policies.Completes},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]any{
				"/api/v1/namespaces": list("Namespace"), "/api/v1/pods": list("Pod"), "/api/v1/services": list("Service"),
				"/api/v1/namespaces/a/pods": list("Pod"), "/api/v1/namespaces/a/services": list("Service"),
			}
			if tc.hidden != "" {
				answers[tc.hidden], answers["/api/v1/pods"] = forbidden, forbidden
			}
			all, err := AllTerminating(t.Context(), apiServer(t, serving(answers)), newEngine(t), cluster.Options{}, tc.namespace, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, all.Unseen); diff != "" || all.Verdict != tc.verdict {
				t.Errorf("%s: verdict %s, want %s; unseen: -want, +got:\n%s", tc.reason, all.Verdict, tc.verdict, diff)
			}
			var text strings.Builder
			if err := all.Text(&text); err != nil {
				t.Fatal(err)
			}
			if clear := strings.Contains(text.String(), "nothing is being deleted"); clear != (tc.hidden == "") {
				t.Errorf("%s: it says\n%s", tc.reason, text.String())
			}
		})
	}
}
