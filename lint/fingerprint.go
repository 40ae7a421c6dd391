package lint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
)

// item is the index of a field that is an item of a list.
var item = regexp.MustCompile(`\[\d+\]$`)

// Fingerprints tell findings apart across runs, in the order of the findings.
// They hold what a finding is about, as the finalizer that a field holds, and
// neither where in its file or its list that stands nor how the finding is worded:
// they survive lines that move and a newer termguard, and a baseline that knows one
// finalizer says nothing of another in its place.
// rel makes the name of a file independent of the folder that the run started
// in. Findings that are alike in all of that are counted.
func Fingerprints(findings []Finding, rel func(file string) string) []string {
	prints := make([]string, len(findings))
	seen := map[string]int{}
	for i, f := range findings {
		hash := sha256.New()
		field := f.Field
		if f.Value != "" {
			field = item.ReplaceAllString(field, "")
		}
		fmt.Fprintf(hash, "%q %q %q %q %q %q %q %q", f.Policy, f.Question, f.Target, rel(f.Place.File), f.Object, field, f.Value, f.Objects)
		print := hex.EncodeToString(hash.Sum(nil)[:16])
		seen[print]++
		if n := seen[print]; n > 1 {
			print = fmt.Sprintf("%s:%d", print, n)
		}
		prints[i] = print
	}
	return prints
}
