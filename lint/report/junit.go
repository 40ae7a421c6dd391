package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/termguard/termguard/internal/junit"
)

// writeJUnit writes a test case that failed for each finding, one with an error
// for each input that could not be read, and one that passed if there is
// neither: CI systems take a report without cases for a broken one.
func writeJUnit(r Report, out io.Writer) error {
	s := junit.Suite{Name: "termguard lint"}
	for _, f := range r.Findings {
		lines := []string{where(f.Place)}
		if moment := when(f); moment != "" {
			lines = append(lines, moment)
		}
		for _, e := range f.Evidence {
			lines = append(lines, "because: "+e)
		}
		if f.Remedy != "" {
			lines = append(lines, "way out: "+f.Remedy)
		}
		s.Cases = append(s.Cases, junit.Case{
			Class: r.path(f.Place.File), Name: fmt.Sprintf("%s at %d:%d", f.Policy, f.Place.Line, f.Place.Column),
			File: r.path(f.Place.File), Line: f.Place.Line,
			Failure: &junit.Detail{Message: visibleLines(says(f)), Type: string(f.Severity), Text: visibleLines(strings.Join(lines, "\n"))},
		})
	}
	for _, p := range r.Problems {
		s.Cases = append(s.Cases, junit.Case{
			Class: r.path(p.File), Name: "is sound", File: r.path(p.File), Line: p.Line,
			Error: &junit.Detail{Message: visibleLines(p.Message), Type: "input", Text: visibleLines(where(p.Place) + ": " + p.Message)},
		})
	}
	if len(s.Cases) == 0 {
		s.Cases = []junit.Case{{Class: "termguard", Name: "no findings"}}
	}
	s.Out = visibleLines(strings.Join(append(append([]string{}, r.Notes...), r.Summary()), "\n"))
	return junit.Write(out, s)
}
