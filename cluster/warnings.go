package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// maxReasons bounds the reasons per object: users may create thousands.
const maxReasons = 8

// subject is an Event's object, by the Event's namespace, which the API server checks; the UID is unchecked.
type subject struct {
	namespace string
	uid       types.UID
}

// warning sums up Events of one reason.
type warning struct {
	kind        string // its first type
	message     string
	first, last time.Time
}

// FromKubelet is facts.FromKubelet.
func FromKubelet(e *corev1.Event) (node string, ok bool) { return facts.FromKubelet(e) }

// TakeWarnings replaces the warning Events; others among them only explain what is Terminating.
func (w *World) TakeWarnings(events []corev1.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warnings = warningsIn(events)
}

// KeepWarnings adds the warning Events about an object to the facts.
func (w *World) KeepWarnings(resource schema.GroupResource, object metav1.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if conditions := w.warningsAbout(resource.String(), object.GetNamespace(), object.GetUID()); len(conditions) > 0 {
		w.doc.Put(conditions, "conditions", object.GetNamespace(), resource.String(), object.GetName())
	}
}

// EventsOf returns the namespace of Events about objects of a namespace, "" for cluster-scoped ones
// (client-go, tools/record/event.go).
func EventsOf(namespace string) string { return cmp.Or(namespace, metav1.NamespaceDefault) }

func warningsIn(events []corev1.Event) map[subject]map[string]warning {
	warnings := map[subject]map[string]warning{}
	for i := range events {
		e := &events[i]
		about := subject{e.Namespace, e.InvolvedObject.UID}
		of, reason := warnings[about], facts.Shorten(e.Reason, facts.MaxText)
		if of == nil {
			of = map[string]warning{}
			warnings[about] = of
		}
		sum, again := of[reason]
		if !again && len(of) == maxReasons {
			continue
		}
		sum.kind = cmp.Or(sum.kind, e.Type)
		first, last := facts.FirstSeen(e), facts.LastSeen(e)
		if !again || first.Before(sum.first) {
			sum.first = first
		}
		if last.After(sum.last) {
			sum.last, sum.message = last, facts.Shorten(e.Message, facts.MaxText)
		}
		of[reason] = sum
	}
	return warnings
}

// warningsAbout returns conditions, if only users with rights to the object may create them. w.mu is held.
func (w *World) warningsAbout(resource, namespace string, uid types.UID) (conditions []any) {
	in := EventsOf(namespace)
	of := w.warnings[subject{in, uid}]
	if len(of) == 0 || !w.ownership.Candid(resource, in) {
		return nil
	}
	for _, reason := range slices.Sorted(maps.Keys(of)) {
		sum := of[reason]
		conditions = append(conditions, map[string]any{
			"type": "Event", "status": sum.kind, "reason": reason, "message": sum.message,
			"lastTransitionTime": sum.first.UTC().Format(time.RFC3339), "last": sum.last.UTC().Format(time.RFC3339),
		})
	}
	return conditions
}
