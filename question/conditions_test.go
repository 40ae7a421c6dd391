package question

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"
)

func conditionsIn(t *testing.T, text string) []any {
	t.Helper()
	var object map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return Conditions(object)
}

func TestConditions(t *testing.T) {
	managed := `"managedFields": [{"time": "2026-11-21T08:00:00Z", "fieldsV1": {"f:status": {}}}, {"time": "2026-11-21T09:00:00Z", "fieldsV1": {"f:status": {}}}, {"time": "2026-11-21T10:00:00Z", "fieldsV1": {"f:spec": {}}}]`
	for name, tc := range map[string]struct{ reason, object, want string }{
		"nothing":     {"an object without a status", `{"metadata": {"name": "a"}}`, `[]`},
		"its time":    {"the condition's own message comes first", `{"metadata": {"creationTimestamp": "2026-11-21T07:00:00Z", ` + managed + `}, "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T07:30:00Z"}]}}`, `[{"type": "Ready", "status": "False", "created": "2026-11-21T07:00:00Z", "lastTransitionTime": "2026-11-21T07:30:00Z"}]`},
		"its manager": {"the newest who wrote the status", `{"metadata": {` + managed + `}, "status": {"conditions": [{"type": "Ready", "lastTransitionTime": "yesterday"}]}}`, `[{"type": "Ready", "lastTransitionTime": "2026-11-21T09:00:00Z"}]`},
		"no manager":  {"then the deletion", `{"metadata": {"deletionTimestamp": "2026-11-21T11:00:00Z"}, "status": {"conditions": [{"type": "Ready"}]}}`, `[{"type": "Ready", "deleted": "2026-11-21T11:00:00Z", "lastTransitionTime": "2026-11-21T11:00:00Z"}]`},
		"older":       {"the spec was changed since", `{"metadata": {"generation": 3}, "status": {"conditions": [{"type": "A", "observedGeneration": 2}, {"type": "B", "observedGeneration": 3}, {"type": "C"}]}}`, `[{"type": "B"}, {"type": "C"}]`},
		"by deletion": {"the deletion alone counted up", `{"metadata": {"generation": 3, "deletionTimestamp": "2026-11-21T11:00:00Z"}, "status": {"conditions": [{"type": "A", "observedGeneration": 1}, {"type": "B", "observedGeneration": 2, "lastTransitionTime": "2026-11-21T10:00:00Z"}]}}`, `[{"type": "B", "deleted": "2026-11-21T11:00:00Z", "lastTransitionTime": "2026-11-21T10:00:00Z"}]`},
		"phase":       {"without conditions", `{"status": {"phase": "Deleting", "message": "volumes are left", "reason": "InUse", "completionTime": "then"}}`, `[{"type": "phase", "status": "Deleting", "reason": "InUse", "message": "volumes are left", "ended": "then"}]`},
		"error":       {"an error is one without a phase, too", `{"status": {"error": {"message": "no array"}}}`, `[{"type": "phase", "status": "Error", "message": "no array"}]`},
		"with both":   {"a phase beside conditions says no more", `{"status": {"phase": "Failed", "conditions": [{"type": "A"}, "b", {"type": 1}]}}`, `[{"type": "A"}, {}]`},
	} {
		t.Run(name, func(t *testing.T) {
			var want []any
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, conditionsIn(t, tc.object)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// FuzzConditions checks that the conditions read from any status are bounded, printable and have valid times.
func FuzzConditions(f *testing.F) {
	long, _ := json.Marshal(strings.Repeat("\x1b[31m\u202eé", 1<<17)) // more than 1 MB
	f.Add(`{"status": {"conditions": [{"type": "Ready", "status": "False", "message": ` + string(long) + `}]}}`)
	f.Add(`{"status": {"phase": ` + string(long) + `, "error": {"message": ` + string(long) + `}, "endTime": ` + string(long) + `}}`)
	f.Add(`{"status": {"conditions": [` + strings.Repeat(`{"type": "X", "observedGeneration": -1},`, 1000) + `{}]}}`)
	f.Add(`{"metadata": {"managedFields": [{"time": "9999-99-99", "fieldsV1": {"f:status": {}}}, 7], "deletionTimestamp": "x"}, "status": {"state": "a"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &object) != nil {
			return
		}
		conditions := Conditions(object)
		if len(conditions) > MaxConditions {
			t.Errorf("%d conditions", len(conditions))
		}
		for _, item := range conditions {
			for key, value := range item.(map[string]any) {
				text := value.(string)
				if len(text) > MaxConditionText || !utf8.ValidString(text) {
					t.Errorf("%s: %d bytes: %.20q", key, len(text), text)
				}
				if _, err := time.Parse(time.RFC3339, text); key == "lastTransitionTime" && err != nil {
					t.Error(err)
				}
			}
		}
	})
}
