package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster/facts"
)

// maxWarnings bounds the Events that are read, maxReasons the reasons per object: users may create thousands.
const maxWarnings, maxReasons = 5000, 8

// subject is an Event's object, by the Event's namespace, which the API server checks; the UID is unchecked.
type subject struct {
	namespace string
	uid       types.UID
}

// warning sums up the Events of one reason about an object.
type warning struct {
	message     string
	first, last time.Time
}

// ReadWarnings reads the warning Events of a namespace, "" for all, for later conditions; none if unreadable.
func (w *World) ReadWarnings(ctx context.Context, config *rest.Config, namespace string, log *slog.Logger) error {
	return w.readWarnings(ctx, config, namespace, "", log)
}

// ReadWarningsOf reads the warning Events about one object.
func (w *World) ReadWarningsOf(ctx context.Context, config *rest.Config, resource schema.GroupResource, namespace, name, uid string, log *slog.Logger) error {
	if err := w.readWarnings(ctx, config, eventsOf(namespace), ",involvedObject.uid="+uid, log); err != nil {
		return err
	}
	w.KeepWarnings(resource, namespace, name, uid)
	return nil
}

// KeepWarnings adds the warning Events about an object to the facts.
func (w *World) KeepWarnings(resource schema.GroupResource, namespace, name, uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if told := w.told(resource.String(), namespace, types.UID(uid)); len(told) > 0 {
		w.doc.Put(told, "conditions", namespace, resource.String(), name)
	}
}

// eventsOf returns the namespace of Events about objects of a namespace, "" for cluster-scoped ones
// (client-go, tools/record/event.go).
func eventsOf(namespace string) string { return cmp.Or(namespace, metav1.NamespaceDefault) }

func (w *World) readWarnings(ctx context.Context, config *rest.Config, namespace, selector string, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, conditionsWithin)
	defer cancel()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to read events: %w", err)
	}
	list, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning + selector, Limit: maxWarnings})
	if err != nil {
		log.Debug("what events say is not known", "namespace", namespace, "error", err)
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warnings = warningsIn(list.Items)
	return nil
}

func warningsIn(events []corev1.Event) map[subject]map[string]warning {
	found := map[subject]map[string]warning{}
	for i := range events {
		e := &events[i]
		about := subject{e.Namespace, e.InvolvedObject.UID}
		of, reason := found[about], facts.Shorten(e.Reason, facts.MaxText)
		if of == nil {
			of = map[string]warning{}
			found[about] = of
		}
		said, again := of[reason]
		if !again && len(of) == maxReasons {
			continue
		}
		first, last := facts.FirstSeen(e), facts.LastSeen(e)
		if !again || first.Before(said.first) {
			said.first = first
		}
		if last.After(said.last) {
			said.last, said.message = last, facts.Shorten(e.Message, facts.MaxText)
		}
		of[reason] = said
	}
	return found
}

// told returns warnings as conditions, if only users with rights to the object may create them. w.mu is held.
func (w *World) told(resource, namespace string, uid types.UID) (told []any) {
	in := eventsOf(namespace)
	of := w.warnings[subject{in, uid}]
	if len(of) == 0 || !w.ownership.Candid(resource, in) {
		return nil
	}
	for _, reason := range slices.Sorted(maps.Keys(of)) {
		said := of[reason]
		told = append(told, map[string]any{
			"type": "Event", "status": corev1.EventTypeWarning, "reason": reason, "message": said.message,
			"lastTransitionTime": said.first.UTC().Format(time.RFC3339), "last": said.last.UTC().Format(time.RFC3339),
		})
	}
	return told
}
