package triage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/policies"
)

// maxBaseline is in bytes, for about 100,000 findings.
const maxBaseline = 64 << 20

const (
	baselineVersion = "termguard.dev/v1"
	baselineKind    = "LintBaseline"
)

// Baseline holds known findings, which do not count.
type Baseline struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Findings   []BaselineFinding `json:"findings"`
}

// BaselineFinding counts by its fingerprint; the rest is for reviewers.
type BaselineFinding struct {
	Fingerprint string          `json:"fingerprint"`
	Policy      string          `json:"policy"`
	File        string          `json:"file"`
	Object      policies.Object `json:"object"`
	Message     string          `json:"message"`
}

// NewBaseline takes findings with fingerprints, and the rel of lint.SetFingerprints.
func NewBaseline(findings []lint.Finding, rel func(file string) string) Baseline {
	b := Baseline{APIVersion: baselineVersion, Kind: baselineKind, Findings: []BaselineFinding{}}
	for _, f := range findings {
		b.Findings = append(b.Findings, BaselineFinding{f.Fingerprint, f.Policy, rel(f.Place.File), f.Object, f.Message})
	}
	// Not by line, so that moved lines change nothing.
	slices.SortFunc(b.Findings, func(a, b BaselineFinding) int {
		return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Policy, b.Policy), strings.Compare(a.Fingerprint, b.Fingerprint))
	})
	return b
}

func (b Baseline) Write(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(b)
}

func ReadBaseline(in io.Reader) (Baseline, error) {
	var b Baseline
	text, err := io.ReadAll(io.LimitReader(in, maxBaseline+1))
	switch {
	case err != nil:
		return b, err
	case len(text) > maxBaseline:
		return b, fmt.Errorf("larger than %d bytes", maxBaseline)
	}
	strict, err := kjson.UnmarshalStrict(text, &b)
	if err := errors.Join(append(strict, err)...); err != nil {
		return b, fmt.Errorf("not a baseline: %w; rewrite it with --write-baseline", err)
	}
	if b.APIVersion != baselineVersion || b.Kind != baselineKind {
		return b, fmt.Errorf("want apiVersion: %s, kind: %s; got apiVersion: %s, kind: %s; rewrite it with --write-baseline", baselineVersion, baselineKind, b.APIVersion, b.Kind)
	}
	return b, nil
}

func (b Baseline) Compare(findings []lint.Finding) (fresh []lint.Finding, accepted, gone int) {
	remaining := map[string]bool{}
	for _, k := range b.Findings {
		remaining[k.Fingerprint] = true
	}
	for _, f := range findings {
		if remaining[f.Fingerprint] {
			delete(remaining, f.Fingerprint)
			accepted++
			continue
		}
		fresh = append(fresh, f)
	}
	return fresh, accepted, len(remaining)
}
