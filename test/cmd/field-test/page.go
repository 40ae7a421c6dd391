package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

const (
	begin = "<!-- made by make field-test-page from test/field -->\n"
	end   = "<!-- end -->\n"
)

func writePage(file string, repositories []repository, rated []finding) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	made, err := page(string(text), repositories, rated)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(made), 0o644)
}

func page(text string, repositories []repository, rated []finding) (string, error) {
	before, rest, ok := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return "", fmt.Errorf("no lines %q and %q", begin, end)
	}
	return before + begin + tables(repositories, rated) + end + after, nil
}

// Judgements date from the findings.
type counts map[string]int

func (c counts) add(verdict string) { c[strings.TrimPrefix(verdict, "was ")]++ }

func (c counts) verdicts() string {
	return fmt.Sprintf("%d / %d / %d", c["right"], c["debatable"], c["wrong"])
}

func (c counts) cells() string {
	return fmt.Sprintf("%d | %d | %d | %d", c["right"]+c["debatable"]+c["wrong"], c["right"], c["debatable"], c["wrong"])
}

var severities = []string{"high", "medium", "low", "info"}

func rounds(repositories []repository, rated []finding) string {
	type round struct {
		repositories, files, objects int
		totals                       map[string]counts // by severity, or invalid
		broken                       map[string]bool   // repositories with exit code 2
	}
	all, of := map[string]*round{}, map[string]string{}
	for _, r := range repositories {
		if all[r.round] == nil {
			all[r.round] = &round{totals: map[string]counts{}, broken: map[string]bool{}}
		}
		in := all[r.round]
		in.repositories, in.files, in.objects = in.repositories+1, in.files+r.files, in.objects+r.objects
		of[r.name] = r.round
	}
	for _, f := range rated {
		in, key := all[of[f.repository]], f.severity
		if f.policy == invalid {
			key = invalid
			in.broken[f.repository] = true
		}
		if in.totals[key] == nil {
			in.totals[key] = counts{}
		}
		in.totals[key].add(f.verdict)
	}
	var b strings.Builder
	b.WriteString("\n| round | repositories | files | objects | high | medium | low | info | exit code 2 | places |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		in := all[name]
		fmt.Fprintf(&b, "| %s | %d | %d | %d |", name, in.repositories, in.files, in.objects)
		for _, severity := range severities {
			fmt.Fprintf(&b, " %s |", in.totals[severity].verdicts())
		}
		fmt.Fprintf(&b, " %d | %s |\n", len(in.broken), in.totals[invalid].verdicts())
	}
	return b.String()
}

func tables(repositories []repository, rated []finding) string {
	byPolicy, bySeverity := map[string]counts{}, map[string]counts{}
	all, broken := counts{}, map[string]bool{}
	add := func(to map[string]counts, key, verdict string) {
		if to[key] == nil {
			to[key] = counts{}
		}
		to[key].add(verdict)
	}
	for _, f := range rated {
		if f.policy == invalid {
			broken[f.repository] = true
			add(byPolicy, f.policy, f.verdict)
			continue
		}
		add(byPolicy, f.policy, f.verdict)
		add(bySeverity, f.severity, f.verdict)
		all.add(f.verdict)
	}
	var b strings.Builder
	b.WriteString(rounds(repositories, rated))
	b.WriteString("\n| policy | findings | right | debatable | wrong |\n|---|---|---|---|---|\n")
	for _, policy := range slices.Sorted(maps.Keys(byPolicy)) {
		if policy != invalid {
			fmt.Fprintf(&b, "| %s | %s |\n", policy, byPolicy[policy].cells())
		}
	}
	fmt.Fprintf(&b, "| **all** | %s |\n", all.cells())
	b.WriteString("\n| severity | findings | right | debatable | wrong |\n|---|---|---|---|---|\n")
	for _, severity := range severities {
		fmt.Fprintf(&b, "| %s | %s |\n", severity, bySeverity[severity].cells())
	}
	b.WriteString("\n| repository with exit code 2 | problem | place |\n|---|---|---|\n")
	for _, f := range alike(rated, func(f finding) bool { return f.policy == invalid }) {
		fmt.Fprintf(&b, "| %s | %s: %s | %s |\n", f.repository, f.verdict, f.reason, f.place())
	}
	b.WriteString("\n| not right, or no longer reported | severity | place | why |\n|---|---|---|---|\n")
	for _, f := range alike(rated, func(f finding) bool { return f.policy != invalid && f.verdict != "right" }) {
		fmt.Fprintf(&b, "| %s, %s | %s | %s, %s | %s |\n", f.verdict, f.policy, f.severity, f.repository, f.place(), f.reason)
	}
	b.WriteString("\n")
	return b.String()
}

type several struct {
	finding
	more int
}

func (f several) place() string {
	at := fmt.Sprintf("%s:%d", f.file, f.line)
	if f.more > 0 {
		at += fmt.Sprintf(" and %d more", f.more)
	}
	return at
}

func alike(rated []finding, of func(finding) bool) (all []several) {
	for _, f := range rated {
		if !of(f) {
			continue
		}
		i := slices.IndexFunc(all, func(s several) bool {
			return s.policy == f.policy && s.repository == f.repository && s.verdict == f.verdict && s.reason == f.reason && s.severity == f.severity
		})
		if i < 0 {
			all = append(all, several{f, 0})
			continue
		}
		all[i].more++
	}
	return all
}
