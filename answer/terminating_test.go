package answer

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/policies"
)

// list returns a list as an API server sends it.
func list(kind string, items ...any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": kind + "List", "metadata": map[string]any{}, "items": append([]any{}, items...)}
}

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
			all, err := sessionOf(t, server).AllTerminating(t.Context(), tc.namespace, MaxTerminating)
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

// TestTerminatingHidden checks that the list is not called complete if some types could not be
// listed: their objects may be Terminating.
func TestTerminatingHidden(t *testing.T) {
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
			all, err := sessionOf(t, apiServer(t, serving(answers))).AllTerminating(t.Context(), tc.namespace, MaxTerminating)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, append([]string{}, policies.UnseenTexts(all.Unseen)...)); diff != "" || all.Verdict != tc.verdict {
				t.Errorf("%s: verdict %s, want %s; unseen: -want, +got:\n%s", tc.reason, all.Verdict, tc.verdict, diff)
			}
			var text strings.Builder
			if err := all.Text(&text); err != nil {
				t.Fatal(err)
			}
			const here = " in namespace a; other namespaces were not checked (all: termguard check --terminating -A)\n"
			if clear := strings.Contains(text.String(), "no Terminating objects"+here); clear != (tc.hidden == "") || !strings.Contains(text.String(), here) {
				t.Errorf("%s: got\n%s", tc.reason, text.String())
			}
		})
	}
}

// TestTerminatingOf checks an object and the Terminating objects that belong to it.
func TestTerminatingOf(t *testing.T) {
	object := func(kind, namespace, name, owner string) map[string]any {
		metadata := map[string]any{"name": name, "namespace": namespace, "uid": kind + name, "deletionTimestamp": "2026-01-01T02:00:00Z"}
		if namespace == "" {
			delete(metadata, "namespace")
		}
		if owner != "" {
			metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": owner}}
		}
		return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": metadata}
	}
	stuck, top, middle := object("Namespace", "", "a", ""), object("Pod", "a", "top", ""), object("Pod", "a", "middle", "Podtop")
	last, other := object("Service", "a", "last", "Podmiddle"), object("Pod", "b", "other", "")
	answers := map[string]any{
		"/api/v1/namespaces": list("Namespace", stuck), "/api/v1/pods": list("Pod", middle, top, other), "/api/v1/services": list("Service", last),
		"/api/v1/namespaces/a/pods": list("Pod", top, middle), "/api/v1/namespaces/a/services": list("Service", last),
		"/api/v1/namespaces/a": stuck, "/api/v1/namespaces/a/pods/top": top, "/api/v1/namespaces/a/pods/middle": middle, "/api/v1/namespaces/a/services/last": last,
		"/api/v1/namespaces/a/pods/none": refusal(http.StatusNotFound, metav1.StatusReasonNotFound),
	}
	server := apiServer(t, serving(answers))
	for name, tc := range map[string]struct {
		reason string
		name   Name
		uid    string
		most   int
		want   []string
		gone   bool
	}{
		"Namespace": {"what is in it", Name{Object: policies.Object{Resource: "ns", Name: "a"}}, "", 10, []string{"namespaces/a", "pods/middle -n a", "pods/top -n a", "services/last -n a"}, false},
		"Owner":     {"what it owns, and what that owns", Name{Object: policies.Object{Resource: "pod", Namespace: "a", Name: "top"}}, "Podtop", 10, []string{"pods/middle -n a", "pods/top -n a", "services/last -n a"}, false},
		"Owned":     {"not its owner", Name{Object: policies.Object{Resource: "service", Namespace: "a", Name: "last"}}, "", 10, []string{"services/last -n a"}, false},
		"Bounded":   {"the first, and how many more", Name{Object: policies.Object{Resource: "ns", Name: "a"}}, "", 1, []string{"namespaces/a", "and 3 more"}, false},
		"Gone":      {"none of its name", Name{Object: policies.Object{Resource: "pod", Namespace: "a", Name: "none"}}, "Podnone", 10, nil, true},
		"Anew":      {"another of its name", Name{Object: policies.Object{Resource: "pod", Namespace: "a", Name: "top"}}, "Podbefore", 10, nil, true},
		"NoType":    {"its definition has gone, too", Name{Object: policies.Object{Resource: "gizmos", Namespace: "a", Name: "x"}}, "x", 10, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			all, _, err := sessionOf(t, server).TerminatingOf(t.Context(), tc.name, tc.uid, tc.most)
			if (err != nil) != tc.gone || Gone(err) != tc.gone {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			var got []string
			for _, item := range all.Items {
				got = append(got, item.String())
			}
			if all.Omitted > 0 {
				got = append(got, fmt.Sprintf("and %d more", all.Omitted))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	if _, _, err := sessionOf(t, server).TerminatingOf(t.Context(), Name{Object: policies.Object{Resource: "gizmos", Name: "x"}}, "", 10); err == nil || Gone(err) {
		t.Errorf("unknown type: error %v", err)
	}
}

// TestManyTerminating checks a limited number of 50,000 objects and counts the others. One that
// cannot be read and one that was recreated do not affect the rest.
func TestManyTerminating(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
	var all []any
	answers := map[string]any{"/api/v1/namespaces": list("Namespace"), "/api/v1/services": list("Service")}
	for i := range 50_000 {
		pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"name": fmt.Sprintf("p%05d", i), "namespace": "a", "uid": fmt.Sprint("uid", i), "deletionTimestamp": "2026-01-01T02:00:00Z",
		}}
		all = append(all, pod)
		answers[fmt.Sprintf("/api/v1/namespaces/a/pods/p%05d", i)] = pod
	}
	answers["/api/v1/pods"] = list("Pod", all...)
	answers["/api/v1/namespaces/a/pods/p00001"] = refusal(http.StatusInternalServerError, "broken")
	answers["/api/v1/namespaces/a/pods/p00002"] = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p00002", "namespace": "a", "uid": "new"}}
	server := apiServer(t, serving(answers))
	now, err := sessionOf(t, server).AllTerminating(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	if len(now.Items) != 99 || now.Omitted != 49_900 {
		t.Errorf("%d shown and %d counted, want 99 and 49,900", len(now.Items), now.Omitted)
	}
	if unseen := now.Items[1].Unseen; len(unseen) == 0 || !strings.Contains(unseen[0].String(), "broken") {
		t.Errorf("unseen for an unreadable object: %q", unseen)
	}
}
