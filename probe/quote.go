package probe

import (
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/internal/shell"
)

// quote is a word for a shell, and false for what no terminal shows as it is.
func quote(word string) (string, bool) {
	return shell.Quote(word), printable.Line(word) == word
}
