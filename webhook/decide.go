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
	decision  decision
	complete  bool // nothing was left unchecked: otherwise nothing is refused
	refusal   string
	notices   []string // about termguard itself, for the user
	audit     map[string]string
	omitted   int
	showNames bool // Options.ShowObjectNames
}

// decide turns the policies' result into the answer.
func (h *Handler) decide(r *question.Request, c assessment) *answer {
	a := &answer{judgement: judge(c.rules.Enforcement, c.result.Findings, c.labels), decision: decisionAllow, audit: map[string]string{}, omitted: c.result.Omitted, showNames: h.options.ShowObjectNames}
	switch {
	case len(a.warnings) > 0:
		a.decision = decisionWarn
	case len(a.records) > 0:
		a.decision = decisionDryRun
	}
	h.metrics.countFindings(a.records)
	a.notices = config.Misspelt(c.labels, c.rules.IDs)
	h.addIncomplete(a, r, c)
	h.recordOverrides(a, r, c)
	if len(a.denials) > 0 && a.complete {
		h.refuse(a, r, c)
	}
	return a
}

// addIncomplete adds notices about unchecked parts. Evictions are never refused: their findings are "may hang"
// at most.
func (h *Handler) addIncomplete(a *answer, r *question.Request, c assessment) {
	addNotice := func(why string) { a.notices = append(a.notices, "not checked in full: "+why) }
	if len(c.result.Errors) > 0 {
		h.metrics.countPolicyFailures(c.result.Errors)
		h.options.Log.Warn("policies failed; a request is judged by the others", "uid", loggedUID(r.UID), "whole", c.result.Whole(), "error", errors.Join(c.result.Errors...))
		addNotice("a policy failed (see termguard's log)")
	}
	if !c.result.Whole() {
		h.recordFailOpen(a, failurePolicy)
	}
	if c.partial {
		h.recordFailOpen(a, failurePartial)
		addNotice("the object is so large that only its metadata was read")
	}
	if triggerOf(r) == policies.Delete && c.rules.Enforcement.Speaks(c.labels) {
		if note := unseenNote(a.records, c.result.Unseen); note != "" {
			addNotice(note)
		}
	}
	a.complete = r.Trigger() != question.OnEviction && c.result.Whole() && !c.partial
}

// recordFailOpen records that a request was not fully checked.
func (h *Handler) recordFailOpen(a *answer, reason failure) {
	h.metrics.countError(reason)
	a.decision, a.audit["error"] = decisionError, string(reason)
}

// recordOverrides records outcomes that annotations or declarations have changed.
func (h *Handler) recordOverrides(a *answer, r *question.Request, c assessment) {
	recordChange := func(without judgement, key, by string) {
		if !a.differs(without) {
			return
		}
		a.audit[key] = truncate(printable.Line(by), maxReason)
		if a.complete && len(without.denials) > 0 && len(a.denials) == 0 {
			h.record(r, c, without.denials, by)
		}
	}
	if labels := config.EnforceLabels(c.labels); labels != "" {
		recordChange(judge(c.rules.Enforcement, c.result.Findings, nil), "enforce-label", "label "+labels+" of its namespace")
	}
	by := "annotation " + cluster.OwnerAnnotation
	if declares := r.Annotation(cluster.OwnerAnnotation); declares != "" {
		by += ": " + declares
	} else {
		by += " of objects in the namespace"
	}
	switch {
	case c.withoutDeclarations != nil:
		recordChange(judge(c.rules.Enforcement, c.withoutDeclarations.Findings, c.labels), "declared-owner", by)
	case c.namespaceDeclares:
		a.audit["declared-owner"] = by
	}
}

// refuse refuses a request, unless a trusted annotation allows it.
func (h *Handler) refuse(a *answer, r *question.Request, c assessment) {
	reason, isTrusted := allowReason(*h.options.Trust, r)
	if reason != "" && isTrusted {
		a.decision, reason = decisionBreakGlass, truncate(reason, maxReason)
		a.notices = slices.Insert(a.notices, 0, fmt.Sprintf("let through all the same: annotation %s says %q", AllowAnnotation, truncate(reason, 100)))
		a.audit["break-glass"] = reason
		h.record(r, c, a.judgement.denials, "annotation "+AllowAnnotation+": "+reason)
		return
	}
	if reason != "" {
		a.notices = append(a.notices, "annotation "+AllowAnnotation+" counts neither in this namespace nor from you")
	}
	a.decision, a.refusal = decisionDeny, refusal(r, a.judgement.denials, isTrusted)
	h.record(r, c, a.judgement.denials, "")
}

// response returns the answer for the API server.
func (a *answer) response(r *question.Request) admission.Response {
	omitted := a.omitted
	if len(a.warnings) == 0 {
		omitted = 0 // without findings, none are omitted
	}
	if len(a.records) > 0 {
		a.audit["policies"] = audit(a.records)
	}
	if len(a.audit) > 0 || a.decision != decisionAllow {
		a.audit["decision"] = string(a.decision)
	}
	response := admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed: a.refusal == "", AuditAnnotations: a.audit, Warnings: warnings(r, a.warnings, omitted, a.notices, a.showNames),
	}}
	if a.refusal != "" {
		response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: a.refusal}
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
	user := truncate(printable.Line(r.UserInfo.Username), maxLogged)
	about := []any{"uid", loggedUID(r.UID), "user", user, "on", string(r.Trigger()), "resource", truncate(resource.String(), maxLogged), "namespace", truncate(key.Namespace, maxLogged),
		"name", truncate(key.Name, maxLogged), "policies", ids, "known", c.inFacts, "authentic", h.options.Authentic}
	if by == "" {
		h.options.Log.Info("refused", append(about, "why", why[0].Message)...)
	} else {
		h.options.Log.Info("let through what would be refused", append(about, "by", truncate(by, maxReason))...)
	}
	if !c.inFacts {
		return
	}
	h.options.Recorder.Record(Decision{
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
		return fmt.Sprintf("%s%s (and %d more)", incomplete, truncate(unseen[0].String(), 180), len(unseen)-1)
	}
}

// audit returns the audit annotation: each policy with its highest certainty.
func audit(findings []policies.Finding) string {
	worst := map[string]policies.Certainty{}
	for _, f := range findings {
		if worst[f.Policy] != policies.Will {
			worst[f.Policy] = f.Certainty
		}
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(worst)) {
		parts = append(parts, id+"="+string(worst[id]))
	}
	return strings.Join(parts, ",")
}
