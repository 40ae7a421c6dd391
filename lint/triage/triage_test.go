package triage

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/settings"
	"github.com/termguard/termguard/policies"
)

func findingAt(file string, line int, policy string) lint.Finding {
	return lint.Finding{
		Finding:  policies.Finding{Policy: policy, Severity: policies.Low, Message: "m", Objects: []policies.Object{}},
		Question: lint.DeleteObject,
		Object:   policies.Object{Resource: "pods", Name: fmt.Sprint("at-", line)},
		Place:    files.Place{File: file, Line: line, Column: 3},
	}
}

func mark(text string, from, to int) files.Mark {
	return files.Mark{Place: files.Place{File: "a.yaml", Line: from, Column: 1}, Text: text, From: from, To: to}
}

// say returns findings in short: file:line policy: message.
func say(findings []lint.Finding) []string {
	var short []string
	for _, f := range findings {
		short = append(short, fmt.Sprintf("%s:%d %s: %s", f.Place.File, f.Place.Line, f.Policy, f.Message))
	}
	return short
}

func TestSuppress(t *testing.T) {
	day := func(s string) time.Time { d, _ := time.Parse(time.DateOnly, s); return d }
	now := time.Date(2026, 11, 21, 23, 59, 0, 0, time.UTC)
	entry := func(policy, until string, paths ...string) settings.Ignore {
		return settings.Ignore{Policy: policy, Paths: paths, Reason: "r", Until: day(until), Line: 7, Column: 3}
	}
	linted := func(string) bool { return true }
	cases := map[string]struct {
		reason     string
		findings   []lint.Finding
		marks      []files.Mark
		options    Options
		kept       []string
		suppressed []string
	}{
		"Nothing": {reason: "Nobody minds.", findings: []lint.Finding{findingAt("a.yaml", 3, "p-a")}, kept: []string{"a.yaml:3 p-a: m"}},
		"Mark": {
			reason:     "It applies to its lines, its file and its policy.",
			findings:   []lint.Finding{findingAt("a.yaml", 2, "p-a"), findingAt("a.yaml", 4, "p-a"), findingAt("a.yaml", 3, "p-b"), findingAt("b.yaml", 3, "p-a"), findingAt("a.yaml", 3, "p-a")},
			marks:      []files.Mark{mark("p-a -- r", 3, 3)},
			kept:       []string{"a.yaml:2 p-a: m", "a.yaml:3 p-b: m", "a.yaml:4 p-a: m", "b.yaml:3 p-a: m"},
			suppressed: []string{"a.yaml:3 p-a: r"},
		},
		"Several": {
			reason:     "One mark may name several policies.",
			findings:   []lint.Finding{findingAt("a.yaml", 3, "p-a"), findingAt("a.yaml", 3, "p-b")},
			marks:      []files.Mark{mark("p-a, p-b -- r", 2, 9)},
			suppressed: []string{"a.yaml:3 p-a: r", "a.yaml:3 p-b: r"},
		},
		"Alias": {
			reason:     "Who ignores a cause means it on every trigger.",
			findings:   []lint.Finding{findingAt("a.yaml", 3, "p-c"), findingAt("b.yaml", 3, "p-c"), findingAt("c.yaml", 3, "p-c")},
			marks:      []files.Mark{mark("p-a -- r", 3, 3)},
			options:    Options{Ignore: []settings.Ignore{entry("p-a", "2026-12-31", "b.yaml")}},
			kept:       []string{"c.yaml:3 p-c: m"},
			suppressed: []string{"a.yaml:3 p-c: r", "b.yaml:3 p-c: r"},
		},
		"Lines": {
			reason:     "An annotation may hold one a line, with reasons of their own.",
			findings:   []lint.Finding{findingAt("a.yaml", 3, "p-a"), findingAt("a.yaml", 3, "p-b")},
			marks:      []files.Mark{mark("p-a -- one\n\np-b -- two\n", 1, 9)},
			suppressed: []string{"a.yaml:3 p-a: one", "a.yaml:3 p-b: two"},
		},
		"Unused": {
			reason:     "What hides nothing would hide the next.",
			findings:   []lint.Finding{findingAt("a.yaml", 3, "p-a")},
			marks:      []files.Mark{mark("p-a,p-b -- r", 3, 3)},
			kept:       []string{"a.yaml:3 unused-ignore: there is no finding of p-b here, which is ignored (r)"},
			suppressed: []string{"a.yaml:3 p-a: r"},
		},
		"Off": {reason: "A policy that was not evaluated proves nothing.", marks: []files.Mark{mark("p-b -- r", 3, 3)}, options: Options{Off: map[string]bool{"p-b": true}}},
		"Twice": {
			reason:     "Two that hide the same are both used.",
			findings:   []lint.Finding{findingAt("a.yaml", 3, "p-a")},
			marks:      []files.Mark{mark("p-a -- first", 3, 3), mark("p-a -- second", 1, 9)},
			suppressed: []string{"a.yaml:3 p-a: first"},
		},
		"LastDay": {
			reason:     "The day counts to its end.",
			findings:   []lint.Finding{findingAt("a.yaml", 3, "p-a")},
			marks:      []files.Mark{mark("p-a -- r until 2026-11-21", 3, 3)},
			suppressed: []string{"a.yaml:3 p-a: r"},
		},
		"Expired": {
			reason:   "Then it has no effect, and says so.",
			findings: []lint.Finding{findingAt("a.yaml", 3, "p-a")},
			marks:    []files.Mark{mark("p-a -- r until 2026-11-20", 3, 3)},
			kept:     []string{"a.yaml:3 expired-ignore: p-a was ignored until 2026-11-20 (r), which has passed", "a.yaml:3 p-a: m"},
		},
		"Invalid": {
			reason:   "A mark without reason hides nothing.",
			findings: []lint.Finding{findingAt("a.yaml", 3, "p-a")},
			marks:    []files.Mark{mark("p-a", 3, 3)},
			kept:     []string{"a.yaml:3 invalid-ignore: termguard:ignore has no effect: it gives no reason; write: ID[,ID] -- reason [until YYYY-MM-DD]", "a.yaml:3 p-a: m"},
		},
		"Unknown": {
			reason: "The nearest name helps.",
			marks:  []files.Mark{mark("p-aa -- r", 3, 3)},
			kept:   []string{`a.yaml:3 invalid-ignore: termguard:ignore has no effect: policy "p-aa" not found; did you mean "p-a"?`},
		},
		"Configured": {
			reason:     "By patterns relative to the configuration.",
			findings:   []lint.Finding{findingAt("sub/a.yaml", 3, "p-a"), findingAt("sub/b.yaml", 3, "p-a")},
			options:    Options{Ignore: []settings.Ignore{entry("p-a", "2026-12-31", "*/a.yaml")}},
			kept:       []string{"sub/b.yaml:3 p-a: m"},
			suppressed: []string{"sub/a.yaml:3 p-a: r"},
		},
		"ConfiguredUnused": {
			reason:  "It stands in the configuration.",
			options: Options{Ignore: []settings.Ignore{entry("p-a", "2026-12-31")}},
			kept:    []string{".termguard.yaml:7 unused-ignore: there is no finding of p-a here, which is ignored (r)"},
		},
		"NotAsked": {
			reason:     "A mark in a file that was not selected suppresses its findings, and is not reported as unused.",
			findings:   []lint.Finding{findingAt("a.yaml", 3, "p-a"), findingAt("a.yaml", 4, "p-b")},
			marks:      []files.Mark{mark("p-a -- r", 3, 3), mark("p-b", 4, 4), mark("p-a -- unused", 9, 9), mark("p-b -- old until 2020-01-01", 4, 4)},
			options:    Options{InScope: func(file string) bool { return file != "a.yaml" }},
			kept:       []string{"a.yaml:4 p-b: m"},
			suppressed: []string{"a.yaml:3 p-a: r"},
		},
		"Partial": {reason: "Its files may not have been selected.", options: Options{InScope: linted, Ignore: []settings.Ignore{entry("p-a", "2026-12-31")}}},
		"ConfiguredExpired": {
			reason:  "It stands in the configuration.",
			options: Options{InScope: linted, Ignore: []settings.Ignore{entry("p-a", "2020-01-01")}},
			kept:    []string{".termguard.yaml:7 expired-ignore: p-a was ignored until 2020-01-01 (r), which has passed"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := tc.options
			o.Policies, o.File, o.Rel = []policies.Policy{{ID: "p-a"}, {ID: "p-b"}, {ID: "p-c", Aliases: []string{"p-a"}}}, ".termguard.yaml", func(file string) string { return file }
			o.Now = func() time.Time { return now }
			kept, suppressed := Suppress(&lint.Result{Findings: tc.findings, Marks: tc.marks}, o)
			if diff := cmp.Diff(tc.kept, say(kept)); diff != "" {
				t.Errorf("%s\nkept: -want, +got:\n%s", tc.reason, diff)
			}
			var quiet []string
			for _, s := range suppressed {
				quiet = append(quiet, fmt.Sprintf("%s:%d %s: %s", s.Place.File, s.Place.Line, s.Policy, s.Reason))
			}
			if diff := cmp.Diff(tc.suppressed, quiet); diff != "" {
				t.Errorf("%s\nsuppressed: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestByCause checks that findings caused by one other object become one.
func TestByCause(t *testing.T) {
	of := func(file string, line int, policy, cause string, severity policies.Severity) lint.Finding {
		f := findingAt(file, line, policy)
		f.Severity, f.Objects, f.Manifest.Once = severity, []policies.Object{{Name: file}, {Name: cause}}, policy == "once"
		return f
	}
	findings := []lint.Finding{
		of("a.yaml", 1, "once", "x", policies.High), of("a.yaml", 5, "once", "y", policies.High), of("b.yaml", 2, "each", "x", policies.High),
		of("b.yaml", 3, "once", "x", policies.High), of("c.yaml", 4, "each", "x", policies.High), of("d.yaml", 1, "once", "x", policies.High), of("e.yaml", 1, "once", "x", policies.High), of("f.yaml", 1, "once", "x", policies.High), of("g.yaml", 5, "once", "x", policies.Info),
	}
	for i := range findings {
		findings[i].Fingerprint = fmt.Sprint(i + 1)
	}
	kept := lint.ByCause(findings)
	var got []string
	for _, f := range kept {
		got = append(got, strings.TrimSpace(fmt.Sprint(f.Fingerprint, " ", f.Place.File, " ", strings.Join(f.Evidence, ""))))
	}
	want := []string{"1 a.yaml the same at b.yaml:3, d.yaml:1, e.yaml:1 and 2 more", "2 a.yaml", "3 b.yaml", "5 c.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if len(findings[0].Evidence) > 0 {
		t.Error("the argument was modified")
	}
	// Copies of one manifest are reported once and counted.
	copied := func(file, message string) lint.Finding {
		f := findingAt(file, 1, "each")
		f.Message, f.Question = message, lint.ApplyObject
		return f
	}
	kept = lint.ByCause([]lint.Finding{copied("a.yaml", "m"), copied("b.yaml", "m"), copied("c.yaml", "other"), copied("d.yaml", "m")})
	got = nil
	for _, f := range kept {
		got = append(got, strings.TrimSpace(f.Place.File+" "+strings.Join(f.Evidence, "")))
	}
	if diff := cmp.Diff([]string{"a.yaml the same at b.yaml:1, d.yaml:1", "c.yaml"}, got); diff != "" {
		t.Errorf("copies: -want, +got:\n%s", diff)
	}
}

func TestBaseline(t *testing.T) {
	old := []lint.Finding{findingAt("b.yaml", 3, "p-a"), findingAt("a.yaml", 5, "p-b"), findingAt("a.yaml", 9, "p-a")}
	rel := func(file string) string { return path.Join("deploy", file) }
	lint.SetFingerprints(old, rel)
	var text bytes.Buffer
	if err := NewBaseline(old, rel).Write(&text); err != nil {
		t.Fatal(err)
	}
	b, err := ReadBaseline(&text)
	if err != nil {
		t.Fatal(err)
	}
	// One finding moved, one disappeared, one is new.
	now := []lint.Finding{findingAt("a.yaml", 5, "p-b"), findingAt("b.yaml", 3, "p-a"), findingAt("b.yaml", 4, "p-a")}
	now[0].Place.Line = 50
	lint.SetFingerprints(now, rel)
	fresh, accepted, gone := b.Compare(now)
	if len(fresh) != 1 || fresh[0].Fingerprint != now[2].Fingerprint {
		t.Errorf("new: %v, want the third", fresh)
	}
	if diff := cmp.Diff([]string{"b.yaml:4 p-a: m"}, say(fresh)); diff != "" || accepted != 2 || gone != 1 {
		t.Errorf("known %d, want 2; gone %d, want 1; new: -want, +got:\n%s", accepted, gone, diff)
	}
	var files []string
	for _, k := range b.Findings {
		files = append(files, k.File)
	}
	if diff := cmp.Diff([]string{"deploy/a.yaml", "deploy/a.yaml", "deploy/b.yaml"}, files); diff != "" {
		t.Errorf("files: -want, +got:\n%s", diff)
	}
}

func TestReadBaseline(t *testing.T) {
	cases := map[string]struct{ reason, text, err string }{
		"Good":       {reason: "As written.", text: `{"apiVersion":"termguard.dev/v1","kind":"LintBaseline","findings":[]}`},
		"Empty":      {reason: "A file that was cut off.", text: "", err: "not a baseline: unexpected end of JSON input; rewrite it with --write-baseline"},
		"OtherKind":  {reason: "Some other file.", text: `{"apiVersion":"v1","kind":"List"}`, err: "want apiVersion: termguard.dev/v1, kind: LintBaseline; got apiVersion: v1, kind: List"},
		"UnknownKey": {reason: "Of a newer termguard, or a conflict half resolved.", text: `{"apiVersion":"termguard.dev/v1","kind":"LintBaseline","finding":[]}`, err: `unknown field "finding"`},
		"Conflict":   {reason: "An unfinished merge.", text: "<<<<<<< HEAD\n", err: "not a baseline"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ReadBaseline(strings.NewReader(tc.text))
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%s\nwant an error with %q, got %v", tc.reason, tc.err, err)
			}
		})
	}
}

func FuzzReadBaseline(f *testing.F) {
	f.Add(`{"apiVersion":"termguard.dev/v1","kind":"LintBaseline","findings":[{"fingerprint":"a","policy":"p","file":"f","object":{"resource":"pods"},"message":"m"}]}`)
	f.Add(`{"findings":[null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ReadBaseline(strings.NewReader(text))
		if err != nil {
			return
		}
		finding := findingAt("a", 1, "p")
		finding.Fingerprint = "a"
		fresh, accepted, _ := b.Compare([]lint.Finding{finding})
		if len(fresh)+accepted != 1 {
			t.Errorf("1 finding became %d new and %d known", len(fresh), accepted)
		}
	})
}
