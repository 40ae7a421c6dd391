package lint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
)

// listIndex is the index of a list item in a field.
var listIndex = regexp.MustCompile(`\[\d+\]$`)

// SetFingerprints sets what identifies findings across runs. Fingerprints include the value of the
// field, such as a finalizer, but neither its position nor the message: so they survive moved lines and a
// newer termguard, and a baseline with one finalizer does not hide another in its place. rel makes a file
// name independent of the folder that the run started in. Findings that are equal in all of that are
// numbered.
func SetFingerprints(findings []Finding, rel func(file string) string) {
	seen := map[string]int{}
	for i, f := range findings {
		hash := sha256.New()
		field := f.Field
		if f.Value != "" {
			field = listIndex.ReplaceAllString(field, "")
		}
		fmt.Fprintf(hash, "%q %q %q %q %q %q %q %q", f.Policy, f.Question, f.Target, rel(f.Place.File), f.Object, field, f.Value, f.Objects)
		print := hex.EncodeToString(hash.Sum(nil)[:16])
		seen[print]++
		if n := seen[print]; n > 1 {
			print = fmt.Sprintf("%s:%d", print, n)
		}
		findings[i].Fingerprint = print
	}
}
