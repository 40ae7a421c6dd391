package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/lint/settings"
	"github.com/termguard/termguard/policies"
)

var fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// The examples in docs/lint.md match the page: the manifests lint without a finding, because theirs
// are ignored; the configurations are valid.
func TestDocsLint(t *testing.T) {
	race.Skip(t)
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
		t.Errorf("examples on the page: %v", ran)
	}
}

// The commands that pages show exist, with their flags.
func TestDocsCommands(t *testing.T) {
	race.Skip(t)
	ran := 0
	for _, page := range pages(t) {
		for _, block := range fenced.FindAllStringSubmatch(read(t, page), -1) {
			for _, line := range strings.Split(block[2], "\n") {
				if block[1] == "sh" {
					line = "$ " + line
				}
				words := shown(line)
				if block[1] != "console" && block[1] != "sh" || words == nil {
					continue
				}
				ran++
				command, flags, err := newRoot("termguard").Find(words)
				if err == nil {
					err = command.ParseFlags(flags)
				}
				if err != nil {
					t.Errorf("%s: %s: %v", page, line, err)
				}
			}
		}
	}
	if ran < 40 {
		t.Errorf("found only %d commands", ran)
	}
}

// shown returns the words after termguard in a line of a page, nil if the line has no such command.
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

// Pages change a policy in the cluster and its label by one request: between two requests, no
// policy would be in force. TestTutorial runs the one in docs/policies.md.
func TestDocsPolicyUpdate(t *testing.T) {
	race.Skip(t)
	made := 0
	for _, page := range pages(t) {
		for _, block := range fenced.FindAllStringSubmatch(read(t, page), -1) {
			for _, command := range strings.Split(strings.ReplaceAll(block[2], "|\n", "|"), "\n") {
				switch local := strings.Contains(command, "kubectl label --local"); {
				case strings.Contains(command, "create configmap") && strings.Contains(command, ".rego"):
					made++
					if !local || !strings.Contains(command, "apply --server-side") {
						t.Errorf("%s: policy without its label: %s", page, command)
					}
				case strings.Contains(command, config.PolicyLabel) && strings.Contains(command, "kubectl") && strings.Contains(command, " label ") && !local:
					t.Errorf("%s: label in a request of its own: %s", page, command)
				}
			}
		}
	}
	if made < 2 {
		t.Errorf("found only %d commands", made)
	}
}

// Every key of the configuration is on its page, and the example there is valid.
func TestDocsConfiguration(t *testing.T) {
	race.Skip(t)
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

var metric = regexp.MustCompile(`(Counter|Gauge|Histogram)(?:Opts|Func)?\w*{\s*Name:\s+"(termguard_\w+)",\s+Help:\s+"((?:[^"\\]|\\.)*)",(?:\s+Buckets:[^\n]*)?\s+}(?:, \[\]string{([^}]*)})?`)

// The table of metrics comes from the code that registers them. UPDATE_GOLDEN=1 writes it anew.
func TestDocsMetrics(t *testing.T) {
	race.Skip(t)
	var rows strings.Builder
	count := 0
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
				t.Errorf("%s: names %d metrics, parsed %d", file, named, len(all))
			}
			for _, m := range all {
				count++
				labels := ""
				if m[4] != "" {
					labels = strings.ReplaceAll(m[4], `"`, "") + " "
				}
				fmt.Fprintf(&rows, "| `%s` | %s | %s| %s |\n", m[2], strings.ToLower(m[1]), labels, strings.ReplaceAll(m[3], `\"`, `"`))
			}
		}
	}
	const head = "| metric | type | labels | meaning |\n|---|---|---|---|\n"
	page := read(t, "docs/metrics.md")
	before, table, _ := strings.Cut(page, head)
	_, after, ok := strings.Cut(table, "\n\n")
	if count < 6 || !ok {
		t.Fatalf("%d metrics and this page:\n%s", count, page)
	}
	current(t, "docs/metrics.md", before+head+rows.String()+"\n"+after)
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	section = regexp.MustCompile(`(?m)^#+ (.*)$`)
	comment = regexp.MustCompile(`(?m)\s+# .*$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{M}\p{N}_ -]`) // from headings, by GitHub
)

// pages returns all Markdown files of the repository, by path from its root, except golden files.
func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "policies/*/README.md", "deploy/*/*.md", "test/*/*.md"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range files {
			all = append(all, strings.TrimPrefix(filepath.ToSlash(page), "../../"))
		}
	}
	return all
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rewrite compares the blocks of a page with what block returns. UPDATE_GOLDEN=1 writes them anew.
func rewrite(t *testing.T, page string, block func(language, text string) string) {
	t.Helper()
	kept := read(t, page)
	want := fenced.ReplaceAllStringFunc(kept, func(whole string) string {
		parts := fenced.FindStringSubmatch(whole)
		return "```" + parts[1] + "\n" + block(parts[1], parts[2]) + "```"
	})
	if kept != want {
		current(t, page, want)
	}
}

// current compares a page with want. UPDATE_GOLDEN=1 writes it anew.
func current(t *testing.T, page, want string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(filepath.Join("../..", page), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, read(t, page)); diff != "" {
		t.Errorf("%s is stale: run 'make docs': -want, +got:\n%s", page, diff)
	}
}

// anchors returns the fragments that links to a page may have, as GitHub makes them of its
// headings.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, heading := range section.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		title := link.ReplaceAllString(heading[1], "]")
		all[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
	}
	return all
}

// Links in all pages, and in the program's output, lead to existing files and sections.
func TestDocsLinks(t *testing.T) {
	race.Skip(t)
	links, sections := 0, 0
	check := func(page, to string) {
		links++
		file, anchor, _ := strings.Cut(to, "#")
		file = filepath.Join("../..", file)
		if info, err := os.Stat(file); err != nil {
			t.Errorf("%s: %v", page, err)
		} else if anchor != "" && !info.IsDir() {
			sections++
			text, err := os.ReadFile(file)
			if err != nil || !anchors(string(text))[anchor] {
				t.Errorf("%s: %s has no section %s", page, file, anchor)
			}
		}
	}
	for _, page := range pages(t) {
		text := fenced.ReplaceAllString(read(t, page), "")
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			switch to := l[1]; {
			case strings.HasPrefix(to, "#"):
				check(page, page+to)
			case !strings.Contains(to, "://"):
				check(page, filepath.Join(filepath.Dir(page), to))
			}
		}
	}
	inCode := regexp.MustCompile(`github\.com/termguard/termguard/blob/main/([\w./-]+(?:#[\w-]+)?)`)
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, l := range inCode.FindAllStringSubmatch(string(text), -1) {
			check(path, l[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 120 || sections < 7 {
		t.Errorf("found only %d links, %d of them to sections", links, sections)
	}
}

// The first line of each page of docs is the question that it answers. Another page links to it,
// and it takes at most ten minutes to read, unless it is a reference. "Stuck now?" is the first
// section of the README.
func TestDocsPages(t *testing.T) {
	race.Skip(t)
	const most = 2000 // words
	all := 0
	linked := map[string]bool{}
	for _, page := range pages(t) {
		for _, l := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			file, _, _ := strings.Cut(l[1], "#")
			if to := filepath.ToSlash(filepath.Join(filepath.Dir(page), file)); to != page {
				linked[to] = true
			}
		}
	}
	opening := regexp.MustCompile(`^# [^\n]+\n\n(?:<!-- [^\n]* -->\n\n)?(Reference: |参考：)?[^\n]*[?？]\n`)
	for _, page := range pages(t) {
		if !strings.HasPrefix(page, "docs/") {
			continue
		}
		text := read(t, page)
		all += len(strings.Fields(text))
		opens := opening.FindStringSubmatch(text)
		switch words := len(strings.Fields(text)); {
		case opens == nil:
			t.Errorf("the first line of %s is not the question that it answers, as in %q or %q", page, "Will this delete finish?", "Reference: which settings are there?")
		case words > most && opens[1] == "":
			t.Errorf("%s has %d words, want at most %d: split it", page, words, most)
		}
		if !linked[page] {
			t.Errorf("no page links to %s", page)
		}
	}
	if all > 30_000 {
		t.Errorf("docs/ has %d words, want at most 30,000: results of tests belong in test/results", all)
	}
	for page, heading := range map[string]string{"README.md": "Stuck now?", "README.zh-CN.md": "现在就卡住了？"} {
		if lines := strings.Count(read(t, page), "\n"); lines > 150 {
			t.Errorf("%s has %d lines, want at most 150", page, lines)
		}
		_, first, _ := strings.Cut(read(t, page), "\n## ")
		block := fenced.FindStringSubmatch(first)
		if !strings.HasPrefix(first, heading+"\n") || block == nil || !strings.HasPrefix(block[2], "$ termguard check ") || strings.Count(block[2], "\n") < 10 {
			t.Errorf("%s does not begin with %q, one command and what that prints", page, heading)
		}
	}
}
