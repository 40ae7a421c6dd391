package printable

import (
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ünï, 漢字":           "plain, ünï, 漢字",
		"\x1b[2J\x1b]0;title\x07":  "\uFFFD[2J\uFFFD]0;title\uFFFD",
		"two\nlines\r":             "two\uFFFDlines\uFFFD",
		"\u202eolleh\u2066x\u200b": "\uFFFDolleh\uFFFDx\uFFFD",
		"\u2028\u2029\u0085\ufeff": "\uFFFD\uFFFD\uFFFD\uFFFD",
		"no UTF-8: \xff":           "no UTF-8: \uFFFD",
		"":                         "",
	} {
		if got := Line(text); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
	if got, want := Lines("\t}\n\t^"), " }\n ^"; got != want {
		t.Errorf("Lines with tabs: %q, want %q", got, want)
	}
	if got, want := Lines("a\x1b\nb\r\n"), "a\uFFFD\nb\uFFFD\n"; got != want {
		t.Errorf("Lines: %q, want %q", got, want)
	}
	if got := Line(strings.Repeat("\x1b", 1<<20)); len(got) != 3<<20 {
		t.Errorf("a long text has %d bytes", len(got))
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct{ text, want string }{{"four", "four"}, {"five5", "fiv…"}, {"ünïc", "ünïc"}, {"ünïcö", "ünï…"}} {
		if got := Cut(tc.text, 4); got != tc.want {
			t.Errorf("Cut(%q) = %q, want %q", tc.text, got, tc.want)
		}
	}
}
