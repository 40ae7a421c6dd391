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
// finding, for what is in them is ignored; configurations are read.
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
		}
	}
	if ran["configuration"] == 0 || ran["manifest"] == 0 {
		t.Errorf("the page has examples that were not found: %v", ran)
	}
}

// The commands that pages show exist, with their flags.
func TestDocsCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
			for _, line := range strings.Split(block[2], "\n") {
				words := shown(line)
				if block[1] != "console" || words == nil {
					continue
				}
				ran++
				command, flags, err := newRoot("termguard").Find(words)
				if err == nil {
					err = command.ParseFlags(flags)
				}
				if err != nil {
					t.Errorf("%s: %s: %v", filepath.Base(page), line, err)
				}
			}
		}
	}
	if ran < 8 {
		t.Errorf("%d commands were found, which are too few to mean anything", ran)
	}
}

// shown are the words behind termguard in a line of a page, nil if it is not about it.
func shown(line string) []string {
	line, prompt := strings.CutPrefix(line, "$ ")
	line, _, _ = strings.Cut(line, " #")
	for _, part := range strings.Split(line, "|") {
		words := strings.Fields(part)
		if len(words) > 1 && words[0] == "kubectl" {
			words = words[1:]
		}
		if prompt && len(words) > 1 && words[0] == "termguard" {
			return words[1:]
		}
	}
	return nil
}
