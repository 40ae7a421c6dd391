package lint_test

import (
	"os"
	"testing"

	"github.com/termguard/termguard/lint"
)

// BenchmarkRun lints the folder that TERMGUARD_CORPUS names.
func BenchmarkRun(b *testing.B) {
	corpus := os.Getenv("TERMGUARD_CORPUS")
	if corpus == "" {
		b.Skip("TERMGUARD_CORPUS names no folder of manifests")
	}
	for b.Loop() {
		if _, err := lint.Run(b.Context(), lint.Options{Paths: []string{corpus}}); err != nil {
			b.Fatal(err)
		}
	}
}
