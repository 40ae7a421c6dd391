package lint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
)

var listIndex = regexp.MustCompile(`\[\d+\]$`)

// SetFingerprints identifies findings across runs by the value of the field, such as a finalizer, but not by
// its position or the message: they survive moved lines and a newer termguard, and a baseline with one
// finalizer does not hide another in its place. rel makes a file name independent of the folder that the run
// started in; equal findings are numbered.
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
