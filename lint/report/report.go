// Package report writes the findings of a lint run in several formats.
package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/triage"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// Report is a run after triage.
type Report struct {
	lint.Result   // sorted, with fingerprints
	Suppressed    []triage.SuppressedFinding
	BaselineCount int
	Policies      []policies.Policy
	Version       string
	ExitCode      int
	// Rel, unless nil, makes a file name relative to its repository, as SARIF, JUnit and annotations need.
	Rel func(file string) string
}

type Format func(Report, io.Writer) error

// Formats returns the formats by name, Text without color.
func Formats() map[string]Format {
	return map[string]Format{
		"text":   Text(false),
		"json":   writeJSON,
		"sarif":  writeSARIF,
		"junit":  writeJUnit,
		"github": writeGitHub,
	}
}

// Names returns the names of Formats, the default first.
func Names() []string {
	return []string{"text", "json", "sarif", "junit", "github"}
}

// Summary returns the run in one line.
func (r Report) Summary() string {
	var parts []string
	if len(r.Findings) == 0 {
		parts = append(parts, "no findings")
	} else {
		var counts []string
		for _, severity := range []policies.Severity{policies.High, policies.Medium, policies.Low, policies.Info} {
			if n := r.count(severity); n > 0 {
				counts = append(counts, fmt.Sprintf("%d %s", n, severity))
			}
		}
		parts = append(parts, fmt.Sprintf("%s: %s", page.Count(len(r.Findings), "finding"), strings.Join(counts, ", ")))
	}
	if n := len(r.Problems); n > 0 {
		parts = append(parts, page.Count(n, "problem")+" with the input")
	}
	if n := len(r.Suppressed); n > 0 {
		parts = append(parts, fmt.Sprintf("%d ignored", n))
	}
	if r.BaselineCount > 0 {
		parts = append(parts, fmt.Sprintf("%d in the baseline", r.BaselineCount))
	}
	scope := fmt.Sprintf("%s in %s", page.Count(r.Objects, "object"), page.Count(r.Files, "file"))
	if r.Skipped > 0 {
		scope += fmt.Sprintf(", %s without any", page.Count(r.Skipped, "document"))
	}
	if r.Tests > 0 {
		scope += fmt.Sprintf(", %d of tests left out: see --include-tests", r.Tests)
	}
	return strings.Join(parts, "; ") + " (" + scope + ")"
}

func (r Report) count(severity policies.Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

func headline(f lint.Finding) string {
	if f.Question == "" || f.Question == lint.ApplyObject || f.Severity == policies.Info {
		return f.Message
	}
	return f.Says() + ": " + f.Message
}

func occasion(f lint.Finding) string {
	switch f.Question {
	case lint.DeleteObject, lint.DeleteNamespace:
		return "when " + f.Target.Ref() + " is deleted"
	case lint.DeleteSet:
		return "when kubectl delete -f deletes " + f.Target.Ref() + " and all that is with it"
	case lint.ApplyObject:
		return "in " + f.Target.Ref()
	}
	return ""
}

func details(f lint.Finding, moment, because, wayOut string) (lines []string) {
	if moment != "" {
		lines = append(lines, moment)
	}
	for _, e := range f.Evidence {
		lines = append(lines, because+e)
	}
	if f.Remedy != "" {
		lines = append(lines, wayOut+f.Remedy)
	}
	return lines
}

// stdin replaces the file name "-" in outputs that could misread it.
const stdin = "stdin"

func (r Report) path(file string) string {
	if file == "-" {
		return stdin
	}
	if r.Rel != nil {
		return r.Rel(file)
	}
	return strings.TrimPrefix(file, "./")
}

func level(f lint.Finding) string {
	switch {
	case f.Severity == policies.High && f.Certainty == policies.Will:
		return "error"
	case f.Severity == policies.High || f.Severity == policies.Medium:
		return "warning"
	default:
		return "note"
	}
}

func toPrintableLines(text string) string { return printable.But(text, "\t\r\n") }
