package check

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestStyle checks that no line is wider than the terminal, that a wrapped command is the same to a
// shell, and that the words do not change.
func TestStyle(t *testing.T) {
	for _, file := range []string{"namespace", "drain", "helm", "waves-hang", "served", "unseen", "set"} {
		text, err := os.ReadFile("testdata/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if got := (Style{}).Apply(string(text)); got != string(text) {
			t.Errorf("%s: changed without a terminal: %s", file, cmp.Diff(string(text), got))
		}
		wrapped := Style{Width: 60}.Apply(string(text))
		for line := range strings.Lines(wrapped) {
			line = strings.TrimSuffix(line, "\n")
			longest := 0
			for _, word := range strings.Fields(line) {
				longest = max(longest, utf8.RuneCountInString(word))
			}
			if utf8.RuneCountInString(line) > 60 && longest < 40 {
				t.Errorf("%s: line of %d columns: %s", file, utf8.RuneCountInString(line), line)
			}
		}
		if file == "namespace" {
			golden(t, "namespace.60.txt", []byte(wrapped))
			golden(t, "namespace.color.txt", []byte(Style{Width: 100, Color: true}.Apply(string(text))))
		}
		for line := range strings.Lines(string(text)) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
				original := words(t, command)
				lines := strings.Split(strings.TrimSuffix(Style{Width: 60}.Apply(line), "\n"), "\n")
				lines[0] = strings.Replace(lines[0], "$ ", "", 1)
				if again := words(t, strings.Join(lines, "\n")); unspaced(original) != unspaced(again) {
					t.Errorf("%s: a shell reads\n%s\nas\n%s\ninstead of\n%s", file, strings.Join(lines, "\n"), again, original)
				}
			}
		}
	}
}

// unspaced removes the white space that JSON ignores from text.
func unspaced(text string) string {
	return strings.NewReplacer(" ", "", "\n", "").Replace(text)
}

// words returns the words that a shell passes on, one in a line.
func words(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `kubectl() { printf '%s\n' "$@"; }; helm() { kubectl "$@"; }; `+command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// ASCII signs are as wide as the signs that they replace, and change no command.
func TestStyleASCII(t *testing.T) {
	text, err := os.ReadFile("testdata/namespace.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, color := range []bool{false, true} {
		unicode := Style{Width: 60, Color: color}.Apply(string(text))
		plain := Style{Width: 60, Color: color, ASCII: true}.Apply(string(text))
		if !strings.Contains(unicode, "└─ ") {
			t.Fatalf("no signs: %s", unicode)
		}
		for _, sign := range plain {
			if sign >= utf8.RuneSelf {
				t.Errorf("%q is not ASCII: %s", sign, plain)
				break
			}
		}
		if want := strings.NewReplacer("├", "|", "└", "`", "─", "-", "│", "|").Replace(unicode); plain != want {
			t.Errorf("more than signs differ: %s", cmp.Diff(want, plain))
		}
	}
	if command := "     $ kubectl annotate ns/demo note='│ …'\n"; (Style{ASCII: true}).Apply(command) != command {
		t.Error("a command changed")
	}
}

// The columns of Terminating objects stay aligned on a narrow terminal.
func TestStyleTable(t *testing.T) {
	const text = `SINCE  VERDICT  OBJECT                                      WHY
3d     hangs    namespaces/shop                             finalizer finalizers.kubesphere.io/namespaces in metadata.finalizers is not removed
5m     at-risk  widgets.acme.example.com/w000 -n demo-prod  short

to see what ends it: termguard check namespaces/shop, which is a line of its own, and long
`
	const want = `SINCE  VERDICT  OBJECT                                      WHY
3d     hangs    namespaces/shop
       finalizer finalizers.kubesphere.io/namespaces in metadata.finalizers is
       not removed
5m     at-risk  widgets.acme.example.com/w000 -n demo-prod  short

to see what ends it: termguard check namespaces/shop, which is a line of its
  own, and long
`
	if diff := cmp.Diff(want, Style{Width: 80}.Apply(text)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	// An object that is wider than the terminal breaks before its namespace.
	long := "widgets.acme.example.com/" + strings.Repeat("w", 50)
	wide := "SINCE  VERDICT  OBJECT" + strings.Repeat(" ", 84) + "WHY\n3d     hangs    " + long + " -n demo-prod  short\n"
	if diff := cmp.Diff("SINCE  VERDICT  OBJECT\n3d     hangs    "+long+"\n       -n demo-prod\n       short\n", Style{Width: 91}.Apply(wide)); diff != "" {
		t.Errorf("wide: -want, +got:\n%s", diff)
	}
}
