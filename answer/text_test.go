package answer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// Text that others wrote on objects must not control the user's terminal.
func TestTextIsPrintable(t *testing.T) {
	const hostile = "x\x1b[2J\x1b]0;t\x07\u202ey\nistio-system: completes\r\u009b1m"
	r := Item{
		Target: policies.Object{Resource: "namespaces", Name: hostile}, Verdict: policies.Hangs,
		Findings: []policies.Finding{{Policy: "p", Message: hostile, Evidence: []string{hostile}, Remedy: hostile, Objects: []policies.Object{{Resource: hostile, Namespace: hostile, Name: hostile}}}},
		Unseen:   []policies.Unseen{{Resource: hostile, What: hostile, Reason: hostile}, {Resource: hostile, Reason: hostile}},
	}
	set := Answer{Items: []Item{r}, Missing: []string{hostile}, Plan: []Step{{Step: policies.Step{Do: hostile, Command: hostile}, Why: hostile}}}
	one := set
	one.form = asOne
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text": func(b *bytes.Buffer) error { return one.Text(b) }, "text of several": func(b *bytes.Buffer) error { return set.Text(b) },
		"dot": func(b *bytes.Buffer) error { return set.DOT(b) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(out.String(), "\t", " ") // DOT is indented
		if clean := printable.Lines(got); got != clean {
			t.Errorf("%s has terminal control characters: %q", name, got)
		}
		if strings.Contains(got, "\nistio-system: completes") {
			t.Errorf("%s has a line from the object's text: %q", name, got)
		}
	}
}

// TestFirstLine checks that the first line names the cause, not a symptom.
func TestFirstLine(t *testing.T) {
	finding := func(policy, message string, certainty policies.Certainty, kind policies.Kind) policies.Finding {
		return policies.Finding{Policy: policy, Message: message, Certainty: certainty, Severity: policies.High, Kind: kind, Symptom: policy == "already-terminating"}
	}
	const (
		remains = "Terminating for 8 minutes: some of its content remains (NamespaceContentRemaining)"
		broken  = "Terminating for 8 minutes: an API cannot be discovered, so the namespace cannot finish (NamespaceDeletionDiscoveryFailure)"
	)
	counted := finding("already-terminating", remains, policies.Will, "")
	counted.Cause = policies.Cause{Consequence: true, Elapsed: true}
	for name, tc := range map[string]struct {
		reason   string
		verdict  policies.Verdict
		findings []policies.Finding
		want     string
	}{
		"Imitation": {"The words of a message class nothing.", policies.Hangs, []policies.Finding{finding("already-terminating", remains, policies.Will, ""), finding("orphaned-finalizer", "nobody removes f", policies.May, "")}, "hangs: " + remains},
		"Cause":     {"What the API server says of it comes after why.", policies.Hangs, []policies.Finding{finding("already-terminating", "for 3 h", policies.Will, ""), finding("orphaned-finalizer", "nobody removes f", policies.Will, "")}, "hangs: nobody removes f"},
		"Symptom":   {"Without a cause the symptom is all there is.", policies.Hangs, []policies.Finding{finding("already-terminating", "for 3 h", policies.Will, "")}, "hangs: for 3 h"},
		"Remaining": {"That content is left is certain, and no cause: what may hold it is told.", policies.Hangs, []policies.Finding{counted, finding("orphaned-finalizer", "nobody removes f", policies.May, "")}, "hangs: nobody removes f"},
		"Discovery": {"An API that does not answer is a cause, and certain.", policies.Hangs, []policies.Finding{counted, finding("orphaned-finalizer", "nobody removes f", policies.May, ""), finding("already-terminating", broken, policies.Will, "")}, "hangs: " + broken},
		"Pod":       {"What a node says of its pod is a cause.", policies.Hangs, []policies.Finding{finding("already-terminating", "for 3 h: its containers still run", policies.Will, ""), finding("slow", "it may wait", policies.May, "")}, "hangs: for 3 h: its containers still run"},
		"Alone":     {"Where nothing tells what holds the content.", policies.Hangs, []policies.Finding{finding("already-terminating", remains, policies.Will, "")}, "hangs: " + remains},
		"Refused":   {"What is refused does not hang.", policies.Refused, []policies.Finding{finding("a", "it waits", policies.Will, ""), finding("b", "nobody answers", policies.Will, policies.KindRefused)}, "refused: nobody answers"},
		"Forbidden": {"A rule of one's own is named as such.", policies.Refused, []policies.Finding{finding("a", "not on Fridays", policies.Will, policies.KindForbidden)}, "refused: denied by policy a: not on Fridays"},
		"AtRisk":    {"What may be.", policies.AtRisk, []policies.Finding{finding("a", "it may wait", policies.May, "")}, "at-risk: it may wait"},
		"Nothing":   {"A verdict from elsewhere has no finding.", policies.Hangs, nil, "hangs: its deletion will not finish by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := 13 // seconds, of what is no cause: they bound nothing that may wait for ever
			if got := (Item{Verdict: tc.verdict, Findings: tc.findings, EstimateSeconds: &limit}).Why(); got != tc.want {
				t.Errorf("%s\nWhy() = %q, want %q", tc.reason, got, tc.want)
			}
			if row := (Item{Verdict: tc.verdict, Findings: tc.findings}).Blocker(); tc.verdict == policies.Hangs && "hangs: "+row != tc.want && len(tc.findings) > 0 {
				t.Errorf("%s\nWhy() of a row = %q, want %q", tc.reason, row, tc.want)
			}
		})
	}
}

// TestUnseen checks that facts unseen for one reason are one line, which full unfolds; the line
// names the user, and prints no command that grants a right.
func TestUnseen(t *testing.T) {
	var many []policies.Unseen
	for i := range 34 {
		many = append(many, policies.Unseen{Resource: fmt.Sprintf("kind%02d", i), Reason: "forbidden"})
	}
	for want, tc := range map[string]struct {
		unseen []policies.Unseen
		user   string
		limits limits
	}{
		"  forbidden: kind00, kind01, kind02 and 31 more (-o full has each)\n  to see it, ask an administrator for the verbs get and list of these for jane@example.com\n": {many, "jane@example.com", folded},
		", kind32, kind33\n": {many, "jane@example.com", whole},
		"  forbidden: secrets, pods, nodes, a, b\n  to see it, ask an administrator for the verbs get and list of these for your user\n": {[]policies.Unseen{{Resource: "secrets", Reason: "forbidden"}, {Resource: "pods", Reason: "forbidden"}, {Resource: "nodes", Reason: "forbidden"}, {Resource: "a", Reason: "forbidden"}, {Resource: "b", Reason: "forbidden"}}, "", folded},
	} {
		var out page.Page
		addUnseen(&out, tc.unseen, tc.user, tc.limits)
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "kubectl") {
			t.Errorf("want %q: %s", want, out.String())
		}
	}
}

// TestTyped checks that the name of an object, which may hold any character, is one word to a
// shell.
func TestTyped(t *testing.T) {
	all := Answer{form: asList, Items: []Item{{Verdict: policies.Hangs, Target: policies.Object{Resource: "roles.rbac.authorization.k8s.io", Namespace: "demo", Name: "a;touch x"}}}}
	var out strings.Builder
	if err := all.Text(&out); err != nil || !strings.Contains(out.String(), "termguard check 'roles.rbac.authorization.k8s.io/a;touch x' -n demo\n") {
		t.Errorf("%v: %s", err, &out)
	}
}
