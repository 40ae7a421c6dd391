package lint

import (
	"strings"
	"testing"

	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/policies"
)

// fingerprints returns the fingerprints of findings.
func fingerprints(findings []Finding, rel func(string) string) (prints []string) {
	SetFingerprints(findings, rel)
	for _, f := range findings {
		prints = append(prints, f.Fingerprint)
	}
	return prints
}

func TestFingerprints(t *testing.T) {
	base := Finding{
		Finding: policies.Finding{
			Policy: "orphaned-finalizer", Message: "held by 2", Field: "metadata.finalizers[0]",
			Objects: []policies.Object{{Resource: "things.example.com", Namespace: "demo", Name: "a"}},
		},
		Question: DeleteObject,
		Object:   policies.Object{Resource: "things.example.com", Namespace: "demo", Name: "a"},
		Place:    files.Place{File: "deploy/a.yaml", Line: 12, Column: 5, Source: "  - example.com/f", Value: "example.com/f"},
	}
	same := func(file string) string { return file }
	print := func(change func(*Finding)) string {
		f := base
		change(&f)
		return fingerprints([]Finding{f}, same)[0]
	}
	want := print(func(*Finding) {})
	cases := map[string]struct {
		reason string
		change func(*Finding)
		same   bool
	}{
		"Moved":    {"Lines above were added.", func(f *Finding) { f.Place.Line, f.Place.Column, f.Place.Source = 40, 9, "x" }, true},
		"Reworded": {"A newer termguard says it better.", func(f *Finding) { f.Message, f.Remedy, f.Severity = "blocked by 2", "wait", policies.Low }, true},
		"File":     {"Another file is another place.", func(f *Finding) { f.Place.File = "b.yaml" }, false},
		"Policy":   {"Another policy.", func(f *Finding) { f.Policy = "storage-in-use" }, false},
		"Question": {"Another question.", func(f *Finding) { f.Question = DeleteSet }, false},
		"Target":   {"Another deletion.", func(f *Finding) { f.Target.Name = "b" }, false},
		"Object":   {"Another object.", func(f *Finding) { f.Object.Name = "b" }, false},
		"Field":    {"Another field.", func(f *Finding) { f.Field = "spec.finalizers[0]" }, false},
		"Item":     {"Another finalizer came before it.", func(f *Finding) { f.Field = "metadata.finalizers[1]" }, true},
		"Value":    {"Another finalizer in its place.", func(f *Finding) { f.Place.Value = "example.com/g" }, false},
		"Blocker":  {"Another blocker.", func(f *Finding) { f.Objects = nil }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := print(tc.change); (got == want) != tc.same {
				t.Errorf("%s\nfingerprint %s, unchanged %s", tc.reason, got, want)
			}
		})
	}
	if got := fingerprints([]Finding{base, base}, same); got[0] == got[1] {
		t.Errorf("two findings that are alike have one fingerprint, %s", got[0])
	}
	if got := fingerprints([]Finding{base}, func(string) string { return "elsewhere" })[0]; got == want {
		t.Error("the name of the file is not taken from rel")
	}
	// A baseline moves from one machine to another: this is filepath.ToSlash where \ separates
	// folders.
	windows := base
	windows.Place.File = `deploy\a.yaml`
	slashed := func(file string) string { return strings.ReplaceAll(file, `\`, "/") }
	if got := fingerprints([]Finding{windows}, slashed)[0]; got != want {
		t.Errorf("%s has fingerprint %s, with forward slashes %s", windows.Place.File, got, want)
	}
}
