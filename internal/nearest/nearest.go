// Package nearest tells what somebody may have meant.
package nearest

import (
	"fmt"

	"github.com/agnivade/levenshtein"
)

// Hint is a hint at what was meant by name, "" where nothing is near.
func Hint(name string, candidates []string) string {
	best, distance := "", 1+min(max(2, len(name)/3), len(name)/2) // with more letters wrong than right, it is another word
	for _, candidate := range candidates {
		if d := levenshtein.ComputeDistance(name, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// Misspelt tells whether a name is so near one of the candidates that it is hardly a name
// of its own.
func Misspelt(name string, candidates []string) bool {
	const slips = 2
	for _, candidate := range candidates {
		if levenshtein.ComputeDistance(name, candidate) <= slips {
			return true
		}
	}
	return false
}
