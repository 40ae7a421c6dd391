package live

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// TestReadWarnings checks that Events count as reports of an object's owner if only accounts that
// may update the object could write them.
func TestReadWarnings(t *testing.T) {
	in := "a"
	event := func(uid, reason, first, last, message string) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"name": uid + reason + first, "namespace": in}, "involvedObject": map[string]any{"uid": uid},
			"type": "Warning", "reason": reason, "message": message, "firstTimestamp": first, "lastTimestamp": last,
		}
	}
	items := []any{
		event("u", "SyncFailed", "2026-01-01T00:10:00Z", "2026-01-01T00:20:00Z", "later"),
		event("u", "SyncFailed", "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z", "before"),
		event("another", "SyncFailed", "2026-01-01T00:00:00Z", "2026-01-01T00:20:00Z", "of another"),
	}
	// A tenant of b may write anything there, also about objects in a.
	in = "b"
	items = append(items, event("u", "AFailure", "2026-01-01T00:00:00Z", "2026-01-01T00:20:00Z", "forged"))
	in = "a"
	for i := range 20 {
		items = append(items, event("u", fmt.Sprintf("X%02d", i), "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", strings.Repeat("é", 4<<10)))
	}
	var reads []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads = append(reads, r.URL.Path+" "+r.URL.Query().Get("fieldSelector"))
		if strings.Contains(r.URL.Path, "/default/") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "EventList", "items": items}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	const scribe = `---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: %s}, rules: [{apiGroups: [%s], resources: [events], verbs: [create]}%s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: r, namespace: %[1]s}, roleRef: {kind: Role, name: r}, subjects: [{kind: User, name: tenant}]}
`
	const updates = ", {apiGroups: [x.io], resources: [gadgets], verbs: [patch]}"
	const most = 8 // reasons of an object, as in package cluster
	for name, tc := range map[string]struct {
		rights    string
		namespace string
		deletion  *metav1.Time
		reported  int
	}{
		"Owner":       {"", "a", nil, most},
		"Tenant":      {fmt.Sprintf(scribe, "a", `""`, ""), "a", nil, 0},
		"NewGroup":    {fmt.Sprintf(scribe, "a", "events.k8s.io", ""), "a", nil, 0},
		"MayUpdate":   {fmt.Sprintf(scribe, "a", `""`, updates), "a", nil, most},
		"Elsewhere":   {fmt.Sprintf(scribe, "b", `""`, ""), "a", nil, most},
		"Terminating": {"", "a", &metav1.Time{}, most},
		"Forbidden":   {"", "", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			reads = nil
			w := worldOf(t, gadgets("it")+gadgetOwner+tc.rights)
			object := &metav1.ObjectMeta{Namespace: tc.namespace, Name: "it", UID: "u", DeletionTimestamp: tc.deletion}
			if err := ReadWarningsOf(t.Context(), &rest.Config{Host: server.URL}, w, schema.GroupResource{Group: "x.io", Resource: "gadgets"}, object, slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			reported, _ := conditionsIn(w, tc.namespace, "gadgets.x.io", "it").([]any)
			want := []string{"Warning"}
			if tc.deletion != nil {
				want = append(want, "Normal")
			}
			if len(reported) != tc.reported || len(reads) != len(want) || !slices.EqualFunc(reads, want, func(read, kind string) bool {
				return strings.HasSuffix(read, "events type="+kind+",involvedObject.uid=u")
			}) {
				t.Fatalf("%d reported, reads %q", len(reported), reads)
			}
			first := map[string]any{"type": "Event", "status": "Warning", "reason": "SyncFailed", "message": "later", "lastTransitionTime": "2026-01-01T00:00:00Z", "last": "2026-01-01T00:20:00Z"}
			if tc.reported > 0 {
				if diff := cmp.Diff(first, reported[0]); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
				if message := reported[1].(map[string]any)["message"].(string); len(message) > 2<<10 {
					t.Errorf("a message of %d bytes was kept", len(message))
				}
			}
		})
	}
}
