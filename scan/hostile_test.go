package scan

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/termguard/termguard/internal/junit"
	"github.com/termguard/termguard/policies"
)

// hostileScan is one in which every text that somebody else may have written is the same.
func hostileScan(text string) *Scan {
	o := policies.Object{Resource: text, Namespace: text, Name: text}
	return &Scan{
		APIVersion: "termguard.dev/v1", Kind: "Scan", Of: text, At: "2026-11-21T08:00:00Z", Interrupted: text, Verdict: policies.Hangs,
		Asked: []Count{{Kind: Namespaces, Asked: 2, Hangs: 1, Completes: 1}},
		Causes: []Cause{{
			ID: text, Class: Broken, Title: text, Policies: []string{text}, Object: &o, Finalizers: []string{text}, Certainty: policies.Will, Holds: 1,
			ByKind: map[Kind]int{Namespaces: 1}, Names: []string{text}, Evidence: []string{text}, Steps: []policies.Step{{Kind: policies.Mend, Do: text, Command: text}},
			Mended: &Mended{Asked: 1, StillHeld: []string{text}},
		}},
		Mended:      &Mended{Asked: 1, StillHeld: []string{text}},
		Terminating: []Ending{{Target: o, Since: "2026-11-20T08:00:00Z", Verdict: policies.Hangs, Why: text}},
		Items: []Item{{
			Kind: Namespaces, Target: o, Verdict: policies.Hangs, TerminatingSince: "2026-11-20T08:00:00Z", Unseen: []string{text},
			HeldBy: []Hold{{Cause: text, Certainty: policies.Will, Says: text, Objects: []policies.Object{o}}},
			Parts:  []Part{{Target: o, Verdict: policies.Hangs, HeldBy: []Hold{{Cause: text, Certainty: policies.Will, Says: text}}}},
		}},
		Unseen: []string{text}, LeftOut: []string{text},
		Since: &Changes{At: text, New: []string{text}, Gone: []string{}, Changed: []Change{}, Objects: []ObjectChange{}},
	}
}

// FuzzHostile holds every form to telling any text as text: of a terminal no more than
// lines, of XML and JSON what parses, of Markdown no markup.
func FuzzHostile(f *testing.F) {
	for _, text := range []string{
		"plain", "<script>alert(1)</script>", "\x1b[2J\x1b]0;x\a", "a\nb\rc\u2028d", "\u202eevil", "| a | b |", "[x](javascript:1)", "</script><!--", "`rm -rf`", "\xff\xfe", "@everyone http://x.io &amp;",
		"\" onmouseover=\"x", "' ]]>",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := hostileScan(text)
		plain := hostileScan("plain")
		for _, long := range []bool{false, true} {
			var got, want strings.Builder
			if err := s.Text(&got, long); err != nil {
				t.Fatal(err)
			}
			if err := plain.Text(&want, long); err != nil {
				t.Fatal(err)
			}
			if strings.Count(got.String(), "\n") != strings.Count(want.String(), "\n") && text != "" {
				t.Errorf("a text adds lines:\n%q", got.String())
			}
			odd(t, got.String())
		}
		var out bytes.Buffer
		if err := s.JUnit(&out); err != nil {
			t.Fatal(err)
		}
		var report junit.Report
		if err := xml.Unmarshal(out.Bytes(), &report); err != nil || len(report.Suites) != 1 || len(report.Suites[0].Cases) != 2 {
			t.Errorf("JUnit: %v: %s", err, &out)
		}
		out.Reset()
		if err := s.Markdown(&out); err != nil {
			t.Fatal(err)
		}
		odd(t, out.String())
		var reference bytes.Buffer
		if err := plain.Markdown(&reference); err != nil {
			t.Fatal(err)
		}
		if got, want := bare(out.String()), bare(reference.String()); got != want && text != "" {
			t.Errorf("the text is markup: %q, want %q", got, want)
		}
		out.Reset()
		if err := indented(&out, s); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&out)
		if err != nil {
			t.Fatal(err)
		}
		again.Compare(s)
	})
}

// odd is an error for what a terminal would obey.
func odd(t *testing.T, text string) {
	t.Helper()
	if strings.ContainsAny(text, "\x1b\r\a\u202e\u2028") || !utf8.ValidString(text) {
		t.Errorf("it is not fit for a terminal: %q", text)
	}
}

// bare is what of Markdown is markup: its unescaped marks.
func bare(markdown string) string {
	var marks strings.Builder
	for i := 0; i < len(markdown); i++ {
		switch c := markdown[i]; {
		case c == '\\' && i+1 < len(markdown):
			i++
		case strings.IndexByte("|`*_[]<>#&!\n", c) >= 0:
			marks.WriteByte(c)
		}
	}
	return marks.String()
}

// FuzzRead holds the reader of earlier scans to an error or a scan, whatever it gets.
func FuzzRead(f *testing.F) {
	text, err := json.Marshal(hostileScan("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"apiVersion":"termguard.dev/v1","kind":"Scan","causes":[{"byKind":{"namespaces":-1}}],"items":[{"heldBy":[{"cause":"nowhere"}]}]}`))
	f.Add([]byte(`{"apiVersion":"termguard.dev/v1","kind":"Facts"}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		now := hostileScan("x")
		now.Compare(s)
		s.Compare(now)
		for _, form := range []func(*bytes.Buffer) error{
			func(b *bytes.Buffer) error { return now.Text(b, true) },
			func(b *bytes.Buffer) error { return s.Text(b, true) },
			func(b *bytes.Buffer) error { return s.JUnit(b) },
		} {
			var out bytes.Buffer
			if err := form(&out); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestReadRefuses names what is wrong with a file that is no earlier scan.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"apiVersion":"termguard.dev/v1","kind":"Facts"}`: `kind "Facts"`,
		`{"apiVersion":"termguard.dev/v2","kind":"Scan"}`:  `apiVersion "termguard.dev/v2"`,
		"not JSON": "make one with: termguard scan -o json",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
