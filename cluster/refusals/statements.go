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

// Failures of a running webhook show in the API server's errors: controllers put them into events, the
// namespace controller into the conditions of a namespace that it cannot empty.

// MaxStatements bounds the statements, and MaxStatementsOf the ones from a namespace's events: the newest
// stay.
const MaxStatements, MaxStatementsOf = 500, 20

// home is the namespace whose events count everywhere: only administrators write there, users may forge
// others.
const home = "kube-system"

// failedCall, with the URL, and deniedBy are the API server's errors if it could not call a webhook that
// fails closed, and if that denied the request (k8s.io/apiserver,
// pkg/admission/plugin/webhook/errors/statuserror.go, and .../validating/dispatcher.go).
var (
	failedCall    = regexp.MustCompile(`failed calling webhook "([^"]+)": (.*)`)
	calledService = regexp.MustCompile(`"https://([^./"]+)\.([^./"]+)\.svc[:/]`)
	deniedBy      = regexp.MustCompile(`admission webhook "([^"]+)" denied the request(?:: (.*))?`)
)

type statement struct {
	webhook        string // as the configuration names it
	service        string // "namespace/name" of the backend, "" if unknown
	cause, message string
	last           time.Time
}

// statements are kept by source: an event, or, without a namespace, a namespace.
type statements map[types.NamespacedName]statement

// statementFrom has the event's namespace, "" for the namespace controller's conditions.
type statementFrom struct {
	namespace string
	statement
}

func (t statements) byWebhook() map[string][]statementFrom {
	found := map[string][]statementFrom{}
	for from, s := range t {
		found[s.webhook] = append(found[s.webhook], statementFrom{from.Namespace, s})
	}
	return found
}

// newest returns the newest statement about a webhook that counts in a namespace: events count in their own.
// Names of webhooks are not unique, so the Service must match.
func newest(about []statementFrom, service, namespace string) (found statement, any bool) {
	for _, s := range about {
		if s.namespace != "" && s.namespace != home && s.namespace != namespace {
			continue
		}
		if (s.service == "" || s.service == service) && (!any || newer(s.statement, found)) {
			found, any = s.statement, true
		}
	}
	return found, any
}

// newer orders statements, those of the same time by text.
func newer(a, b statement) bool {
	if a.last.Equal(b.last) {
		return a.cause+a.message > b.cause+b.message
	}
	return a.last.After(b.last)
}

// readStatement finds a statement about a webhook. Refusals count only for a deletion.
func readStatement(text string, deletion bool) (t statement, found bool) {
	text, _, _ = strings.Cut(text, "\n")
	if said := failedCall.FindStringSubmatch(text); said != nil {
		t = statement{webhook: said[1], cause: "failing", message: facts.Shorten(said[2], facts.MaxText)}
		if url := calledService.FindStringSubmatch(said[2]); url != nil {
			t.service = url[2] + "/" + url[1]
		}
		return t, true
	}
	if said := deniedBy.FindStringSubmatch(text); said != nil && deletion {
		return statement{webhook: said[1], cause: "refusing", message: facts.Shorten(said[2], facts.MaxText)}, true
	}
	return statement{}, false
}

// KeepEvent keeps an event of any controller if it is about a webhook, and reports whether it is.
func (p *Part) KeepEvent(e *corev1.Event) bool {
	t, found := readStatement(e.Message, e.Reason == "FailedDelete")
	t.last = facts.LastSeen(e)
	return p.setStatement(types.NamespacedName{Namespace: e.Namespace, Name: e.Name}, t, found)
}

func (p *Part) forgetEvent(key types.NamespacedName) { p.setStatement(key, statement{}, false) }

func (p *Part) keepNamespaceStatement(o *corev1.Namespace) {
	var newest statement
	any := false
	for _, c := range o.Status.Conditions {
		if t, found := readStatement(c.Message, true); found && c.Status == corev1.ConditionTrue {
			t.last = c.LastTransitionTime.Time
			if !any || newer(t, newest) {
				newest, any = t, true
			}
		}
	}
	p.setStatement(types.NamespacedName{Name: o.Name}, newest, any)
}

func (p *Part) setStatement(from types.NamespacedName, t statement, found bool) bool {
	before, had := p.statements[from]
	if had == found && before == t {
		return found
	}
	p.restate(from.Namespace, before.webhook, t.webhook)
	if !found {
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

// restate records changed statements, which affect only their namespace, or all.
func (p *Part) restate(namespace string, webhooks ...string) {
	for key, h := range p.hooks {
		if !slices.Contains(webhooks, h.Name) {
			continue
		}
		if namespace == "" || namespace == home {
			p.changed[key] = true
		} else {
			p.touched[namespace] = true
		}
	}
}
