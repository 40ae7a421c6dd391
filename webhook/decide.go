package webhook

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// answer is the outcome of a review. decide adds its parts in order.
type answer struct {
	judgement
	how     decision
	whole   bool // nothing was left unchecked: otherwise nothing is refused
	refused string
	notices []string // about termguard itself, for the user
	audit   map[string]string
	omitted int
	names   bool // Options.ShowObjectNames
}

// decide turns the policies' result into the answer.
func (h *Handler) decide(r *question.Request, c assessment) *answer {
	a := &answer{judgement: judge(c.rules.Enforcement, c.result.Findings, c.labels), how: allowed, audit: map[string]string{}, omitted: c.result.Omitted, names: h.options.ShowObjectNames}
	switch {
	case len(a.say) > 0:
		a.how = warned
	case len(a.record) > 0:
		a.how = recorded
	}
	h.metrics.found(a.record)
	a.notices = config.Misspelt(c.labels, c.rules.IDs)
	h.incomplete(a, r, c)
	h.written(a, r, c)
	if len(a.refuse) > 0 && a.whole {
		h.refuse(a, r, c)
	}
	return a
}

// incomplete adds notices about unchecked parts. Evictions are never refused: their findings are "may hang"
// at most.
func (h *Handler) incomplete(a *answer, r *question.Request, c assessment) {
	say := func(why string) { a.notices = append(a.notices, "not checked in full: "+why) }
	if len(c.result.Errors) > 0 {
		h.metrics.policiesFailed(c.result.Errors)
		h.options.Log.Warn("policies failed; a request is judged by the others", "uid", shown(r.UID), "whole", c.result.Whole(), "error", errors.Join(c.result.Errors...))
		say("a policy failed (see termguard's log)")
	}
	if !c.result.Whole() {
		h.failedOpen(a, policy)
	}
	if c.partial {
		h.failedOpen(a, partial)
		say("the object is so large that only its metadata was read")
	}
	if triggerOf(r) == policies.Delete && c.rules.Enforcement.Speaks(c.labels) {
		if note := unseenNote(a.record, c.result.Unseen); note != "" {
			say(note)
		}
	}
	a.whole = r.Trigger() != question.OnEviction && c.result.Whole() && !c.partial
}

// failedOpen records that a request was not fully checked.
func (h *Handler) failedOpen(a *answer, reason failure) {
	h.metrics.failed(reason)
	a.how, a.audit["error"] = failedOpen, string(reason)
}

// written records outcomes that annotations or declarations have changed.
func (h *Handler) written(a *answer, r *question.Request, c assessment) {
	changed := func(without judgement, key, by string) {
		if !a.differs(without) {
			return
		}
		a.audit[key] = cut(printable.Line(by), maxReason)
		if a.whole && len(without.refuse) > 0 && len(a.refuse) == 0 {
			h.record(r, c, without.refuse, by)
		}
	}
	if labels := config.EnforceLabels(c.labels); labels != "" {
		changed(judge(c.rules.Enforcement, c.result.Findings, nil), "enforce-label", "label "+labels+" of its namespace")
	}
	by := "annotation " + cluster.OwnerAnnotation
	if declares := r.Annotation(cluster.OwnerAnnotation); declares != "" {
		by += ": " + declares
	} else {
		by += " of objects in the namespace"
	}
	switch {
	case c.undeclared != nil:
		changed(judge(c.rules.Enforcement, c.undeclared.Findings, c.labels), "declared-owner", by)
	case c.inside:
		a.audit["declared-owner"] = by
	}
}

// refuse refuses a request, unless a trusted annotation allows it.
func (h *Handler) refuse(a *answer, r *question.Request, c assessment) {
	reason, heeded := excuse(*h.options.Trust, r)
	if reason != "" && heeded {
		a.how, reason = brokeGlass, cut(reason, maxReason)
		a.notices = slices.Insert(a.notices, 0, fmt.Sprintf("let through all the same: annotation %s says %q", AllowAnnotation, cut(reason, 100)))
		a.audit["break-glass"] = reason
		h.record(r, c, a.judgement.refuse, "annotation "+AllowAnnotation+": "+reason)
		return
	}
	if reason != "" {
		a.notices = append(a.notices, "annotation "+AllowAnnotation+" counts neither in this namespace nor from you")
	}
	a.how, a.refused = denied, refusal(r, a.judgement.refuse, heeded)
	h.record(r, c, a.judgement.refuse, "")
}

// response returns the answer for the API server.
func (a *answer) response(r *question.Request) admission.Response {
	omitted := a.omitted
	if len(a.say) == 0 {
		omitted = 0 // without findings, none are omitted
	}
	if len(a.record) > 0 {
		a.audit["policies"] = audit(a.record)
	}
	if len(a.audit) > 0 || a.how != allowed {
		a.audit["decision"] = string(a.how)
	}
	response := admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed: a.refused == "", AuditAnnotations: a.audit, Warnings: warnings(r, a.say, omitted, a.notices, a.names),
	}}
	if a.refused != "" {
		response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: a.refused}
	}
	return response
}

// record reports a refusal, or a request that users' annotations allowed. Dry runs are not reported. An Event
// contains text of the requesting user: there is none about objects that only the review mentions.
func (h *Handler) record(r *question.Request, c assessment, why []policies.Finding, by string) {
	if r.Dry() {
		return
	}
	var ids []string
	for _, f := range why {
		if !slices.Contains(ids, f.Policy) {
			ids = append(ids, f.Policy)
		}
	}
	resource, key := r.GroupResource(), r.Key()
	user := cut(printable.Line(r.UserInfo.Username), maxLogged)
	about := []any{"uid", shown(r.UID), "user", user, "on", string(r.Trigger()), "resource", cut(resource.String(), maxLogged), "namespace", cut(key.Namespace, maxLogged),
		"name", cut(key.Name, maxLogged), "policies", ids, "known", c.known, "authentic", h.options.Authentic}
	if by == "" {
		h.options.Log.Info("refused", append(about, "why", why[0].Message)...)
	} else {
		h.options.Log.Info("let through what would be refused", append(about, "by", cut(by, maxReason))...)
	}
	if !c.known {
		return
	}
	h.options.Recorder.Decided(Decision{
		Resource: resource, APIVersion: schema.GroupVersion{Group: r.Kind.Group, Version: r.Kind.Version}.String(), Kind: r.Kind.Kind,
		Namespace: key.Namespace, Name: key.Name, Terminating: c.terminating, Edit: r.EditsFinalizers(),
		User: user, By: by, Why: why[0].Message, Policies: ids,
	})
}

// unseenNote says why the policies may have missed findings: silence would mean "it completes". Beside "may
// hang" it would be noise.
func unseenNote(findings []policies.Finding, unseen []policies.Unseen) string {
	const incomplete = "termguard cannot see "
	verdict := policies.Result{Findings: findings, Unseen: unseen}.Verdict()
	switch {
	case verdict != policies.Unknown:
		return ""
	case len(unseen) == 1:
		return incomplete + unseen[0].String()
	default:
		return fmt.Sprintf("%s%s (and %d more)", incomplete, cut(unseen[0].String(), 180), len(unseen)-1)
	}
}

// audit returns the audit annotation: each policy with its highest certainty.
func audit(findings []policies.Finding) string {
	gravest := map[string]policies.Certainty{}
	for _, f := range findings {
		if gravest[f.Policy] != policies.Will {
			gravest[f.Policy] = f.Certainty
		}
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(gravest)) {
		parts = append(parts, id+"="+string(gravest[id]))
	}
	return strings.Join(parts, ",")
}
