package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// writeJUnit writes a passed case if there are no others: CI systems reject a report without cases.
func writeJUnit(r Report, out io.Writer) error {
	s := suite{totals: totals{Name: "termguard lint"}}
	for _, f := range r.Findings {
		lines := append([]string{placeText(f.Place)}, details(f, occasion(f), "because: ", "way out: ")...)
		s.Cases = append(s.Cases, testCase{
			Class: r.path(f.Place.File), Name: fmt.Sprintf("%s at %d:%d", f.Policy, f.Place.Line, f.Place.Column),
			File: r.path(f.Place.File), Line: f.Place.Line,
			Failure: &detail{Message: toPrintableLines(headline(f)), Type: string(f.Severity), Text: toPrintableLines(strings.Join(lines, "\n"))},
		})
	}
	for _, p := range r.Problems {
		s.Cases = append(s.Cases, testCase{
			Class: r.path(p.File), Name: "is sound", File: r.path(p.File), Line: p.Line,
			Error: &detail{Message: toPrintableLines(p.Message), Type: "input", Text: toPrintableLines(placeText(p.Place) + ": " + p.Message)},
		})
	}
	if len(s.Cases) == 0 {
		s.Cases = []testCase{{Class: "termguard", Name: "no findings"}}
	}
	s.Out = toPrintableLines(strings.Join(append(append([]string{}, r.Notes...), r.Summary()), "\n"))
	s.Tests, s.Failures, s.Errors = len(s.Cases), len(r.Findings), len(r.Problems)
	if _, err := io.WriteString(out, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(out)
	encoder.Indent("", "  ")
	if err := encoder.Encode(suites{totals: s.totals, Suites: []suite{s}}); err != nil {
		return err
	}
	_, err := io.WriteString(out, "\n")
	return err
}

// suites is JUnit's XML as CI systems read it, without a standard: https://github.com/testmoapp/junitxml
type suites struct {
	XMLName xml.Name `xml:"testsuites"`
	totals
	Suites []suite `xml:"testsuite"`
}

type suite struct {
	totals
	Cases []testCase `xml:"testcase"`
	Out   string     `xml:"system-out,omitempty"`
}

type totals struct {
	Name     string `xml:"name,attr"`
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
}

type testCase struct {
	Class   string  `xml:"classname,attr"`
	Name    string  `xml:"name,attr"`
	File    string  `xml:"file,attr,omitempty"`
	Line    int     `xml:"line,attr,omitempty"`
	Failure *detail `xml:"failure"`
	Error   *detail `xml:"error"`
}

type detail struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}
