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
