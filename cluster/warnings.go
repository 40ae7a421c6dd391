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

// maxWarnings bounds the Events that are read at once, and maxReasons the reasons that are
// kept of those about one object: anybody may write them by the thousand.
const maxWarnings, maxReasons = 5000, 8

// subject is what an Event is about, by the namespace that the Event is in. The API server
// holds that to be the object's own by name; its UID is whatever the writer says.
type subject struct {
	namespace string
	uid       types.UID
}

// warning is what Events of one reason say about an object.
type warning struct {
	message     string
	first, last time.Time
}

// ReadWarnings reads what Events of a namespace, "" for all, warn of. None where they cannot
// be read. Conditions that are read or taken after it have them, as further ones.
func (w *World) ReadWarnings(ctx context.Context, config *rest.Config, namespace string, log *slog.Logger) error {
	return w.readWarnings(ctx, config, namespace, "", log)
}

// ReadWarningsOf reads what Events about one object warn of.
func (w *World) ReadWarningsOf(ctx context.Context, config *rest.Config, resource schema.GroupResource, namespace, name, uid string, log *slog.Logger) error {
	if err := w.readWarnings(ctx, config, eventsOf(namespace), ",involvedObject.uid="+uid, log); err != nil {
		return err
	}
	w.KeepWarnings(resource, namespace, name, uid)
	return nil
}

// KeepWarnings adds what the Events that were read say about an object to the facts.
func (w *World) KeepWarnings(resource schema.GroupResource, namespace, name, uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if told := w.told(resource.String(), namespace, types.UID(uid)); len(told) > 0 {
		w.doc.Put(told, "conditions", namespace, resource.String(), name)
	}
}

// eventsOf is where Events about objects of a namespace are, "" for those in none (client-go,
// tools/record/event.go).
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

// warningsIn are what Events warn of, by object and reason.
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

// told are warnings about an object in the form of conditions: none where somebody may write
// them who may not do more to the object. The caller holds w.mu.
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
