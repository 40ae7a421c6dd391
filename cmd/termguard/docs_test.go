package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/termguard/termguard/lint/settings"
	"github.com/termguard/termguard/policies"
)

var fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// The examples of docs/lint.md do what the page says: manifests lint without a
// finding, for what is in them is ignored; configurations are read; flags exist.
func TestDocsLint(t *testing.T) {
	page, err := os.ReadFile("../../docs/lint.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(page), "2026-12-31", "9999-12-31") // the day is not the point
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, block := range fenced.FindAllStringSubmatch(text, -1) {
		language, text := block[1], block[2]
		switch {
		case language == "yaml" && strings.Contains(text, "kind: LintConfig"):
			ran["configuration"]++
			s, err := settings.Read(strings.NewReader(text), "docs/lint.md")
			if err == nil {
				err = s.Check(set.IDs())
			}
			if err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		case language == "yaml" && strings.HasPrefix(text, "apiVersion:"):
			ran["manifest"]++
			file := filepath.Join(t.TempDir(), "example.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			if code := run(t.Context(), []string{"termguard", "lint", file}, nil, &out, &errs); code != 0 || !strings.Contains(out.String(), "no findings; 2 ignored") {
				t.Errorf("exit code %d\n%s%s\n%s", code, &out, &errs, text)
			}
		case language == "console":
			for _, line := range strings.Split(text, "\n") {
				line, _, _ = strings.Cut(line, " #")
				_, flags, found := strings.Cut(line, "termguard lint ")
				if !found {
					continue
				}
				ran["command"]++
				if err := newLint().ParseFlags(strings.Fields(flags)); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
	}
	if ran["configuration"] == 0 || ran["manifest"] == 0 || ran["command"] < 5 {
		t.Errorf("the page has examples that were not found: %v", ran)
	}
}
