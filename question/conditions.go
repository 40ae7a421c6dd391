package question

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// MaxConditions bounds an object's conditions, and MaxConditionText each text, in bytes: a status may contain
// anything.
const MaxConditions, MaxConditionText = 32, 1 << 10

// Conditions returns an object's status for policies: its conditions, except about an older spec, or else its
// phase and message. Each has the time of its last change, if known, and the object's times.
func Conditions(object map[string]any) []any {
	o := &unstructured.Unstructured{Object: object}
	status, _ := object["status"].(map[string]any)
	about := map[string]string{"ended": first(status, "completionTime", "completionTimestamp", "completedAt", "finishedAt", "endTime")}
	if created := o.GetCreationTimestamp(); !created.IsZero() {
		about["created"] = created.UTC().Format(time.RFC3339)
	}
	generation := o.GetGeneration()
	if deleted := o.GetDeletionTimestamp(); deleted != nil {
		about["deleted"] = deleted.UTC().Format(time.RFC3339)
		generation-- // a deletion counts as a change (k8s.io/apiserver, pkg/registry/rest/delete.go)
	}
	written := cmp.Or(statusTime(o), about["deleted"])
	conditions := []any{}
	keep := func(condition map[string]any) {
		entry := map[string]any{}
		for _, key := range []string{"type", "status", "reason", "message", "created", "deleted", "ended"} {
			if text := cmp.Or(about[key], first(condition, key)); text != "" {
				entry[key] = text
			}
		}
		for _, changed := range []string{first(condition, "lastTransitionTime"), first(condition, "lastUpdateTime"), written} {
			// Policies count nanoseconds, which can represent these years.
			if at, err := time.Parse(time.RFC3339, changed); err == nil && at.Year() > 1900 && at.Year() < 2200 {
				entry["lastTransitionTime"] = changed
				break
			}
		}
		conditions = append(conditions, entry)
	}
	list, _ := status["conditions"].([]any)
	for _, item := range list[:min(len(list), MaxConditions)] {
		condition, is := item.(map[string]any)
		if observed, set := condition["observedGeneration"].(int64); is && !(set && observed < generation) {
			keep(condition)
		}
	}
	phase, message := first(status, "phase", "state"), first(status, "message")
	if failure := failureIn(status); failure != "" {
		phase, message = cmp.Or(phase, "Error"), failure
	}
	if len(list) == 0 && phase+message != "" {
		keep(map[string]any{"type": "phase", "status": phase, "reason": first(status, "reason", "failureReason"), "message": message})
	}
	return conditions
}

func first(status map[string]any, keys ...string) string {
	for _, key := range keys {
		if text, _ := status[key].(string); text != "" {
			return strings.ToValidUTF8(text[:min(len(text), MaxConditionText)], "")
		}
	}
	return ""
}

func failureIn(status map[string]any) string {
	failure, _ := status["error"].(map[string]any) // of a VolumeSnapshot
	return cmp.Or(first(failure, "message"), first(status, "error", "lastError", "errorMessage", "failureMessage"))
}

// statusTime returns "" if not on record.
func statusTime(o *unstructured.Unstructured) (last string) {
	managers, _, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata", "managedFields")
	list, _ := managers.([]any)
	for _, item := range list {
		entry, _ := item.(map[string]any)
		fields, _ := entry["fieldsV1"].(map[string]any)
		if at, _ := entry["time"].(string); at > last && fields["f:status"] != nil { // both in UTC (metav1.Time)
			last = at
		}
	}
	return last
}
