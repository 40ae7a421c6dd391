package answer

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// waiting matches advice to do nothing.
var waiting = regexp.MustCompile(`(?i)\bwait\b`)

// nameless matches steps with a pronoun whose noun is not in the same line.
var nameless = regexp.MustCompile(`^(?:Then |Afterwards, |If |See why )?(?:\w+ )?(?:it|them|this|these)\b|that (?:use|refer to|mount from) it\b|that it (?:stores|connected)\b|holds this\b`)

// byHand matches the commands that are left to a person.
var byHand = regexp.MustCompile(`^kubectl (describe|taint nodes|create clusterrole|create clusterrolebinding) `)

// TestPlansOfFixtures checks the plan of each fixture: no step waits for an object that hangs,
// repairs come before steps that give something up and those before forced deletions, no step is
// repeated, the deletion is last, termguard delete carries out every command except those for a
// person, and the whole answer fits 60 columns.
func TestPlansOfFixtures(t *testing.T) {
	race.Skip(t)
	engine := newEngine(t)
	order := map[policies.StepKind]int{policies.Mend: 0, policies.Remove: 1, policies.Force: 2, Delete: 3}
	plans := 0
	for d := range samples(t) {
		report, err := ask(t.Context(), engine, d.world, d.subject, nil)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := report.all.Text(&text); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(text.String(), "\n")
		if _, rest, _ := strings.Cut(first, ": "); !strings.HasPrefix(rest, string(report.Verdict)) {
			t.Errorf("%s: first line without the verdict: %s", d.file, first)
		}
		for line := range strings.Lines(report.all.Page(false).In(page.Style{Width: 60})) {
			line = strings.TrimSuffix(line, "\n")
			longest := 0
			for _, word := range strings.Fields(line) {
				longest = max(longest, utf8.RuneCountInString(word))
			}
			if utf8.RuneCountInString(line) > 60 && longest < 40 && !strings.HasPrefix(strings.TrimSpace(line), "$ ") { // a word that long cannot be broken, and a command is not
				t.Errorf("%s: wider than 60 columns: %s", d.file, line)
			}
		}
		if len(report.all.Plan) == 0 {
			if report.Verdict == policies.Hangs {
				t.Errorf("%s: hangs, but has no plan", d.file)
			}
			continue
		}
		plans++
		before, seen := 0, map[string]bool{}
		for _, step := range report.all.Plan {
			at, ok := order[step.Kind]
			if !ok || at < before {
				t.Errorf("%s: step of kind %s out of order: %s", d.file, step.Kind, step.Do)
			}
			before = at
			if nameless.MatchString(step.Do) {
				t.Errorf("%s: pronoun without its noun: %s", d.file, step.Do)
			}
			if finishes(report.Verdict) {
				continue
			}
			if step.Action == nil && step.Command != "" && step.Kind != Delete && !byHand.MatchString(step.Command) {
				t.Errorf("%s: termguard delete cannot carry it out: %s", d.file, step.Command)
			}
			if waiting.MatchString(step.Do) {
				t.Errorf("%s: a step waits for an object that hangs: %s", d.file, step.Do)
			}
			if key := step.Do + step.Command; seen[key] {
				t.Errorf("%s: repeated step: %s", d.file, step.Do)
			} else {
				seen[key] = true
			}
		}
		last := report.all.Plan[len(report.all.Plan)-1]
		if report.TerminatingSince == "" && !strings.HasPrefix(last.Command, policies.Deletion(report.Target).Command()) && !(report.Target.Resource == question.Namespaces.Resource && question.Immortal(report.Target.Name)) {
			t.Errorf("%s: the last step does not delete: %s", d.file, last.Do)
		}
	}
	if plans < 50 {
		t.Errorf("only %d plans", plans)
	}
}
