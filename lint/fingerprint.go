package lint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Fingerprints tell findings apart across runs, in the order of the findings.
// They hold what a finding is about and neither where in its file it stands nor
// how it is worded, so that they survive lines that move and a newer termguard.
// rel makes the name of a file independent of the folder that the run started
// in. Findings that are alike in all of that are counted.
func Fingerprints(findings []Finding, rel func(file string) string) []string {
	prints := make([]string, len(findings))
	seen := map[string]int{}
	for i, f := range findings {
		hash := sha256.New()
		fmt.Fprintf(hash, "%q %q %q %q %q %q %q", f.Policy, f.Question, f.Target, rel(f.Place.File), f.Object, f.Field, f.Objects)
		print := hex.EncodeToString(hash.Sum(nil)[:16])
		seen[print]++
		if n := seen[print]; n > 1 {
			print = fmt.Sprintf("%s:%d", print, n)
		}
		prints[i] = print
	}
	return prints
}
