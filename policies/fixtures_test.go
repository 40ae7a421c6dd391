package policies_test

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/termguard/termguard/internal/policytest"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

func fixtures(t testing.TB) []fixture {
	t.Helper()
	files, err := filepath.Glob("*/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find fixtures: %v, %d files", err, len(files))
	}
	all := make([]fixture, len(files))
	for i, file := range files {
		if all[i], err = readFixture(file); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return all
}

func readFixture(file string) (fixture, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return fixture{}, err
	}
	f, err := policytest.Parse(file, text)
	return fixture{f}, err
}

func (f fixture) evaluate(t testing.TB, engine *policies.Engine) policies.Result {
	t.Helper()
	return f.prepare(t).evaluate(t, engine)
}

type fixture struct{ policytest.Fixture }

type prepared struct{ policytest.Prepared }

// prepare checks facts and request against their schemas.
func (f fixture) prepare(t testing.TB) prepared {
	t.Helper()
	p, err := f.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	p.World.View(func(doc map[string]any) {
		for name, document := range map[string]any{"cluster.schema": doc, "input.schema": p.Input} {
			if err := policies.MatchSchema(name, document); err != nil {
				t.Errorf("%s: the document does not fit schema/%s.json: %v", f.File, name, err)
			}
		}
	})
	return prepared{p}
}

func (p prepared) evaluate(t testing.TB, engine *policies.Engine) policies.Result {
	t.Helper()
	result, err := p.Evaluate(t.Context(), engine)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range result.Errors {
		t.Errorf("%s: %v", p.File, err)
	}
	quiet, ok := engine.Quiet(p.Trigger(), p.Input, p.World)
	if concerned := len(engine.Relevant(p.Trigger(), p.Input, p.World)) > 0; ok == concerned {
		t.Errorf("%s: quiet %v, and concerns a policy %v", p.File, ok, concerned)
	} else if diff := cmp.Diff(quiet, result); ok && diff != "" {
		t.Errorf("%s: -without evaluating, +with:\n%s", p.File, diff)
	}
	return result
}

func newEngine(t testing.TB, off ...string) *policies.Engine {
	t.Helper()
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	options := policies.EngineOptions{Off: map[string]bool{}, Deadline: time.Minute} // a slow machine is no failure
	for _, id := range off {
		options.Off[id] = true
	}
	engine, err := policies.NewEngine(t.Context(), set, options)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// TestFixtures compares the findings with the comments of the fixtures, and in full with golden
// files (UPDATE_GOLDEN=1 writes them: read the diff). A line of Rego that a policy's own fixtures
// do not reach is untested; for the library, its own tests count, too.
func TestFixtures(t *testing.T) {
	race.Skip(t)
	set, err := policies.LoadEverything()
	if err != nil {
		t.Fatal(err)
	}
	tracer, library := policytest.NewTracer(), testLibrary(t)
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute, Tracer: both{tracer, library}})
	if err != nil {
		t.Fatal(err)
	}
	all := fixtures(t)
	for _, p := range set.Policies() {
		t.Run(p.ID, func(t *testing.T) {
			tracer.Reset()
			golden := policytest.NewGolden(set)
			for _, f := range all {
				if filepath.Dir(filepath.Dir(f.File)) != p.Folder {
					continue
				}
				result := f.evaluate(t, engine)
				golden.Add(filepath.Base(f.File), result)
				for _, problem := range f.Problems(result.Findings) {
					t.Error(problem)
				}
			}
			file := filepath.Join(p.Folder, "testdata", policytest.GoldenFile)
			compareGolden(t, file, golden.String())
			if _, missed, err := tracer.Covered(os.DirFS("."), "policies", p.Folder); err != nil || len(missed) > 0 {
				t.Errorf("no fixture reaches %q: %v", missed, err)
			}
		})
	}
	folders, err := filepath.Glob("lib/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("find the library: %v", err)
	}
	for _, folder := range folders {
		if _, missed, err := library.Covered(os.DirFS("."), "policies", folder); err != nil || len(missed) > 0 {
			t.Errorf("neither a fixture nor a test of the library reaches %q: %v", missed, err)
		}
	}
}

// both passes every event to two tracers.
type both struct{ one, other *policytest.Tracer }

func (both) Enabled() bool               { return true }
func (both) Config() topdown.TraceConfig { return topdown.TraceConfig{} }
func (b both) TraceEvent(event topdown.Event) {
	b.one.TraceEvent(event)
	b.other.TraceEvent(event)
}

// testLibrary runs the library's tests in Rego, and returns their coverage.
func testLibrary(t *testing.T) *policytest.Tracer {
	t.Helper()
	files, err := filepath.Glob("lib/*/*.rego")
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]*ast.Module{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Join("policies", file)
		if modules[name], err = ast.ParseModuleWithOpts(name, string(text), ast.ParserOptions{RegoVersion: ast.RegoV1}); err != nil {
			t.Fatal(err)
		}
	}
	tracer, store := policytest.NewTracer(), inmem.New()
	ran := 0
	err = storage.Txn(t.Context(), store, storage.TransactionParams{}, func(txn storage.Transaction) error {
		results, err := tester.NewRunner().SetStore(store).SetModules(modules).SetCoverageQueryTracer(tracer).
			SetTimeout(time.Minute).RunTests(t.Context(), txn)
		if err != nil {
			return err
		}
		for result := range results {
			if ran++; !result.Pass() {
				t.Errorf("%s: %s: %v", result.Location, result.Name, result.Error)
			}
		}
		return nil
	})
	if err != nil || ran == 0 {
		t.Fatalf("%d tests of the library in Rego ran: %v", ran, err)
	}
	return tracer
}

// TestFixturesAreComplete checks that every policy has two fixtures of each kind.
func TestFixturesAreComplete(t *testing.T) {
	race.Skip(t)
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]map[string]int{}
	for _, f := range fixtures(t) {
		folder := filepath.Dir(filepath.Dir(f.File))
		kind, _, _ := strings.Cut(filepath.Base(f.File), "_")
		if counts[folder] == nil {
			counts[folder] = map[string]int{}
		}
		counts[folder][kind]++
		if (kind == "hang") != (f.Hangs()) || kind != "hang" && kind != "ok" {
			t.Errorf("%s: want hang_*.yaml with comments about findings, ok_*.yaml without, and no other files", f.File)
		}
	}
	for _, p := range set.Policies() {
		if counts[p.Folder]["hang"] < 2 || counts[p.Folder]["ok"] < 2 {
			t.Errorf("policy %s has fixtures %v, want at least 2 hang and 2 ok", p.ID, counts[p.Folder])
		}
		delete(counts, p.Folder)
	}
	for folder := range counts {
		t.Errorf("%s has fixtures and no policy", folder)
	}
}

// TestOff checks that switching a policy off removes its findings and nothing else, on all of its
// fixtures and one in ten of each other policy's.
func TestOff(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
	race.Skip(t)
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	everything := newEngine(t)
	var all []prepared
	var finders []map[string]bool // by policy: some fixtures want what two find
	for _, f := range fixtures(t) {
		p, by := f.prepare(t), map[string]bool{}
		for _, finding := range p.evaluate(t, everything).Findings {
			by[finding.Policy] = true
		}
		all, finders = append(all, p), append(finders, by)
	}
	for i, p := range set.Policies() {
		engine := newEngine(t, p.ID)
		for j, f := range all {
			its := filepath.Dir(filepath.Dir(f.File)) == p.Folder
			if !its && (i+j)%10 != 0 {
				continue
			}
			red := len(f.Problems(f.evaluate(t, engine).Findings)) > 0
			if diff := cmp.Diff(finders[j][p.ID], red); diff != "" {
				t.Errorf("without %s, %s fails: -want, +got:\n%s", p.ID, f.File, diff)
			}
		}
	}
}

// TestLazy checks that policies that are compiled on demand, some at a time, have the same findings
// as all of them checked and compiled together.
func TestLazy(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
	race.Skip(t)
	everything, err := policies.LoadEverything()
	if err != nil {
		t.Fatal(err)
	}
	all, err := policies.NewEngine(t.Context(), everything, policies.EngineOptions{Deadline: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	lazy := func() *policies.Engine {
		engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute, Lazy: true})
		if err != nil {
			t.Fatal(err)
		}
		return engine
	}
	onward, count := lazy(), 0
	for _, f := range fixtures(t) {
		p := f.prepare(t)
		want := p.evaluate(t, all)
		count += len(want.Findings)
		for when, engine := range map[string]*policies.Engine{"first": lazy(), "further": onward} {
			if diff := cmp.Diff(want, p.evaluate(t, engine)); diff != "" {
				t.Errorf("%s, as a %s request: -all, +lazy:\n%s", f.File, when, diff)
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d findings", count)
	}
}

// TestBrief checks that findings without steps equal those with steps in everything else.
func TestBrief(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
	race.Skip(t)
	for name, load := range map[string]func() (*policies.Set, error){
		"indexed": func() (*policies.Set, error) { return policies.Load(policies.Embedded()) },
		"checked": policies.LoadEverything,
	} {
		t.Run(name, func(t *testing.T) {
			set, err := load()
			if err != nil {
				t.Fatal(err)
			}
			engine := func(brief bool) *policies.Engine {
				engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute, Brief: brief})
				if err != nil {
					t.Fatal(err)
				}
				return engine
			}
			long, brief := engine(false), engine(true)
			steps := 0
			for _, f := range fixtures(t) {
				p := f.prepare(t)
				want := p.evaluate(t, long)
				for _, f := range want.Findings {
					steps += len(f.Steps)
				}
				// If a policy writes no remedy of its own, the steps are the remedy.
				got := p.evaluate(t, brief)
				if slices.ContainsFunc(got.Findings, func(f policies.Finding) bool { return len(f.Steps) > 0 }) {
					t.Errorf("%s: steps where none are wanted", f.File)
				}
				if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(policies.Finding{}, "Steps", "Remedy")); diff != "" {
					t.Errorf("%s: -long, +brief:\n%s", f.File, diff)
				}
			}
			if steps < 100 {
				t.Errorf("only %d steps", steps)
			}
		})
	}
}

// TestNeedsHideNothing checks that a policy that is skipped because of its needs would have found
// nothing.
func TestNeedsHideNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: make check runs it")
	}
	race.Skip(t)
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	engine := func(set *policies.Set) *policies.Engine {
		engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute, Lazy: true})
		if err != nil {
			t.Fatal(err)
		}
		return engine
	}
	some, all := engine(set), engine(policies.WithoutNeeds(set))
	for _, f := range fixtures(t) {
		p := f.prepare(t)
		if diff := cmp.Diff(p.evaluate(t, all), p.evaluate(t, some)); diff != "" {
			t.Errorf("%s: -all evaluated, +by their needs:\n%s", f.File, diff)
		}
	}
}

// compareGolden compares a text with a file; UPDATE_GOLDEN=1 writes it.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is stale (UPDATE_GOLDEN=1 go test ./policies writes it): -want, +got:\n%s", file, diff)
	}
}
