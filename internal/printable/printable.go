// Package printable makes text that anybody may have written, names and
// annotations and events, fit for a terminal and for a line.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns text as one line of valid UTF-8 without control and format
// characters, which could hide, reorder or repaint what stands beside them: each
// becomes U+FFFD.
func Line(text string) string { return But(text, "") }

// Lines is Line for each line of a text. A tab becomes a space, so that what stands below
// it, as the mark of a compiler, keeps its column.
func Lines(text string) string { return But(strings.ReplaceAll(text, "\t", " "), "\n") }

// But is Line, and keeps some characters.
func But(text, kept string) string {
	odd := func(r rune) bool { return odd(r) && !strings.ContainsRune(kept, r) }
	if !strings.ContainsFunc(text, odd) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if odd(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// JSON is a text in JSON in which such characters, which stand in strings only, are escaped.
func JSON(text string) string {
	if Line(text) == text {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case !odd(r) || r == '\n':
			out.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// odd are control characters, format characters (bidirectional ones among them),
// separators of lines, private use, and what is no UTF-8.
func odd(r rune) bool {
	if r <= unicode.MaxASCII { // which most text is
		return r < ' ' || r == '\x7f'
	}
	return r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)
}
