package lint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
)

var listIndex = regexp.MustCompile(`\[\d+\]$`)

// SetFingerprints identifies findings by the field's value, not by place or message: they survive moved lines
// and a newer termguard, and another finalizer in the same place is new. rel makes a file name independent of
// the working directory.
func SetFingerprints(findings []Finding, rel func(file string) string) {
	seen := map[string]int{}
	for i, f := range findings {
		hash := sha256.New()
		field := f.Field
		if f.Place.Value != "" {
			field = listIndex.ReplaceAllString(field, "")
		}
		fmt.Fprintf(hash, "%q %q %q %q %q %q %q %q", f.Policy, f.Question, f.Target, rel(f.Place.File), f.Object, field, f.Place.Value, f.Objects)
		print := hex.EncodeToString(hash.Sum(nil)[:16])
		seen[print]++
		if n := seen[print]; n > 1 {
			print = fmt.Sprintf("%s:%d", print, n)
		}
		findings[i].Fingerprint = print
	}
}
