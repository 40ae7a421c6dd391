package report

import (
	"encoding/json"
	"io"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/triage"
	"github.com/termguard/termguard/policies"
)

// Document is the JSON output, apiVersion termguard.dev/v1, kind Lint. It is a contract: keys are added, and
// not changed.
type Document struct {
	APIVersion string                     `json:"apiVersion"`
	Kind       string                     `json:"kind"`
	Findings   []finding                  `json:"findings"`
	Ignored    []triage.SuppressedFinding `json:"ignored"`
	Problems   []lint.Problem             `json:"problems"`
	Notes      []string                   `json:"notes"`
	Summary    summary                    `json:"summary"`
}

type finding struct {
	lint.Finding
	Fingerprint string `json:"fingerprint"`
}

type summary struct {
	Findings  int            `json:"findings"`
	Severity  map[string]int `json:"severity"`
	Ignored   int            `json:"ignored"`
	Baseline  int            `json:"baseline"`
	Problems  int            `json:"problems"`
	Files     int            `json:"files"`
	Documents int            `json:"documents"`
	Objects   int            `json:"objects"`
	Skipped   int            `json:"skipped"`
	Tests     int            `json:"tests"`
	ExitCode  int            `json:"exitCode"`
}

func writeJSON(r Report, out io.Writer) error {
	d := Document{
		APIVersion: "termguard.dev/v1", Kind: "Lint",
		Findings: []finding{}, Ignored: []triage.SuppressedFinding{}, Problems: []lint.Problem{}, Notes: []string{},
		Summary: summary{
			Findings: len(r.Findings), Severity: map[string]int{}, Ignored: len(r.Suppressed), Baseline: r.BaselineCount,
			Problems: len(r.Problems), Files: r.Files, Documents: r.Documents, Objects: r.Objects, Skipped: r.Skipped, Tests: r.Tests,
			ExitCode: r.ExitCode,
		},
	}
	for i, f := range r.Findings {
		d.Findings = append(d.Findings, finding{f, r.Fingerprints[i]})
	}
	d.Ignored = append(d.Ignored, r.Suppressed...)
	d.Problems = append(d.Problems, r.Problems...)
	d.Notes = append(d.Notes, r.Notes...)
	for _, severity := range []policies.Severity{policies.High, policies.Medium, policies.Low, policies.Info} {
		d.Summary.Severity[string(severity)] = r.count(severity)
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(d)
}
