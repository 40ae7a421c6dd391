package operators

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// Each has its own lab.
const atOnce = 3

// In percent: answers that are neither hangs nor completes.
const mostCautious = 15

// TestOperators plays the operators in OPERATORS ("all", or comma-separated names). RESULTS=FOLDER stores the
// results.
func TestOperators(t *testing.T) {
	if os.Getenv("OPERATORS") == "" {
		t.Skip("make nightly plays them all, and make operators OPERATORS=NAME,NAME some")
	}
	operators, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	chosen := strings.Split(os.Getenv("OPERATORS"), ",")
	slots := make(chan struct{}, atOnce)
	for _, o := range operators {
		if !slices.Contains(chosen, "all") && !slices.Contains(chosen, o.Name) {
			continue
		}
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			playAll(t, o)
		})
	}
}

func playAll(t *testing.T, o Operator) {
	for _, program := range o.Programs {
		if needs := lab.ContainersNeed(); program.Contained && needs != "" {
			t.Skipf("%s is not played: it needs %s", o.Name, needs)
		}
		if _, err := lab.BuildSoftware(t.Context(), program.Component, lab.Options{Progress: t.Output()}); err != nil {
			t.Skipf("%s is not played: it cannot be built here: %v", o.Name, err)
		}
	}
	g, err := scenario.PatientGuard(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Stop()
	rows, err := Play(t.Context(), g, o, testing.Short(), t.Output())
	var text bytes.Buffer
	table(&text, rows)
	c := count(rows)
	t.Logf("%s: %s\n%s%s", o.Name, o.About, &text, c)
	if folder := os.Getenv("RESULTS"); folder != "" { // also the rows before a failure
		if err := (Results{Operator: o.Name, Rows: rows}).write(folder); err != nil {
			t.Error(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range judge(rows, o.Wrong) {
		t.Error(wrong)
	}
	if !decisive(c) && o.Undecided == "" {
		t.Errorf("only %d of %d answers are decisive", c.decisive, c.answers)
	}
}

func decisive(c counts) bool { return c.decisive*100 >= c.answers*(100-mostCautious) }

var version = regexp.MustCompile(`v[0-9]+\.[0-9]+\.[0-9]+`)

func between(text, from, to string) string {
	_, text, _ = strings.Cut(text, from)
	text, _, _ = strings.Cut(text, to)
	return text
}

// TestLoad checks that the declarations name the versions that are built.
func TestLoad(t *testing.T) {
	operators, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range operators {
		seen := map[string]bool{}
		for _, s := range o.situations() {
			for _, target := range o.Targets {
				for what := range s.deletions(target) {
					name := (Row{Situation: s.name, Deleted: what}).Name()
					if seen[name] && (s.of == "" || s.of == target.Name) {
						t.Errorf("%s: two rows are called %q", o.Name, name)
					}
					seen[name] = true
				}
			}
			seen[(Row{Situation: runs, Deleted: rowName(s.deletes)}).Name()] = true
		}
		for _, trap := range o.Traps {
			seen[(Row{Situation: trap.Name, Deleted: rowName(trap.Delete)}).Name()] = true
			seen[(Row{Situation: trap.Name + ", after it", Deleted: rowName(trap.Leaves)}).Name()] = true
		}
		for row := range o.Wrong {
			if !seen[row] {
				t.Errorf("%s: wrong names %q, which is none of its rows", o.Name, row)
			}
		}
		if len(o.Traps) == 0 {
			t.Errorf("%s has no trap of its own", o.Name)
		}
		pinned, err := os.ReadFile(filepath.Join("..", "components", o.Programs[0].Component, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		module, version := between(o.About, "(", ")"), version.FindString(o.About)
		if !strings.Contains(strings.Join(strings.Fields(string(pinned)), " "), module+" "+version+" ") {
			t.Errorf("%s: about says %s of %s, which differs from the built version", o.Name, version, module)
		}
	}
}

func TestRowsDiffer(t *testing.T) {
	o := Operator{
		Programs: []scenario.Program{{Deployment: "home/it"}},
		Targets:  []Target{{Name: "a Widget", Object: "widgets.x.io it -n $NS", Needs: []string{"secret one -n $NS", "secret $NS -n home"}}},
		Rights:   []string{"clusterrolebinding one", "clusterrolebinding two", "rolebinding one -n home"},
	}
	var got []string
	for _, s := range o.situations() {
		if strings.HasPrefix(s.name, "without ") {
			got = append(got, s.name)
		}
	}
	want := []string{
		"without its namespace", "without its clusterrolebinding one", "without its clusterrolebinding two", "without its rolebinding one",
		"without secret one that it needs", "without secret NAME that it needs",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestJudge checks that every wrong row fails unless it is listed.
func TestJudge(t *testing.T) {
	row := func(webhook, check, snapshot, really string) Row {
		return Row{Situation: "runs", Deleted: "it", Webhook: webhook, Check: check, Snapshot: snapshot, Really: really}
	}
	listed := map[string]string{"runs: it": "because"}
	for _, tc := range []struct {
		reason string
		row    Row
		wrong  map[string]string
		want   []string
	}{
		{"all are right", row("hangs", "hangs", "hangs", "hangs"), nil, nil},
		{"caution is no mistake", row("at-risk", "unknown", "hangs", "hangs"), nil, nil},
		{"caution is no mistake if the deletion completes", row("at-risk", "completes", "completes", "completes"), nil, nil},
		{"each way is judged", row("hangs", "hangs", "completes", "hangs"), nil, []string{"runs: it: snapshot: miss"}},
		{"a false alarm", row("hangs", "completes", "completes", "completes"), nil, []string{"runs: it: webhook: false alarm"}},
		{"a deletion that completes and makes another hang is no all-clear", row("at-risk", "completes", "at-risk", Leaves), nil, []string{"runs: it: check: miss"}},
		{"nor does it hang", row("at-risk", "hangs", "at-risk", Leaves), nil, []string{"runs: it: check: false alarm"}},
		{"the webhook was not called", row(Unasked, "at-risk", "at-risk", Leaves), nil, nil},
		{"the webhook was not called, which does not excuse others", row(Unasked, "completes", "at-risk", Leaves), nil, []string{"runs: it: check: miss"}},
		{"no answer", row("hangs", "hangs", Failed, "hangs"), nil, []string{"runs: it: snapshot: no answer"}},
		{"known to be wrong", row("completes", "completes", "completes", "hangs"), listed, nil},
		{"known to be wrong, and right", row("hangs", "at-risk", "hangs", "hangs"), listed, []string{"runs: it: it is right now: take it off the list of wrong rows"}},
	} {
		if diff := gocmp.Diff(tc.want, judge([]Row{tc.row}, tc.wrong)); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
		}
	}
}

func TestMerge(t *testing.T) {
	row := func(situation, really string) Row { return Row{Situation: situation, Deleted: "it", Really: really} }
	got := merge([]Row{row("a", "hangs"), row("b", "hangs")}, []Row{row("b", "completes"), row("c", "hangs")})
	if diff := gocmp.Diff([]Row{row("a", "hangs"), row("b", "completes"), row("c", "hangs")}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestPage compares the page with the results; UPDATE_GOLDEN=1 rewrites it.
func TestPage(t *testing.T) {
	results, err := readResults("results")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	operators, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		for _, o := range operators {
			if o.Name == r.Operator {
				for _, wrong := range judge(r.Rows, o.Wrong) {
					t.Errorf("%s: of the results, which the page shows: %s", o.Name, wrong)
				}
				if c := count(r.Rows); decisive(c) == (o.Undecided != "") {
					t.Errorf("%s: %d of %d answers in the results are decisive: say under undecided why these are few, or take that out", o.Name, c.decisive, c.answers)
				}
			}
		}
	}
	page(&want, operators, results)
	file := filepath.Join(lab.Root(), "test", "results", "operators.md")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("test/results/operators.md is not what test/operators/results says (run: UPDATE_GOLDEN=1 go test -run TestPage ./operators): -want, +got:\n%s", diff)
	}
}
