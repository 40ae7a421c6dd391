package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// The tables stand between these lines of the page.
const (
	begin = "<!-- made by make field-test-page from test/field -->\n"
	end   = "<!-- end -->\n"
)

// writePage writes the tables of a page anew.
func writePage(file string, repositories []repository, judged []finding) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	made, err := page(string(text), repositories, judged)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(made), 0o644)
}

// page is a page with its tables as they should be.
func page(text string, repositories []repository, judged []finding) (string, error) {
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("no lines %q and %q", begin, end)
	}
	return before + begin + tables(repositories, judged) + end + after, nil
}

// counts are findings by verdict.
type counts map[string]int

func (c counts) cells() string {
	return fmt.Sprintf("%d | %d | %d | %d", c["right"]+c["debatable"]+c["wrong"], c["right"], c["debatable"], c["wrong"])
}

func tables(repositories []repository, judged []finding) string {
	files, objects := 0, 0
	for _, r := range repositories {
		files, objects = files+r.files, objects+r.objects
	}
	byPolicy, bySeverity := map[string]counts{}, map[string]counts{}
	all, broken := counts{}, map[string]bool{}
	add := func(to map[string]counts, key, verdict string) {
		if to[key] == nil {
			to[key] = counts{}
		}
		to[key][verdict]++
	}
	for _, f := range judged {
		if f.policy == invalid {
			broken[f.repository] = true
			add(byPolicy, f.policy, f.verdict)
			continue
		}
		add(byPolicy, f.policy, f.verdict)
		add(bySeverity, f.severity, f.verdict)
		all[f.verdict]++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d repositories, %d files, %d objects.\n", len(repositories), files, objects)
	b.WriteString("\n| policy | findings | right | debatable | wrong |\n|---|---|---|---|---|\n")
	for _, policy := range slices.Sorted(maps.Keys(byPolicy)) {
		if policy != invalid {
			fmt.Fprintf(&b, "| %s | %s |\n", policy, byPolicy[policy].cells())
		}
	}
	fmt.Fprintf(&b, "| **all** | %s |\n", all.cells())
	b.WriteString("\n| severity | findings | right | debatable | wrong |\n|---|---|---|---|---|\n")
	for _, severity := range []string{"high", "medium", "low", "info"} {
		fmt.Fprintf(&b, "| %s | %s |\n", severity, bySeverity[severity].cells())
	}
	b.WriteString("\n| repository with exit code 2 | problem | place |\n|---|---|---|\n")
	for _, f := range judged {
		if f.policy == invalid {
			fmt.Fprintf(&b, "| %s | %s: %s | %s:%d |\n", f.repository, f.verdict, f.reason, f.file, f.line)
		}
	}
	b.WriteString("\n| not right | severity | place | why |\n|---|---|---|---|\n")
	for _, f := range judged {
		if f.verdict != "right" {
			fmt.Fprintf(&b, "| %s, %s | %s | %s, %s:%d | %s |\n", f.verdict, f.policy, f.severity, f.repository, f.file, f.line, f.reason)
		}
	}
	b.WriteString("\n")
	return b.String()
}
