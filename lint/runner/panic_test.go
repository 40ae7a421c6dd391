package runner

import (
	"os"
	"strings"
	"testing"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/report"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/policies"
)

// TestPanic checks that each report is written and the run fails, whichever part of it panics.
func TestPanic(t *testing.T) {
	in(t, map[string]string{"a.yaml": hangs, "b.yaml": "apiVersion: v1\nkind: \"b\n"})
	_, stderr, err := start(t, Options{Input: sets.Options{Paths: []string{"."}}, Outputs: []string{"json=j.json", "sarif=s.sarif", "junit=j.xml"}, Load: func([]string) (*policies.Set, error) { panic("on purpose") }})
	if err == nil || !strings.Contains(err.Error(), "on purpose") {
		t.Errorf("error %v", err)
	}
	for _, file := range []string{"j.json", "s.sarif", "j.xml"} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "the quotes that are opened here are not closed") {
			t.Errorf("%s: %v: %.300s\n%s", file, err, text, stderr)
		}
	}
}

// TestPanicOfFormat checks that a format that fails does not affect others.
func TestPanicOfFormat(t *testing.T) {
	in(t, nil)
	r := &runner{Options: Options{Stdout: new(strings.Builder), Stderr: new(strings.Builder)}, outputs: []output{{"sarif", "s.sarif"}, {"json", "j.json"}}}
	err := r.report(report.Report{Policies: make([]policies.Policy, 1), Rel: func(string) string { panic("on purpose") }, Result: lint.Result{Problems: []files.Problem{{Place: files.Place{File: "a.yaml", Line: 1}}}}})
	if err == nil || !strings.Contains(err.Error(), "write the report as sarif") {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile("j.json"); err != nil || !strings.Contains(string(text), `"kind": "Lint"`) {
		t.Errorf("%v: %s", err, text)
	}
}
