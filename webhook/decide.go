package webhook

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// AllowAnnotation allows an object's deletion; its value is the reason.
const AllowAnnotation = "termguard.dev/allow-hang"

type outcome struct {
	uid     types.UID
	trigger question.Trigger
	assessment
	// Unset if the assessment has an error.
	status  []string
	request *question.Request // nil with status
	judgement
	decision  decision
	refusal   string
	failures  []failure
	overrides []override // including the refusal itself
	notices   []string
	audit     map[string]string
}

type override struct {
	denials []policies.Finding
	by      string // "" if it is refused
}

type judgement struct {
	denials  []policies.Finding
	warnings []policies.Finding // shown to the user; includes denials
	records  []policies.Finding // in metrics and audit annotations; includes warnings
}

func (j judgement) differs(other judgement) bool {
	return (len(j.denials) > 0) != (len(other.denials) > 0) || len(j.warnings) != len(other.warnings) || len(j.records) != len(other.records)
}

// judge keeps the order. Only a certain hang by a policy set to deny refuses; informational findings never
// do.
func judge(e config.Enforcement, findings []policies.Finding, labels map[string]string) judgement {
	var j judgement
	for _, f := range findings {
		mode := e.Mode(f.Policy, labels)
		if mode == config.Off {
			continue
		}
		j.records = append(j.records, f)
		if mode == config.DryRun {
			continue
		}
		j.warnings = append(j.warnings, f)
		if mode == config.Deny && f.Certainty == policies.Will && f.Severity != policies.Info {
			j.denials = append(j.denials, f)
		}
	}
	return j
}

func (o *outcome) decide(r *question.Request, trust config.Trust) {
	o.request, o.audit, o.decision = r, map[string]string{}, decisionAllow
	o.judgement = judge(o.rules.Enforcement, o.result.Findings, o.labels)
	switch {
	case len(o.warnings) > 0:
		o.decision = decisionWarn
	case len(o.records) > 0:
		o.decision = decisionDryRun
	}
	o.notices = config.CheckLabels(o.labels, o.rules.IDs)
	o.addUnchecked()
	// Evictions "may hang" at most.
	complete := r.Trigger() != question.OnEviction && len(o.failures) == 0
	o.addOverrides(complete)
	if len(o.denials) > 0 && complete {
		o.refuse(trust)
	}
}

func (o *outcome) addUnchecked() {
	addNotice := func(why string) { o.notices = append(o.notices, "not checked in full: "+why) }
	if len(o.result.Errors) > 0 {
		addNotice("a policy failed (see termguard's log)")
	}
	if !o.result.Complete() {
		o.failures = append(o.failures, failurePolicy)
	}
	if o.partial {
		o.failures = append(o.failures, failurePartial)
		addNotice("the object is so large that only its metadata was read")
	}
	for _, reason := range o.failures {
		o.decision, o.audit["error"] = decisionError, string(reason)
	}
	if triggerOf(o.request) == policies.Delete && o.rules.Enforcement.ShowsFindings(o.labels) {
		if note := unseenNote(o.records, o.result.Unseen); note != "" {
			addNotice(note)
		}
	}
}

func (o *outcome) addOverrides(complete bool) {
	compare := func(findings []policies.Finding, labels map[string]string, key, by string) {
		without := judge(o.rules.Enforcement, findings, labels)
		if !o.differs(without) {
			return
		}
		o.audit[key] = printable.Cut(printable.Line(by), maxReason)
		if complete && len(without.denials) > 0 && len(o.denials) == 0 {
			o.overrides = append(o.overrides, override{without.denials, by})
		}
	}
	if labels := config.EnforceLabels(o.labels); labels != "" {
		compare(o.result.Findings, nil, "enforce-label", "label "+labels+" of its namespace")
	}
	by := "annotation " + cluster.OwnerAnnotation
	if declares := o.request.Annotation(cluster.OwnerAnnotation); declares != "" {
		by += ": " + declares
	} else {
		by += " of objects in the namespace"
	}
	switch {
	case o.withoutDeclarations != nil:
		compare(o.withoutDeclarations.Findings, o.labels, "declared-owner", by)
	case o.namespaceDeclares:
		o.audit["declared-owner"] = by
	}
}

func (o *outcome) refuse(trust config.Trust) {
	user := o.request.UserInfo
	isTrusted := trust.TrustsNamespace(o.request.Within()) || trust.TrustsUser(user.Username, user.Groups)
	reason := printable.Line(strings.TrimSpace(o.request.Annotation(AllowAnnotation)))
	by := ""
	switch {
	case reason != "" && isTrusted:
		reason = printable.Cut(reason, maxReason)
		o.decision, by = decisionBreakGlass, "annotation "+AllowAnnotation+": "+reason
		o.notices = slices.Insert(o.notices, 0, fmt.Sprintf("allowed all the same: annotation %s says %q", AllowAnnotation, printable.Cut(reason, 100)))
		o.audit["break-glass"] = reason
	case reason != "":
		o.notices = append(o.notices, "annotation "+AllowAnnotation+" counts neither in this namespace nor from you")
		fallthrough
	default:
		o.decision, o.refusal = decisionDeny, refusal(o.request, o.denials, isTrusted)
	}
	o.overrides = append(o.overrides, override{o.denials, by})
}

func (o *outcome) response(showNames bool) admission.Response {
	response := admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: o.refusal == ""}}
	switch {
	case o.err != nil:
		response.Warnings = []string{warningLine("not checked, allowed: "+explanations[o.reason], "")}
		response.AuditAnnotations = map[string]string{"decision": string(decisionError), "error": string(o.reason)}
		return response
	case o.request == nil:
		response.Warnings = o.status
		return response
	}
	omitted := o.result.Omitted
	if len(o.warnings) == 0 {
		omitted = 0
	}
	response.Warnings = warnings(o.request, o.warnings, omitted, o.notices, showNames)
	if len(o.records) > 0 {
		o.audit["policies"] = audit(o.records)
	}
	if len(o.audit) > 0 || o.decision != decisionAllow {
		o.audit["decision"] = string(o.decision)
	}
	response.AuditAnnotations = o.audit
	if o.refusal != "" {
		response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: o.refusal}
	}
	return response
}

// unseenNote says why findings may be missing: silence would mean "it completes". Beside "may hang" it would
// be noise.
func unseenNote(findings []policies.Finding, unseen []policies.Unseen) string {
	const incomplete = "unseen: "
	verdict := policies.Result{Findings: findings, Unseen: unseen}.Verdict()
	switch {
	case verdict != policies.Unknown:
		return ""
	case len(unseen) == 1:
		return incomplete + unseen[0].String()
	default:
		return fmt.Sprintf("%s%s (%s)", incomplete, printable.Cut(unseen[0].String(), 180), page.More(len(unseen)-1, ""))
	}
}

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
