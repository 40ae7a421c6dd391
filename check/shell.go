package check

import (
	"regexp"
	"strings"
)

// plain is a word that a shell takes as it stands (lib/steps of the policies).
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote is a word as a POSIX shell takes it.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// words are those of a command as the policies write them: plain, or in single quotes.
// Anything else that a shell would take for more than words is not simple.
func words(command string) (words []string, simple bool) {
	var word strings.Builder
	begun := false
	for rest := command; rest != ""; {
		switch c := rest[0]; {
		case c == ' ':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
			rest = rest[1:]
		case c == '\'':
			inside, after, closed := strings.Cut(rest[1:], "'")
			if !closed {
				return nil, false
			}
			word.WriteString(inside)
			begun, rest = true, after
		case strings.HasPrefix(rest, `\'`):
			word.WriteByte('\'')
			begun, rest = true, rest[2:]
		case plain.MatchString(rest[:1]):
			word.WriteByte(c)
			begun, rest = true, rest[1:]
		default:
			return nil, false
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words, true
}
