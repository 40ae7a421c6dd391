package report

import (
	"encoding/json"
	"io"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/lint/triage"
	"github.com/termguard/termguard/policies"
)

// Document is the JSON output. It is a contract: keys are added, and not changed.
type Document struct {
	APIVersion string                     `json:"apiVersion"`
	Kind       string                     `json:"kind"`
	Findings   []lint.Finding             `json:"findings"`
	Ignored    []triage.SuppressedFinding `json:"ignored"`
	Problems   []files.Problem            `json:"problems"`
	Notes      []string                   `json:"notes"`
	Summary    summary                    `json:"summary"`
}

type summary struct {
	Findings int            `json:"findings"`
	Severity map[string]int `json:"severity"`
	Ignored  int            `json:"ignored"`
	Baseline int            `json:"baseline"`
	Problems int            `json:"problems"`
	sets.Counts
	ExitCode int `json:"exitCode"`
}

func writeJSON(r Report, out io.Writer) error {
	d := Document{
		APIVersion: "termguard.dev/v1", Kind: "Lint",
		Findings: orEmpty(r.Findings), Ignored: orEmpty(r.Suppressed), Problems: orEmpty(r.Problems), Notes: orEmpty(r.Notes),
		Summary: summary{
			Findings: len(r.Findings), Severity: map[string]int{}, Ignored: len(r.Suppressed), Baseline: r.BaselineCount,
			Problems: len(r.Problems), Counts: r.Counts, ExitCode: r.ExitCode,
		},
	}
	for _, severity := range []policies.Severity{policies.High, policies.Medium, policies.Low, policies.Info} {
		d.Summary.Severity[string(severity)] = r.count(severity)
	}
	return encode(d, out)
}

// orEmpty returns a list that JSON writes as [].
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

func encode(value any, out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
