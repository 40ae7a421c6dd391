// Package printable makes untrusted text, such as names, annotations and events, safe to print.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns text as one line of UTF-8. Control and format characters, which could hide or reorder other
// text, become U+FFFD.
func Line(text string) string { return But(text, "") }

// Lines applies Line to each line. Tabs become spaces, so that columns stay aligned.
func Lines(text string) string { return But(strings.ReplaceAll(text, "\t", " "), "\n") }

// But is Line, but keeps the characters in kept.
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

// Cut returns at most limit runes of a text, the last of them an ellipsis if some are left out.
func Cut(text string, limit int) string {
	if len(text) > limit && utf8.RuneCountInString(text) > limit {
		return string([]rune(text)[:limit-1]) + "…"
	}
	return text
}

// JSON escapes such characters in a JSON text, which has them only in strings.
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

// odd includes bidirectional characters, line separators, characters for private use, and invalid UTF-8.
func odd(r rune) bool {
	if r <= unicode.MaxASCII {
		return r < ' ' || r == '\x7f'
	}
	return r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)
}
