package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/cluster/refusals"
	"github.com/termguard/termguard/internal/race"
)

func TestStatements(t *testing.T) {
	_, caBundle := authority(t, time.Now().AddDate(1, 0, 0), "guard.ops.svc")
	event := func(reason, message, at string) string {
		return fmt.Sprintf(`
---
{apiVersion: v1, kind: Event, metadata: {name: e, namespace: demo}, involvedObject: {kind: ReplicaSet, namespace: demo, name: x}, reason: %s, message: %q, lastTimestamp: %q, source: {component: replicaset-controller}}`, reason, message, at)
	}
	namespace := func(status, message string) string {
		return fmt.Sprintf(`
---
{apiVersion: v1, kind: Namespace, metadata: {name: before}, status: {phase: Terminating, conditions: [{type: NamespaceDeletionContentFailure, status: %q, message: %q, lastTransitionTime: "2026-11-21T07:00:00Z"}]}}`, status, message)
	}
	const failed = `Error creating: Internal error occurred: failed calling webhook "deny.x.io": failed to call webhook: Post "https://guard.ops.svc:8443/": EOF`
	const denied = `Error deleting: admission webhook "deny.x.io" denied the request: keep it`
	tests := map[string]struct {
		reason, objects, want string
	}{
		"failed":          {"no sign that it works again", event("FailedCreate", failed, "2026-11-21T07:00:00Z"), "failing: failed to call webhook: Post \"https://guard.ops.svc:8443/\": EOF"},
		"another webhook": {"its name is in the message", event("FailedCreate", strings.ReplaceAll(failed, "deny", "other"), "2026-11-21T07:00:00Z"), ""},
		"another Service": {"two configurations may name their webhooks alike", event("FailedCreate", strings.ReplaceAll(failed, "guard.ops", "other.ops"), "2026-11-21T07:00:00Z"), ""},
		"denied":          {"a deletion was refused", event("FailedDelete", denied, "2026-11-21T07:00:00Z"), "refusing: keep it"},
		"creation denied": {"a refused creation does not concern deletions", event("FailedCreate", denied, "2026-11-21T07:00:00Z"), ""},
		"namespace":       {"the namespace controller was refused", namespace("True", "1 remaining: "+denied), "refusing: keep it"},
		"namespace again": {"a later attempt succeeded", namespace("False", "1 remaining: "+denied), ""},
		"mended":          {"the configuration was changed since", event("FailedCreate", failed, "2026-11-21T05:59:59Z"), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(guarded(caBundle), "metadata: {name: guard}\nwebhooks", `metadata: {name: guard, managedFields: [{time: "2026-11-21T06:00:00Z"}]}`+"\nwebhooks", 1)
			got := strings.Join(refused(world(t, text+tc.objects), "demo"), "\n")
			if got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestStatementsWhileSettling checks that an event that arrives while namespaces are settled
// counts, whether its own was settled before or after.
func TestStatementsWhileSettling(t *testing.T) {
	_, caBundle := authority(t, time.Now().AddDate(1, 0, 0), "guard.ops.svc")
	w := world(t, guarded(caBundle)+`
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: it, namespace: other}}`)
	namespaces := []string{"demo", "other"}
	for _, namespace := range namespaces {
		w.refusals.Touch("configmaps", namespace)
	}
	arrived := false
	w.settle(func() {
		if arrived {
			return
		}
		arrived = true
		for _, namespace := range namespaces {
			apply(t, w, eventsResource, &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e"}, Reason: "FailedCreate",
				Message:       `failed calling webhook "deny.x.io": EOF`,
				LastTimestamp: metav1.NewTime(time.Unix(1, 0)), InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Namespace: namespace, Name: "x"},
			}, true)
		}
	})
	w.Settle()
	for _, namespace := range namespaces {
		if diff := cmp.Diff([]string{"failing: EOF"}, refused(w, namespace)); diff != "" {
			t.Errorf("%s: -want +got\n%s", namespace, diff)
		}
	}
}

// TestStatementsAreBounded floods the facts with events.
func TestStatementsAreBounded(t *testing.T) {
	race.Skip(t)
	var flood strings.Builder
	for i := range 10 * refusals.MaxStatements {
		fmt.Fprintf(&flood, `
---
{apiVersion: v1, kind: Event, metadata: {name: e%d, namespace: a%[4]d}, reason: FailedCreate, message: 'failed calling webhook "w%[1]d.x.io": EOF', lastTimestamp: "2026-11-21T07:%02[2]d:%02[3]dZ", source: {component: x}}`, i, i/60%60, i%60, i%100)
	}
	w := world(t, flood.String())
	if got := len(w.inventory.resources[eventsResource.String()].kept.Keys(func(keptObject) bool { return true })); got != refusals.MaxStatements {
		t.Errorf("kept %d events, want %d", got, refusals.MaxStatements)
	}
}
