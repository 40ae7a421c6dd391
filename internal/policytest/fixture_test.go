package policytest

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse checks that no fixture crashes the parser.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../policies/*/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no fixtures: %v", err)
	}
	for i := 0; i < len(files); i += 20 {
		text, err := os.ReadFile(files[i])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = Parse("fixture.yaml", text)
	})
}
