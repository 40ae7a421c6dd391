package answer

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/learned"
	"github.com/termguard/termguard/policies"
)

// TestQuote checks that a status of a megabyte, with terminal control characters, is quoted and
// bounded.
func TestQuote(t *testing.T) {
	s := Subject{Type: typ("x.io", "v1", "gadgets", "Gadget"), Namespace: "a", Name: "it", Object: map[string]any{
		"metadata": map[string]any{"name": "it", "finalizers": []any{"x.io/f"}, "deletionTimestamp": "2026-11-21T11:00:00Z"},
		"status":   map[string]any{"phase": "Deleting", "message": "volumes\x1b[31m are\u202e left" + strings.Repeat("\x1b[2Jé", 1<<18)},
	}}
	r := Item{Verdict: policies.Completes, WaitsFor: []Wait{{Finalizer: "x.io/f", Count: 1, Owner: "op"}}}
	r.quote(s)
	var text strings.Builder
	if err := (Answer{form: asOne, Items: []Item{r}}).Text(&text); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); !strings.Contains(got, "its status says: phase is Deleting: volumes") || len(got) > 1<<11 || strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("%d bytes: %.300q", len(got), got)
	}
}

// TestTell checks that Terminating objects are evaluated with the same words that a check by name
// reads.
func TestTell(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		event := `{"metadata": {"name": "e", "namespace": "demo"}, "involvedObject": {"uid": "u"}, "type": "Warning", "reason": "CleanupFailed", "message": "no such host", "firstTimestamp": "FIRST", "lastTimestamp": "LAST"}`
		event = strings.NewReplacer("FIRST", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), "LAST", time.Now().UTC().Format(time.RFC3339)).Replace(event)
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "EventList", "metadata": {}, "items": [` + event + `]}`))
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	fixture, err := os.ReadFile("../policies/owner_reports_failure/testdata/hang_never_ready.yaml")
	if err != nil {
		t.Fatal(err)
	}
	gadgets := typ("acme.example", "v1", "gadgets", "Gadget")
	gadgets.Namespaced = true
	s := Subject{Type: gadgets, Namespace: "demo", Name: "it", Object: map[string]any{"metadata": map[string]any{
		"name": "it", "namespace": "demo", "uid": "u", "finalizers": []any{"acme.example/cleanup"}, "deletionTimestamp": "2026-11-21T11:00:00Z",
	}}}
	ns := Subject{Type: typ("", "v1", "namespaces", "Namespace"), Name: "demo", Object: map[string]any{"metadata": map[string]any{"name": "demo"}}}
	for name, tc := range map[string]struct {
		reason   string
		subjects []Subject
	}{
		"alone":              {"by what Events say of it", []Subject{s}},
		"with its namespace": {"with the objects in it", []Subject{ns, s}},
	} {
		t.Run(name, func(t *testing.T) {
			world := worldFrom(t, strings.SplitN(string(fixture), "\n---\n", 3)[2]) // without what is asked, and when
			if err := tell(t.Context(), config, world, "", tc.subjects); err != nil {
				t.Fatal(err)
			}
			world.Read(func(f cluster.Facts) {
				if !f.Conditioned("demo", "gadgets.acme.example", "it") {
					t.Errorf("%s: no answer about it", tc.reason)
				}
			})
		})
	}
}

// typ returns a type as discovery lists it.
func typ(group, version, plural, kind string) Type {
	return Type{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural}, Kind: kind}
}

// TestUnproven checks the verdict of a deletion that completes only if an owner removes a
// finalizer.
func TestUnproven(t *testing.T) {
	took := learned.Bucket{Within: 2, Objects: 1}
	f, g := func(took ...learned.Bucket) learned.Owner {
		return providerSeen("s3.test/f", "buckets.s3.test", took...)
	}, func(took ...learned.Bucket) learned.Owner {
		return providerSeen("s3.test/g", "users.s3.test", took...)
	}
	stopped, _, _ := strings.Cut(provider, "\n---\n{apiVersion: apps/v1")
	never := "it was never seen to remove this finalizer here"
	for name, tc := range map[string]struct {
		reason string
		learnt []learned.Owner
		text   string
		want   [][]string
	}{
		"never":     {"nobody saw it", nil, provider, [][]string{{never}, {never}}},
		"took":      {"how long it took was seen", []learned.Owner{f(took), g(took)}, provider, [][]string{nil, nil}},
		"seen":      {"who removed it was seen", []learned.Owner{f(), g()}, provider, [][]string{nil, nil}},
		"not alive": {"a finalizer without a running owner does not complete", nil, stopped, nil},
	} {
		t.Run(name, func(t *testing.T) {
			world := providerWorld(t, tc.text, tc.learnt...)
			subject, err := FromFacts(world, Name{Object: policies.Object{Resource: "ns", Name: "demo"}})
			if err != nil {
				t.Fatal(err)
			}
			report, err := ask(t.Context(), evaluated(answer{}), world, subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got [][]string
			unproven := false
			for _, w := range report.WaitsFor {
				got, unproven = append(got, w.Unproven), unproven || len(w.Unproven) > 0
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || report.Unproven() != unproven {
				t.Errorf("%s: unproven %t; -want, +got:\n%s", tc.reason, report.Unproven(), diff)
			}
			var out strings.Builder
			if err := report.all.Text(&out); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), "unproven: "+never) != unproven {
				t.Errorf("%s: got\n%s", tc.reason, &out)
			}
		})
	}
}
