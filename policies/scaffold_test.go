package policies_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"

	"github.com/termguard/termguard/internal/policytest"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// TestScaffold checks that a new policy passes the tests of all policies at once.
func TestScaffold(t *testing.T) {
	race.Skip(t)
	dir := t.TempDir()
	folder, err := policies.Scaffold(dir, "some_cause-2")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(filepath.Join(dir, "some_cause_2"), folder); diff != "" {
		t.Errorf("folder: -want +got\n%s", diff)
	}
	set, err := policies.Load(policies.Embedded(), policies.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	engines := map[bool]*policies.Engine{}
	tracer, golden := policytest.NewTracer(), policytest.NewGolden(set)
	for _, off := range []bool{true, false} {
		options := policies.EngineOptions{Off: map[string]bool{"some-cause-2": off}, Deadline: time.Minute}
		if !off {
			options.Tracer = tracer
		}
		engines[off], err = policies.NewEngine(t.Context(), set, options)
		if err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(folder, "testdata", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, file := range files {
		f, err := readFixture(file)
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(filepath.Base(file), "_")
		kinds[kind]++
		result := f.evaluate(t, engines[false])
		golden.Add(filepath.Base(file), result)
		for _, problem := range f.Problems(result.Findings) {
			t.Error(problem)
		}
		if red := len(f.Problems(f.evaluate(t, engines[true]).Findings)) > 0; red != (kind == "hang") {
			t.Errorf("%s: without the policy it fails: %v", file, red)
		}
	}
	if diff := cmp.Diff(map[string]int{"hang": 2, "ok": 2}, kinds); diff != "" {
		t.Errorf("fixtures: -want +got\n%s", diff)
	}
	written, err := os.ReadFile(filepath.Join(folder, "testdata", policytest.GoldenFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(golden.String(), string(written)); diff != "" {
		t.Errorf("testdata/%s: -want +got\n%s", policytest.GoldenFile, diff)
	}
	if percent, missed, err := tracer.Covered(os.DirFS(dir), dir, "some_cause_2"); err != nil || percent < 100 {
		t.Errorf("fixtures reach %v %% of its lines, and not %q: %v", percent, missed, err)
	}
	file := filepath.Join(folder, "some_cause_2.rego")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	formatted, err := format.SourceWithOpts(file, text, format.Opts{RegoVersion: ast.RegoV1})
	if diff := cmp.Diff(string(formatted), string(text)); err != nil || diff != "" {
		t.Errorf("%s is not formatted: %v\n%s", file, err, diff)
	}
}

func TestScaffoldRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := policies.Scaffold(dir, "some_id"); err != nil {
		t.Fatal(err)
	}
	if _, err := policies.Scaffold(dir, "some-id"); !errors.Is(err, policies.ErrExists) {
		t.Errorf("scaffold an existing policy: got %v, want %v", err, policies.ErrExists)
	}
	for _, id := range []string{"", "Some_id", "1st", "a__b", "a_", "../a", "a/b", "lib", "schema", "ümlaut"} {
		if _, err := policies.Scaffold(dir, id); err == nil {
			t.Errorf("scaffold %q: no error", id)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
