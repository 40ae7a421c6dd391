package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/lint/triage"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

var orphaned = policies.Policy{
	ID: "orphaned-finalizer", Title: "Finalizer without an owner", Severity: policies.High,
	Description: "A finalizer whose controller is gone is never removed.",
	Remedy:      "Install the controller again, and delete then. Last, remove the finalizer by hand: what it guards stays behind.",
	Limits:      "Controllers outside the cluster.",
	RelatedResources: []policies.Resource{
		{Ref: "https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/", Description: "How finalizers work."},
	},
}

// full has everything that formats must handle.
func full() Report {
	finding := func(severity policies.Severity, certainty policies.Certainty, message string, place files.Place) lint.Finding {
		return lint.Finding{
			Finding: policies.Finding{
				Policy: orphaned.ID, Title: orphaned.Title, Severity: severity, Certainty: certainty, Message: message,
				Objects: []policies.Object{{Resource: "things.example.com", Namespace: "demo", Name: "a"}}, Evidence: []string{}, Remedy: orphaned.Remedy,
			},
			Question: lint.DeleteObject,
			Target:   policies.Object{Resource: "things.example.com", Namespace: "demo", Name: "a"},
			Object:   policies.Object{Resource: "things.example.com", Namespace: "demo", Name: "a"},
			Place:    place,
		}
	}
	findings := []lint.Finding{
		finding(policies.High, policies.Will, "finalizer example.com/f has no owner", files.Place{File: "./deploy/a.yaml", Line: 12, Column: 7, EndColumn: 20, Source: "    - example.com/f  # why?"}),
		finding(policies.High, policies.May, "50 % of a: b, c\nsecond line <&> \x1b[31mred", files.Place{File: "deploy/ü b,c:d%.yaml", Line: 3, Column: 4, EndColumn: 8, Source: "\t\t-\tübung"}),
		finding(policies.Medium, policies.Will, "rendered", files.Place{File: "-", Line: 120, Column: 200, EndColumn: 210, Source: strings.Repeat("x", 199) + "0123456789" + strings.Repeat("y", 99), Rendered: "templates/a.yaml"}),
		finding(policies.Info, policies.Will, "takes 600 seconds", files.Place{File: "C:/repo/a.yaml", Line: 1, Column: 1}),
		finding(policies.Low, policies.May, "no place", files.Place{File: "/repo/deploy/z.yaml"}),
	}
	findings[0].Evidence = []string{"no Deployment of it is in the files", "its API group example.com is not served"}
	findings[1].Target = policies.Object{Resource: "namespaces", Name: "demo"}
	findings[1].Question, findings[2].Question, findings[3].Question = lint.DeleteNamespace, lint.DeleteSet, lint.ApplyObject
	findings[1].Remedy, findings[2].Remedy = "Wait.", "Wait."
	findings[4].Question, findings[4].Policy, findings[4].Remedy, findings[4].Object = "", triage.Unused, "Remove the entry.", policies.Object{}
	rel := func(file string) string { return strings.TrimPrefix(strings.TrimPrefix(file, "/repo/"), "./") }
	lint.SetFingerprints(findings, rel)
	return Report{
		Suppressed: []triage.SuppressedFinding{{
			Finding: finding(policies.High, policies.Will, "hidden", files.Place{File: "b.yaml", Line: 1, Column: 1}),
			Reason:  "known", Until: "2026-12-31", By: files.Place{File: "b.yaml", Line: 1, Column: 20},
		}},
		BaselineCount: 3,
		Result: lint.Result{
			Findings: findings,
			Problems: []files.Problem{
				{Place: files.Place{File: "broken.yaml", Line: 2, Column: 1, Source: "\tkey: value"}, Message: "invalid YAML: tabs may not indent; use spaces"},
				{Place: files.Place{File: "logo.png"}, Message: "cannot be read: permission denied"},
			},
			Notes:  []string{"1 chart was skipped: pipe it in with helm template . | termguard lint -"},
			Counts: sets.Counts{Files: 5, Documents: 9, Objects: 7, Skipped: 2},
		},
		Policies: append([]policies.Policy{orphaned}, triage.Policies()...),
		Version:  "v1.2.3",
		ExitCode: 2,
		Rel:      rel,
	}
}

func empty() Report {
	return Report{Result: lint.Result{Counts: sets.Counts{Files: 1, Documents: 1, Objects: 1}}, Policies: []policies.Policy{orphaned}, Version: "v1.2.3"}
}

// TestGolden compares each format with a file; UPDATE_GOLDEN=1 writes it.
func TestGolden(t *testing.T) {
	formats := map[string]Format{"color.txt": Text(true)}
	for name, extension := range map[string]string{"text": "txt", "json": "json", "sarif": "sarif", "junit": "xml", "github": "github"} {
		formats[extension] = Formats()[name]
	}
	for extension, format := range formats {
		for name, report := range map[string]Report{"full": full(), "empty": empty()} {
			t.Run(name+"."+extension, func(t *testing.T) {
				var got, again bytes.Buffer
				if err := format(report, &got); err != nil {
					t.Fatal(err)
				}
				if err := format(report, &again); err != nil || !bytes.Equal(got.Bytes(), again.Bytes()) {
					t.Errorf("it is written otherwise the second time: %v", err)
				}
				file := filepath.Join("testdata", name+"."+extension)
				if os.Getenv("UPDATE_GOLDEN") != "" {
					if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got.String()); diff != "" {
					t.Errorf("%s is not current (UPDATE_GOLDEN=1 writes it): -want, +got:\n%s", file, diff)
				}
			})
		}
	}
}

// The schema is from OASIS, errata 01:
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json
func TestSARIFIsValid(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Report{"full": full(), "empty": empty()} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			if err := writeSARIF(r, &text); err != nil {
				t.Fatal(err)
			}
			document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(document); err != nil {
				t.Error(err)
			}
			var log struct {
				Runs []struct {
					Tool struct {
						Driver struct{ Rules []struct{ ID string } }
					}
					Results []struct {
						RuleID    string
						RuleIndex int
					}
				}
			}
			if err := json.Unmarshal(text.Bytes(), &log); err != nil {
				t.Fatal(err)
			}
			for _, result := range log.Runs[0].Results {
				if rule := log.Runs[0].Tool.Driver.Rules[result.RuleIndex]; rule.ID != result.RuleID {
					t.Errorf("result of %s points at the rule %s", result.RuleID, rule.ID)
				}
			}
		})
	}
}

func TestURI(t *testing.T) {
	r := full()
	cases := map[string]struct{ reason, file, want string }{
		"Relative":  {"As it is.", "a/b.yaml", "a/b.yaml"},
		"Dot":       {"GitHub knows no ./.", "./a/b.yaml", "a/b.yaml"},
		"Odd":       {"Escaped, for it is a URI.", "a b/ü%?#.yaml", "a%20b/%C3%BC%25%3F%23.yaml"},
		"Colon":     {"Not a scheme.", "a:b.yaml", "./a:b.yaml"},
		"Inside":    {"Relative to the repository.", "/repo/a.yaml", "a.yaml"},
		"Outside":   {"It is elsewhere.", "/etc/a b.yaml", "file:///etc/a%20b.yaml"},
		"Drive":     {"A drive is no scheme.", "C:/a b/c.yaml", "file:///C:/a%20b/c.yaml"},
		"Backslash": {"It separates nothing here.", `d/a\b.yaml`, "d/a%5Cb.yaml"},
		"Share":     {"A share has a host.", "//host/share/a.yaml", "file://host/share/a.yaml"},
		"Stdin":     {"It has no name.", "-", "stdin"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := r.uri(tc.file); got != tc.want {
				t.Errorf("%s\ngot %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// TestSARIFLinks checks that no text of a manifest becomes a link in a viewer.
func TestSARIFLinks(t *testing.T) {
	const hostile, want = `a\b [here](https://evil.example) [0]`, `a\\b \[here\](https://evil.example) \[0\]`
	r := full()
	r.Findings[0].Message, r.Problems[0].Message, r.Notes[0] = hostile, hostile, hostile
	var out bytes.Buffer
	if err := writeSARIF(r, &out); err != nil {
		t.Fatal(err)
	}
	inJSON, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), strings.Trim(string(inJSON), `"`)); got != 3 {
		t.Errorf("%d of a message, a problem and a note are escaped:\n%s", got, out.String())
	}
}

// No text of a manifest makes a line of the output another command than ours.
func TestGitHubEscapes(t *testing.T) {
	r := full()
	for i := range r.Findings {
		r.Findings[i].Message = "a\n::error::b\r::stop-commands::x"
		r.Findings[i].Place.File = "a\n::error file=b::c,line=1.yaml"
	}
	var out bytes.Buffer
	if err := writeGitHub(r, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if want := len(r.Findings) + len(r.Problems) + len(r.Notes); len(lines) != want {
		t.Errorf("%d lines, want %d:\n%s", len(lines), want, &out)
	}
	for _, line := range lines {
		_, rest, _ := strings.Cut(line, " ")
		properties, _, _ := strings.Cut(rest, "::")
		if !command.MatchString(line) || strings.Contains(line, "\r") || strings.Count(properties, ",file=")+strings.Count(properties, ",line=") > 1 {
			t.Errorf("not one command: %s", line)
		}
	}
}

var command = regexp.MustCompile(`^::(error|warning|notice) [^:]+::`)

func TestJUnitCounts(t *testing.T) {
	var out bytes.Buffer
	if err := writeJUnit(full(), &out); err != nil {
		t.Fatal(err)
	}
	var got suites
	if err := xml.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 7 || got.Failures != 5 || got.Errors != 2 || len(got.Suites[0].Cases) != 7 {
		t.Errorf("tests %d, failures %d, errors %d, cases %d", got.Tests, got.Failures, got.Errors, len(got.Suites[0].Cases))
	}
}

func TestAtLeast(t *testing.T) {
	cases := map[string]struct {
		reason, failOn string
		want           []policies.Severity
	}{
		"High":  {"Only the gravest.", "high", []policies.Severity{policies.High}},
		"Low":   {"All except severity info.", "low", []policies.Severity{policies.High, policies.Medium, policies.Low}},
		"Info":  {"All.", "info", []policies.Severity{policies.High, policies.Medium, policies.Low, policies.Info}},
		"Never": {"None.", "never", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []policies.Severity
			for _, severity := range []policies.Severity{policies.High, policies.Medium, policies.Low, policies.Info} {
				if (lint.Finding{Finding: policies.Finding{Severity: severity}}).AtLeast(tc.failOn) {
					got = append(got, severity)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// The caret is below the reported column, whatever precedes it.
func TestCaret(t *testing.T) {
	cases := map[string]struct {
		reason string
		place  files.Place
		want   string
	}{
		"Word":    {"All of it.", files.Place{Line: 7, Column: 3, EndColumn: 6, Source: "a: bcd"}, "    7 | a: bcd\n      |   ^~~\n"},
		"NoEnd":   {"One character.", files.Place{Line: 7, Column: 4, Source: "a: b"}, "    7 | a: b\n      |    ^\n"},
		"Tabs":    {"They stay, so that widths agree.", files.Place{Line: 7, Column: 3, EndColumn: 4, Source: "\tüx"}, "    7 | \tüx\n      | \t ^\n"},
		"Beyond":  {"A column behind the end.", files.Place{Line: 7, Column: 99, EndColumn: 120, Source: "ab"}, "    7 | ab\n      |   ^\n"},
		"Steers":  {"A terminal is not steered.", files.Place{Line: 7, Column: 1, Source: "\x1b[2Jab\r"}, "    7 | \ufffd[2Jab\ufffd\n      | ^\n"},
		"NoLine":  {"Nothing to show.", files.Place{Source: "ab"}, ""},
		"NoWords": {"Nothing to show.", files.Place{Line: 3}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var p page.Page
			addSource(&p, tc.place, page.Bad)
			if diff := cmp.Diff(tc.want, p.String()); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func FuzzFormats(f *testing.F) {
	f.Add("a.yaml", "message", "source", 1, 1, 2)
	f.Add("a:b,c\n", "\x1b[0m\n%0A]]>", "\t\xff", -1, 400, 3)
	f.Fuzz(func(t *testing.T, file, message, source string, line, column, end int) {
		r := full()
		r.Findings = r.Findings[:1]
		r.Findings[0].Message = message
		r.Findings[0].Place = files.Place{File: file, Line: line, Column: column, EndColumn: end, Source: source}
		for name, format := range Formats() {
			var out bytes.Buffer
			if err := format(r, &out); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			switch name {
			case "json", "sarif":
				if !json.Valid(out.Bytes()) {
					t.Errorf("%s is not JSON", name)
				}
			case "junit":
				if err := xml.Unmarshal(out.Bytes(), new(suites)); err != nil {
					t.Errorf("junit: %v", err)
				}
			case "text":
				if strings.ContainsAny(out.String(), "\x1b\r\a") {
					t.Error("text has control characters")
				}
			}
		}
	})
}
