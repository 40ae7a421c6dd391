package refusals

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Failures of a running webhook show in errors, which controllers put into events, the namespace controller
// into conditions of the namespace.

// MaxStatements bounds the statements, and MaxStatementsOf the ones from a namespace's events: the newest
// stay.
const MaxStatements, MaxStatementsOf = 500, 20

// home is the namespace whose events count everywhere: only administrators write there, users may forge
// others.
const home = "kube-system"

// The API server's errors about webhooks (k8s.io/apiserver, pkg/admission/plugin/webhook/errors/statuserror.go,
// and .../validating/dispatcher.go).
var (
	failedCall    = regexp.MustCompile(`failed calling webhook "([^"]+)": (.*)`)
	calledService = regexp.MustCompile(`"https://([^./"]+)\.([^./"]+)\.svc[:/]`)
	deniedBy      = regexp.MustCompile(`admission webhook "([^"]+)" denied the request(?:: (.*))?`)
)

// statement is from an event or a namespace's condition; none without a webhook.
type statement struct {
	webhook        string // as the configuration names it
	service        string // "namespace/name" of the backend, "" if unknown
	cause, message string
	last           time.Time
	namespace      string // of the event, "" for the namespace controller's conditions
}

// statements are kept by source: an event, or, without a namespace, a namespace.
type statements map[types.NamespacedName]statement

func (t statements) byWebhook() map[string][]statement {
	grouped := map[string][]statement{}
	for _, s := range t {
		grouped[s.webhook] = append(grouped[s.webhook], s)
	}
	return grouped
}

// newest also compares the Service: names of webhooks are not unique.
func newest(about []statement, service, namespace string) (latest statement) {
	for _, s := range about {
		counts := s.namespace == "" || s.namespace == home || s.namespace == namespace
		if counts && (s.service == "" || s.service == service) && newer(s, latest) {
			latest = s
		}
	}
	return latest
}

// newer orders statements of the same time by text.
func newer(a, b statement) bool {
	if a.last.Equal(b.last) {
		return a.cause+a.message > b.cause+b.message
	}
	return a.last.After(b.last)
}

// readStatement counts refusals only of a deletion.
func readStatement(text string, deletion bool) statement {
	text, _, _ = strings.Cut(text, "\n")
	if match := failedCall.FindStringSubmatch(text); match != nil {
		t := statement{webhook: match[1], cause: "failing", message: facts.Shorten(match[2], facts.MaxText)}
		if url := calledService.FindStringSubmatch(match[2]); url != nil {
			t.service = url[2] + "/" + url[1]
		}
		return t
	}
	if match := deniedBy.FindStringSubmatch(text); match != nil && deletion {
		return statement{webhook: match[1], cause: "refusing", message: facts.Shorten(match[2], facts.MaxText)}
	}
	return statement{}
}

// KeepEvent keeps an event that is about a webhook, and reports whether it did.
func (p *Part) KeepEvent(e *corev1.Event) bool {
	t := readStatement(e.Message, e.Reason == "FailedDelete")
	t.last, t.namespace = facts.LastSeen(e), e.Namespace
	return p.setStatement(types.NamespacedName{Namespace: e.Namespace, Name: e.Name}, t)
}

func (p *Part) forgetEvent(key types.NamespacedName) { p.setStatement(key, statement{}) }

// conditionStatement returns the newest statement of a namespace's conditions.
func conditionStatement(o *corev1.Namespace) (latest statement) {
	for _, c := range o.Status.Conditions {
		t := readStatement(c.Message, true)
		if t.last = c.LastTransitionTime.Time; t.webhook != "" && c.Status == corev1.ConditionTrue && newer(t, latest) {
			latest = t
		}
	}
	return latest
}

// setStatement reports whether the statement is kept.
func (p *Part) setStatement(from types.NamespacedName, t statement) bool {
	before := p.statements[from]
	if before == t {
		return t.webhook != ""
	}
	p.restate(from.Namespace, before.webhook, t.webhook)
	if t.webhook == "" {
		delete(p.statements, from)
		return false
	}
	p.statements[from] = t
	oldest, of := from, 0
	for key, candidate := range p.statements {
		if len(p.statements) <= MaxStatements && key.Namespace != from.Namespace {
			continue
		}
		of++
		if newer(p.statements[oldest], candidate) {
			oldest = key
		}
	}
	if len(p.statements) > MaxStatements || from.Namespace != "" && of > MaxStatementsOf {
		p.restate(oldest.Namespace, p.statements[oldest].webhook)
		delete(p.statements, oldest)
		p.options.Dropped(oldest)
		return oldest != from
	}
	return true
}

func (p *Part) restate(namespace string, webhooks ...string) {
	for key, h := range p.hooks {
		switch {
		case !slices.Contains(webhooks, h.Name):
		case namespace == "" || namespace == home:
			p.changed[key] = true
		default:
			p.touched[namespace] = true
		}
	}
}
