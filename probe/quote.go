package probe

import (
	"strings"

	"github.com/termguard/termguard/internal/printable"
)

// quote is a word for a shell, and false for what no terminal shows as it is.
func quote(word string) (string, bool) {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'", printable.Line(word) == word
}
