package scan

import (
	"fmt"
	"io"
	"strings"

	"github.com/termguard/termguard/internal/junit"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
)

// JUnit writes a test case for each cause, which failed if something is broken for certain,
// and one with an error for what could not be asked about.
func (s *Scan) JUnit(w io.Writer) error {
	suite := junit.Suite{Name: "termguard scan"}
	for _, c := range s.Causes {
		one := junit.Case{Class: string(c.Class), Name: printable.Line(c.Title)}
		var lines strings.Builder
		c.text(func(format string, args ...any) {
			lines.WriteString(printable.Line(fmt.Sprintf(format, args...)) + "\n")
		}, 1, nil, true)
		if c.Class == Broken && c.Certainty == policies.Will {
			one.Failure = &junit.Detail{Message: printable.Line(c.Title + " " + c.holding(nil)), Type: string(c.Class), Text: lines.String()}
		}
		suite.Cases = append(suite.Cases, one)
	}
	for _, unseen := range s.Unseen {
		suite.Cases = append(suite.Cases, junit.Case{Class: string(Unseen), Name: "is seen", Error: &junit.Detail{Message: printable.Line(unseen), Type: "unseen"}})
	}
	if len(suite.Cases) == 0 {
		suite.Cases = []junit.Case{{Class: "termguard", Name: "everything could be deleted"}}
	}
	suite.Out = printable.Line(s.headline())
	return junit.Write(w, suite)
}

// Markdown writes the scan as a page for a merge request or an issue.
func (s *Scan) Markdown(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "## termguard scan\n\n%s\n\n", printable.Markdown(s.headline()))
	for _, line := range []string{s.Interrupted, s.said((*Scan).promise, s.Mended != nil), s.said((*Scan).changes, s.Since != nil)} {
		if line != "" {
			fmt.Fprintf(&out, "%s\n\n", printable.Markdown(line))
		}
	}
	if len(s.Asked) > 0 {
		out.WriteString("| | asked | refused | hangs | at risk | unknown | completes |\n|---|--:|--:|--:|--:|--:|--:|\n")
		for _, c := range s.Asked {
			fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %d | %d |\n", c.Kind, c.Asked, c.Refused, c.Hangs, c.AtRisk, c.Unknown, c.Completes)
		}
	}
	for _, class := range Classes() {
		first := true
		for _, c := range s.Causes {
			if c.Class != class {
				continue
			}
			if first {
				fmt.Fprintf(&out, "\n### %s\n\n| cause | holds | free once fixed | first |\n|---|---|---|---|\n", headings[class])
				first = false
			}
			free := ""
			if c.Mended != nil {
				free = c.Mended.String()
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", printable.Markdown(c.Title), printable.Markdown(c.holding(nil)), free, printable.Markdown(strings.Join(c.Names, ", ")))
		}
	}
	if len(s.Terminating) > 0 {
		out.WriteString("\n### Terminating now\n\n| since | object | why |\n|---|---|---|\n")
	}
	for i, e := range s.Terminating {
		if i == maxRows {
			fmt.Fprintf(&out, "\n%d more are in the JSON.\n", len(s.Terminating)-i)
			break
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", printable.Markdown(e.Since), printable.Markdown(Shown(e.Target)), printable.Markdown(e.Why))
	}
	if len(s.Unseen) > 0 {
		out.WriteString("\n### not asked about\n\n")
	}
	for _, unseen := range s.Unseen {
		fmt.Fprintf(&out, "- %s\n", printable.Markdown(unseen))
	}
	for _, left := range s.LeftOut {
		fmt.Fprintf(&out, "\nLeft out: %s\n", printable.Markdown(left))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// maxRows bounds the rows of a table for people.
const maxRows = 100

func (s *Scan) said(what func(*Scan) string, whether bool) string {
	if !whether {
		return ""
	}
	return what(s)
}
