package lint

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// TestParity evaluates each fixture of a policy with trigger apply through lint and as the handler
// does, over the same facts: the findings are the same, on the lines that the fixture names.
func TestParity(t *testing.T) {
	race.Skip(t)
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: evaluationTimeout})
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, p := range set.Policies() {
		if !slices.Contains(p.Triggers, policies.Apply) {
			continue
		}
		files, err := filepath.Glob("../policies/" + p.Folder + "/testdata/*.yaml")
		if err != nil || len(files) < 4 {
			t.Fatalf("policy %s: %d fixtures, %v", p.ID, len(files), err)
		}
		for _, file := range files {
			if compareFixture(t, engine, p, file) {
				compared++
			}
		}
	}
	if compared < 20 {
		t.Errorf("compared only %d fixtures", compared)
	}
}

var want = regexp.MustCompile(`# want "`)

func compareFixture(t *testing.T, engine *policies.Engine, p policies.Policy, file string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var request struct{ Operation, Resource, Namespace, Name string }
	var objects []*unstructured.Unstructured
	f := &files.File{Name: file, Path: file}
	var parsed []*files.Object
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for { // the fixture's own documents are no objects
		var value map[string]any
		if decoder.Decode(&value) != nil {
			break
		}
		if value["kind"] == "Request" {
			for key, into := range map[string]*string{"operation": &request.Operation, "resource": &request.Resource, "namespace": &request.Namespace, "name": &request.Name} {
				*into, _ = value[key].(string)
			}
		} else if value["kind"] == "Cluster" {
			objects = append(objects, &unstructured.Unstructured{Object: value})
		}
	}
	if request.Operation != "CREATE" {
		return false
	}
	for c := range f.Read() {
		parsed = append(parsed, c.Objects...)
	}
	r := &run{log: &sets.Log{}}
	a := &evaluator{Manifests: &sets.Manifests{Set: &sets.Set{Input: &sets.Input{Log: r.log}}}, run: r, engine: engine, index: map[policies.Object]*subject{}}
	for _, o := range parsed {
		value, err := o.Value()
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: value}
		if u.GroupVersionKind().Group == "termguard.dev" {
			continue
		}
		objects = append(objects, u)
		a.add(&subject{Object: o, object: u}, cluster.Resources(objects)[u.GroupVersionKind()])
	}
	world, err := cluster.FromObjects(cluster.Options{}, objects)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	a.world = world
	target := a.index[policies.Object{Resource: request.Resource, Namespace: request.Namespace, Name: request.Name}]
	if target == nil {
		t.Fatalf("%s: the request names no object of the fixture", file)
	}

	var handler policies.Result
	world.Ask(question.Target{
		Kind: target.object.GroupVersionKind(), Resource: schema.ParseGroupResource(request.Resource).WithVersion("v1"),
		Namespace: request.Namespace, Name: request.Name, Object: target.object.Object,
	}.Create(), func(m cluster.Moment) {
		handler, err = engine.Evaluate(t.Context(), policies.Apply, m.Input(), m)
	})
	if err != nil || len(handler.Errors) > 0 {
		t.Fatalf("%s: %v %v", file, err, handler.Errors)
	}
	if err := a.evaluate(t.Context(), []*subject{target}); err != nil {
		t.Fatal(err)
	}
	for i, f := range handler.Findings {
		handler.Findings[i] = forAuthor(f)
	}
	var linted []policies.Finding
	lines := map[int]bool{}
	for _, f := range r.findings {
		if f.Question != ApplyObject {
			continue
		}
		linted = append(linted, f.Finding)
		if f.Policy == p.ID {
			lines[f.Place.Line] = true
		}
	}
	if diff := cmp.Diff(handler.Findings, linted); diff != "" {
		t.Errorf("%s: -handler, +lint:\n%s", file, diff)
	}
	wantLines := map[int]bool{}
	for i, line := range bytes.Split(text, []byte("\n")) {
		if want.Match(line) {
			wantLines[i+1] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(wantLines)), slices.Sorted(maps.Keys(lines))); diff != "" {
		t.Errorf("%s: lines of findings: -want, +got:\n%s", file, diff)
	}
	return true
}

// TestFastPath compares the findings of the fast path with an evaluation of every policy about
// every object, with every node built, on all fixtures and manifests at hand.
func TestFastPath(t *testing.T) {
	race.Skip(t)
	paths := []string{"../policies", "../deploy", "../test/scenario/testdata", "testdata"}
	if corpus := os.Getenv("TERMGUARD_CORPUS"); corpus != "" {
		paths = append(paths, corpus)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { _, err := os.Stat(p); return err != nil })
	// All scenarios have one namespace, and 128 groups of finalizers are kept for it; policy-*
	// repeat objects of others with a finalizer.
	var beyond files.Exclude
	if err := beyond.Add("..", "**/scenario/testdata/o*.yaml", "**/scenario/testdata/p*.yaml"); err != nil {
		t.Fatal(err)
	}
	fast, err := Run(t.Context(), Options{Input: sets.Options{Paths: paths, Exclude: beyond, IncludeTests: true}})
	if err != nil {
		t.Fatal(err)
	}
	slow, err := Run(t.Context(), Options{Input: sets.Options{Paths: paths, Exclude: beyond, IncludeTests: true, KeepSchemas: true}})
	if err != nil {
		t.Fatal(err)
	}
	if len(fast.Findings) < 30 {
		t.Errorf("only %d findings", len(fast.Findings))
	}
	for _, findings := range [][]Finding{slow.Findings, fast.Findings} { // the one line that is shown without what follows
		for i := range findings {
			findings[i].Place.Source, findings[i].Set = "", 0
		}
	}
	if diff := cmp.Diff(slow, fast); diff != "" {
		t.Errorf("-slow, +fast:\n%s", diff)
	}
}
