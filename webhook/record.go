package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/termguard/termguard/internal/printable"
)

func (h *Handler) report(o *outcome) {
	switch {
	case o.err != nil:
		h.options.Log.Warn("allowed a request unchecked", "uid", loggedUID(o.uid), "reason", string(o.reason), "error", o.err)
		return
	case o.request == nil:
		return
	case len(o.result.Errors) > 0:
		h.options.Log.Warn("policies failed; the others were evaluated", "uid", loggedUID(o.uid), "whole", o.result.Complete(), "error", errors.Join(o.result.Errors...))
	}
	for _, change := range o.overrides {
		h.record(o, change)
	}
	if o.decision == decisionDeny {
		return
	}
	removal, removes := removalOf(o.request)
	if removes && h.options.Learner != nil && h.options.Authentic {
		h.options.Learner.Saw(removal)
	}
	if h.options.Grader == nil {
		return
	}
	if h.options.Grader.Record(o.request, o.result); removes {
		h.options.Grader.RecordRemoval(removal)
	}
}

// record creates an Event, with text of the requesting user, hence never about objects that only the review
// mentions.
func (h *Handler) record(o *outcome, change override) {
	r := o.request
	if r.Dry() {
		return
	}
	var ids []string
	for _, f := range change.denials {
		if !slices.Contains(ids, f.Policy) {
			ids = append(ids, f.Policy)
		}
	}
	resource, key, why := r.GroupResource(), r.Key(), change.denials[0].Message
	user := printable.Cut(printable.Line(r.UserInfo.Username), maxLogged)
	about := []any{"uid", loggedUID(o.uid), "user", user, "on", string(o.trigger), "resource", printable.Cut(resource.String(), maxLogged), "namespace", printable.Cut(key.Namespace, maxLogged),
		"name", printable.Cut(key.Name, maxLogged), "policies", ids, "known", o.inFacts, "authentic", h.options.Authentic}
	if change.by == "" {
		h.options.Log.Info("refused", append(about, "why", why)...)
	} else {
		h.options.Log.Info("allowed what would be denied", append(about, "by", printable.Cut(change.by, maxReason))...)
	}
	if !o.inFacts || h.options.Recorder == nil || !h.options.Authentic {
		return
	}
	object := &corev1.ObjectReference{APIVersion: schema.GroupVersion{Group: r.Kind.Group, Version: r.Kind.Version}.String(), Kind: r.Kind.Kind, Namespace: key.Namespace, Name: key.Name}
	if o.terminating { // the namespace accepts no Events
		object = &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: key.Namespace}
	}
	reason, action := "Deletion", "refused to "+printable.Cut(user, 200)
	if r.EditsFinalizers() {
		reason = "FinalizerEdit"
	}
	if change.by == "" {
		reason += "Refused"
	} else {
		reason, action = reason+"LetThrough", "let through by "+printable.Cut(change.by, 500)+"; refused"
	}
	h.options.Recorder.Event(object, corev1.EventTypeWarning, reason, printable.Cut(printable.Line(fmt.Sprintf("%s/%s: %s by policy %s: %s",
		resource, key.Name, action, strings.Join(ids, ", "), why)), 1000))
}

// maxLogged is in characters.
const maxLogged = 256

// A forged uid may have megabytes.
func loggedUID(uid types.UID) string { return printable.Cut(printable.Line(string(uid)), maxLogged) }

// In each namespace; then one in ten seconds. client-go tracks the last 4096 namespaces, and queues 1000
// Events; further ones are dropped.
const (
	eventBurst = 25
	eventQPS   = 0.1
)

// EventLimits limit each namespace by itself, and each cluster-scoped object.
func EventLimits() record.CorrelatorOptions {
	return record.CorrelatorOptions{
		BurstSize: eventBurst,
		QPS:       eventQPS,
		SpamKeyFunc: func(e *corev1.Event) string {
			object := e.InvolvedObject
			if object.Namespace == "" {
				return object.Kind + "/" + object.Name
			}
			return object.Namespace
		},
	}
}
