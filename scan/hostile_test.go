package scan

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// Text writes the page of a scan, plain.
func (s *Scan) Text(w io.Writer, long bool) error { return s.Page(long).Write(w, page.Style{}) }

// hostileScan returns a scan with one text for all that others may have written.
func hostileScan(text string) *Scan {
	o := policies.Object{Resource: text, Namespace: text, Name: text}
	return &Scan{
		Answer: answer.Answer{
			Of: text, Verdict: policies.Hangs, Unseen: []policies.Unseen{{What: text, Reason: text}},
			Items: []answer.Item{{
				Kind: string(Namespaces), Target: o, Verdict: policies.Hangs, TerminatingSince: "2026-11-20T08:00:00Z", Unseen: []policies.Unseen{{What: text, Reason: text}},
				HeldBy: []answer.Hold{{Cause: text, Certainty: policies.Will, Says: text, Objects: []policies.Object{o}}},
				Parts:  []answer.Item{{Target: o, Verdict: policies.Hangs, HeldBy: []answer.Hold{{Cause: text, Certainty: policies.Will, Says: text}}}},
			}},
		},
		At: "2026-11-21T08:00:00Z", Interrupted: text,
		Counts: []Count{{Kind: Namespaces, Objects: 2, Hangs: 1, Completes: 1}},
		Causes: []Cause{{
			ID: text, Class: policies.Broken, Title: text, Policies: []string{text}, Object: &o, Finalizers: []string{text}, Certainty: policies.Will, Holds: 1,
			ByKind: map[Kind]int{Namespaces: 1}, Names: []string{text}, Evidence: []string{text}, Steps: []policies.Step{{Kind: policies.Mend, Do: text, Command: text}},
			Mended: &Mended{Objects: 1, StillHeld: []string{text}},
		}},
		Mended:  &Mended{Objects: 1, StillHeld: []string{text}},
		LeftOut: []string{text},
	}
}

// FuzzHostile checks that the output for people prints any text as text, in no more lines.
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
	})
}

// odd fails the test if a text has terminal control characters.
func odd(t *testing.T, text string) {
	t.Helper()
	if strings.ContainsAny(text, "\x1b\r\a\u202e\u2028") || !utf8.ValidString(text) {
		t.Errorf("terminal control characters: %q", text)
	}
}
