// Package nearest suggests corrections for misspelt names.
package nearest

import (
	"fmt"

	"github.com/agnivade/levenshtein"
)

// Hint suggests the candidate nearest to name, "" if none is near.
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

// IsTypo reports whether a name is at most two letters off one of the candidates.
func IsTypo(name string, candidates []string) bool {
	const slips = 2
	for _, candidate := range candidates {
		if levenshtein.ComputeDistance(name, candidate) <= slips {
			return true
		}
	}
	return false
}
