package cluster

import (
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Whether a webhook that is up does its work shows in what the API server told
// others: controllers put its errors into events, the namespace controller into
// the conditions of a namespace that it cannot empty.

// maxTroubles bounds the statements that are kept: the newest.
const maxTroubles = 500

// failedCall, with the URL that was called, and deniedBy are what the API server answers where it could not
// call a webhook that fails closed, and where the webhook said no (k8s.io/apiserver,
// pkg/admission/plugin/webhook/errors/statuserror.go, and .../validating/dispatcher.go).
var (
	failedCall    = regexp.MustCompile(`failed calling webhook "([^"]+)": (.*)`)
	calledService = regexp.MustCompile(`"https://([^./"]+)\.([^./"]+)\.svc[:/]`)
	deniedBy      = regexp.MustCompile(`admission webhook "([^"]+)" denied the request(?:: (.*))?`)
)

// trouble is one such statement.
type trouble struct {
	webhook        string // as the configuration names it
	service        string // "namespace/name" of what was called, "" where that is not said
	cause, message string
	last           time.Time
}

// troubles are kept by who tells: an event, or, without a namespace, a namespace.
type troubles map[types.NamespacedName]trouble

// of is the newest trouble with a webhook behind a Service. Names of webhooks are
// not unique.
func (t troubles) of(webhook, service string) (newest trouble, found bool) {
	for _, candidate := range t {
		if candidate.webhook == webhook && (candidate.service == "" || candidate.service == service) && (!found || newer(candidate, newest)) {
			newest, found = candidate, true
		}
	}
	return newest, found
}

// newer orders troubles: those of the same time by what they say.
func newer(a, b trouble) bool {
	if a.last.Equal(b.last) {
		return a.cause+a.message > b.cause+b.message
	}
	return a.last.After(b.last)
}

// readTrouble finds what a text says of a webhook. Refusals only count where
// what was refused is a deletion.
func readTrouble(text string, deletion bool) (t trouble, found bool) {
	text, _, _ = strings.Cut(text, "\n")
	if said := failedCall.FindStringSubmatch(text); said != nil {
		t = trouble{webhook: said[1], cause: "failing", message: shorten(said[2], maxSymptomText)}
		if url := calledService.FindStringSubmatch(said[2]); url != nil {
			t.service = url[2] + "/" + url[1]
		}
		return t, true
	}
	if said := deniedBy.FindStringSubmatch(text); said != nil && deletion {
		return trouble{webhook: said[1], cause: "refusing", message: shorten(said[2], maxSymptomText)}, true
	}
	return trouble{}, false
}

// keepEventTrouble takes in an event of any controller, and tells whether it is
// about a webhook.
func (w *World) keepEventTrouble(key types.NamespacedName, e *corev1.Event) bool {
	t, found := readTrouble(e.Message, e.Reason == "FailedDelete")
	t.last = lastSeen(e)
	return w.setTrouble(key, t, found)
}

// keepNamespaceTrouble takes in what holds a namespace that is Terminating.
func (w *World) keepNamespaceTrouble(o *corev1.Namespace) {
	var newest trouble
	any := false
	for _, c := range o.Status.Conditions {
		if t, found := readTrouble(c.Message, true); found && c.Status == corev1.ConditionTrue {
			t.last = c.LastTransitionTime.Time
			if !any || newer(t, newest) {
				newest, any = t, true
			}
		}
	}
	w.setTrouble(types.NamespacedName{Name: o.Name}, newest, any)
}

func (w *World) setTrouble(from types.NamespacedName, t trouble, found bool) bool {
	before, had := w.troubles[from]
	if had == found && before == t {
		return found
	}
	w.hooksDirty = true
	if !found {
		delete(w.troubles, from)
		return false
	}
	w.troubles[from] = t
	if len(w.troubles) > maxTroubles {
		oldest := from
		for key, candidate := range w.troubles {
			if newer(w.troubles[oldest], candidate) {
				oldest = key
			}
		}
		delete(w.troubles, oldest)
		if r := w.resources[eventsResource.String()]; r != nil {
			delete(r.kept, oldest)
		}
		return oldest != from
	}
	return true
}
