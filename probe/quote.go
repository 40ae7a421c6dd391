package probe

import (
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/internal/shell"
)

// quote quotes a word for a shell. It returns false if the word has unprintable characters.
func quote(word string) (string, bool) {
	return shell.Quote(word), printable.Line(word) == word
}
