package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/termguard/termguard/config"
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
	for _, page := range append(pages, "../../README.md", "../../README.zh-CN.md") {
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

// Every key of the configuration is on its page, and the example there is one.
func TestDocsConfiguration(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	example := fenced.FindStringSubmatch(string(page))
	if example == nil || example[1] != "yaml" {
		t.Fatal("the page has no example")
	}
	if _, err := config.Read(strings.NewReader(example[2]), set.IDs()); err != nil {
		t.Error(err)
	}
	var walk func(of reflect.Type, path string)
	walk = func(of reflect.Type, path string) {
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			switch {
			case field.Anonymous:
				walk(inner, path)
			case inner.Kind() == reflect.Struct:
				walk(inner, path+name+".")
			case path+name != "apiVersion" && path+name != "kind" && !strings.Contains(string(page), "| `"+path+name+"` |"):
				t.Errorf("the page has no row for %s%s", path, name)
			}
		}
	}
	walk(reflect.TypeFor[config.Config](), "")
}

var metric = regexp.MustCompile(`Name:\s+"(termguard_\w+)",\s+Help:\s+"((?:[^"\\]|\\.)*)",(?:\s+Buckets:[^\n]*)?\s+}(?:, \[\]string{([^}]*)})?`)

// Every metric is on its page, with its labels and what it means.
func TestDocsMetrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, pattern := range []string{"../../webhook/*.go", "../../webhook/*/*.go", "../../cluster/*.go", "../../certs/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all := metric.FindAllStringSubmatch(string(source), -1)
			if named := strings.Count(string(source), `Name: "termguard_`) + strings.Count(string(source), `Name:    "termguard_`); named != len(all) && !strings.HasSuffix(file, "_test.go") {
				t.Errorf("%s: %d metrics are named, %d are read", file, named, len(all))
			}
			for _, m := range all {
				found++
				row := regexp.MustCompile(`\| .` + m[1] + `. \| \w+ \| ` + regexp.QuoteMeta(strings.ReplaceAll(m[3], `"`, "")) + ` ?\| ` + regexp.QuoteMeta(strings.ReplaceAll(m[2], `\"`, `"`)) + ` \|`)
				if !row.Match(page) {
					t.Errorf("the page has no row %s", row)
				}
			}
		}
	}
	if found < 6 {
		t.Errorf("only %d metrics were found", found)
	}
}

// Links of the pages lead to files that are there.
func TestDocsLinks(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)\s#]+)(#[^)]*)?\)`)
	found := 0
	for _, page := range append(pages, more...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), l[1])); err != nil {
				t.Errorf("%s: %v", filepath.Base(page), err)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links were found", found)
	}
}
