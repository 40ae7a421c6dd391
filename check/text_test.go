package check

import (
	"bytes"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
)

// What others wrote on objects must not steer the terminal of whoever checks.
func TestTextIsPrintable(t *testing.T) {
	const hostile = "x\x1b[2J\x1b]0;t\x07\u202ey\nistio-system: completes\r\u009b1m"
	r := Report{
		Target: policies.Object{Resource: "namespaces", Name: hostile}, Verdict: policies.Hangs,
		Findings: []policies.Finding{{Policy: "p", Message: hostile, Evidence: []string{hostile}, Remedy: hostile, Objects: []policies.Object{{Resource: hostile, Namespace: hostile, Name: hostile}}}},
		Plan:     []Step{{Step: policies.Step{Do: hostile, Command: hostile}, Why: hostile}},
		Unseen:   []string{hostile},
	}
	set := Set{Items: []Report{r}, Missing: []string{hostile}, Plan: r.Plan}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text": func(b *bytes.Buffer) error { return r.Text(b) }, "text of several": func(b *bytes.Buffer) error { return set.Text(b) },
		"dot": func(b *bytes.Buffer) error { return r.DOT(b) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(out.String(), "\t", " ") // DOT is indented
		if clean := printable.Lines(got); got != clean {
			t.Errorf("%s steers a terminal: %q", name, got)
		}
		if strings.Contains(got, "\nistio-system: completes") {
			t.Errorf("%s has a line that somebody else wrote: %q", name, got)
		}
	}
}

// TestFirstLine holds the first line to the cause, not to a symptom of it.
func TestFirstLine(t *testing.T) {
	finding := func(policy, message string, certainty policies.Certainty, kind policies.Kind) policies.Finding {
		return policies.Finding{Policy: policy, Message: message, Certainty: certainty, Severity: policies.High, Kind: kind}
	}
	const (
		remains = "Terminating for 8 minutes: some of its content remains (NamespaceContentRemaining)"
		broken  = "Terminating for 8 minutes: an API cannot be discovered, so the namespace cannot finish (NamespaceDeletionDiscoveryFailure)"
	)
	for name, tc := range map[string]struct {
		reason   string
		verdict  policies.Verdict
		findings []policies.Finding
		want     string
	}{
		"Cause":     {"What the API server says of it comes after why.", policies.Hangs, []policies.Finding{finding("already-terminating", "for 3 h", policies.Will, ""), finding("orphaned-finalizer", "nobody removes f", policies.Will, "")}, "hangs: nobody removes f"},
		"Symptom":   {"Without a cause the symptom is all there is.", policies.Hangs, []policies.Finding{finding("already-terminating", "for 3 h", policies.Will, "")}, "hangs: for 3 h"},
		"Remaining": {"That content is left is certain, and no cause: what may hold it is told.", policies.Hangs, []policies.Finding{finding("already-terminating", remains, policies.Will, ""), finding("orphaned-finalizer", "nobody removes f", policies.May, "")}, "hangs: nobody removes f"},
		"Discovery": {"An API that does not answer is a cause, and certain.", policies.Hangs, []policies.Finding{finding("already-terminating", remains, policies.Will, ""), finding("orphaned-finalizer", "nobody removes f", policies.May, ""), finding("already-terminating", broken, policies.Will, "")}, "hangs: " + broken},
		"Pod":       {"What a node says of its pod is a cause.", policies.Hangs, []policies.Finding{finding("already-terminating", "for 3 h: its containers still run", policies.Will, ""), finding("slow", "it may wait", policies.May, "")}, "hangs: for 3 h: its containers still run"},
		"Alone":     {"Where nothing tells what holds the content.", policies.Hangs, []policies.Finding{finding("already-terminating", remains, policies.Will, "")}, "hangs: " + remains},
		"Refused":   {"What is refused does not hang.", policies.Refused, []policies.Finding{finding("a", "it waits", policies.Will, ""), finding("b", "nobody answers", policies.Will, policies.KindRefused)}, "refused: nobody answers"},
		"Forbidden": {"A rule of one's own is named as such.", policies.Refused, []policies.Finding{finding("a", "not on Fridays", policies.Will, policies.KindForbidden)}, "refused: by a rule of your own: not on Fridays"},
		"AtRisk":    {"What may be.", policies.AtRisk, []policies.Finding{finding("a", "it may wait", policies.May, "")}, "at-risk: it may wait"},
		"Nothing":   {"A verdict from elsewhere has no finding.", policies.Hangs, nil, "hangs: its deletion will not finish by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			known := 13 // seconds, of what is no cause: they bound nothing that may wait for ever
			if got := (Report{Kind: "Check", Verdict: tc.verdict, Findings: tc.findings, EstimateSeconds: &known}).meaning(); got != tc.want {
				t.Errorf("%s\nmeaning() = %q, want %q", tc.reason, got, tc.want)
			}
			if row := (Ending{Report: Report{Kind: "Check", Verdict: tc.verdict, Findings: tc.findings}}).Why(); tc.verdict == policies.Hangs && "hangs: "+row != tc.want && len(tc.findings) > 0 {
				t.Errorf("%s\nWhy() of a row = %q, want %q", tc.reason, row, tc.want)
			}
		})
	}
}

// The command for a right names who asked, and no two rights share a role.
func TestRights(t *testing.T) {
	commands := func(user string, unseen ...string) string {
		var out strings.Builder
		writeUnseen(&out, unseen, user)
		return out.String()
	}
	jane := commands("jane@example.com", "secrets: forbidden")
	for reason, tc := range map[string]struct{ got, want string }{
		"it fills in who asked":            {jane, " --user=jane@example.com\n"},
		"a service account is a user, too": {commands("system:serviceaccount:ci:deploy", "secrets: forbidden"), " --user=system:serviceaccount:ci:deploy\n"},
		"a name cannot run commands":       {commands("o'hara; reboot", "secrets: forbidden"), ` --user='o'\''hara; reboot'` + "\n"},
		"where nobody knows, a blank":      {commands("", "secrets: forbidden"), " --user=YOUR-USER\n"},
	} {
		if !strings.Contains(tc.got, tc.want) {
			t.Errorf("%s: got %s", reason, tc.got)
		}
	}
	role := func(text string) string { return strings.Fields(text[strings.Index(text, "clusterrole "):])[1] }
	if again := commands("jane@example.com", "secrets: forbidden"); again != jane {
		t.Errorf("the same right has two roles: %s%s", jane, again)
	}
	for _, other := range []string{commands("jane@example.com", "pods: forbidden"), commands("joe", "secrets: forbidden")} {
		if role(other) == role(jane) {
			t.Errorf("two rights share a role: %s%s", jane, other)
		}
	}
}
