// Package shell writes words for a POSIX shell.
package shell

import (
	"regexp"
	"strings"
)

// plain is a word that a shell takes as it stands.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quote is a word as a shell takes it: names of objects may hold anything but "/" and "%"
// (k8s.io/apimachinery, pkg/api/validation/path).
func Quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Join is a command of words.
func Join(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}
