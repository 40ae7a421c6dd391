// Package junit writes what CI systems read of JUnit's XML; there is no standard:
// https://github.com/testmoapp/junitxml
package junit

import (
	"encoding/xml"
	"io"
)

// Report is what is written.
type Report struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Suites   []Suite  `xml:"testsuite"`
}

// Suite is all of it. CI systems take one without cases for a broken one.
type Suite struct {
	Name     string `xml:"name,attr"`
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Cases    []Case `xml:"testcase"`
	Out      string `xml:"system-out,omitempty"`
}

// Case is a test case, which passed if it has neither a failure nor an error.
type Case struct {
	Class   string  `xml:"classname,attr"`
	Name    string  `xml:"name,attr"`
	File    string  `xml:"file,attr,omitempty"`
	Line    int     `xml:"line,attr,omitempty"`
	Failure *Detail `xml:"failure"`
	Error   *Detail `xml:"error"`
}

// Detail is why a case did not pass.
type Detail struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// Write counts the cases and writes the suite.
func Write(out io.Writer, s Suite) error {
	s.Tests, s.Failures, s.Errors = len(s.Cases), 0, 0
	for _, c := range s.Cases {
		if c.Failure != nil {
			s.Failures++
		}
		if c.Error != nil {
			s.Errors++
		}
	}
	all := Report{Name: s.Name, Tests: s.Tests, Failures: s.Failures, Errors: s.Errors, Suites: []Suite{s}}
	if _, err := io.WriteString(out, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(out)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(out, "\n")
	return err
}
