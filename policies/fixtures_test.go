package policies_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// A fixture is a file testdata/{hang,ok}_*.yaml of a policy: objects as kubectl
// prints them, one document of kind Request, and one of kind Cluster for what
// objects cannot show. Each finding must match a comment
//
//	# want "regexp"
//
// on the line that it points at: that of its field in the document of its first
// object, or of that object's name. The regexp is held against
// "will hang: MESSAGE [policy-id]".
type fixture struct {
	file      string
	documents []document
	request   request
	wants     map[int][]*regexp.Regexp // by line
}

// document is one object of a fixture, with the positions of its fields.
type document struct {
	node   *yaml.Node
	object *unstructured.Unstructured
}

// request is a document of kind Request.
type request struct {
	APIVersion  string         `json:"apiVersion"`
	Kind        string         `json:"kind"`
	Operation   string         `json:"operation"`
	Resource    string         `json:"resource"` // plural, or plural.group
	Subresource string         `json:"subresource"`
	Namespace   string         `json:"namespace"`
	Name        string         `json:"name"`
	User        string         `json:"user"`
	Groups      []string       `json:"groups"`
	Options     map[string]any `json:"options"`
	DryRun      bool           `json:"dryRun"`
	// Of an UPDATE that edits finalizers: those that it leaves in the metadata
	// of the object, or, with subresource finalize, in its spec. The document
	// is the object as it was before.
	Finalizers []string `json:"finalizers"`
}

func (r request) trigger() policies.Trigger {
	switch {
	case r.Operation == "DELETE", r.Subresource == "eviction", r.Subresource == "drain":
		return policies.Delete
	case r.Finalizers != nil:
		return policies.FinalizerEdit
	}
	return policies.Apply
}

var (
	wantComment = regexp.MustCompile(`# want (.*)$`)
	quoted      = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")
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
	f := fixture{file: file, wants: map[int][]*regexp.Regexp{}}
	text, err := os.ReadFile(file)
	if err != nil {
		return f, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		comment := wantComment.FindStringSubmatch(line)
		if comment == nil {
			continue
		}
		for _, literal := range quoted.FindAllString(comment[1], -1) {
			pattern, err := strconv.Unquote(literal)
			if err != nil {
				return f, fmt.Errorf("line %d: want %s: %w", i+1, literal, err)
			}
			re, err := regexp.Compile(pattern)
			if err != nil {
				return f, fmt.Errorf("line %d: want %s: %w", i+1, literal, err)
			}
			f.wants[i+1] = append(f.wants[i+1], re)
		}
		if len(f.wants[i+1]) == 0 {
			return f, fmt.Errorf("line %d: a want without a quoted regexp", i+1)
		}
	}
	requests := 0
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var d document
		var root yaml.Node
		if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return f, err
		}
		d.node = root.Content[0]
		var value map[string]any
		if err := d.node.Decode(&value); err != nil {
			return f, err
		}
		data, err := json.Marshal(value)
		if err != nil {
			return f, err
		}
		if value["kind"] == "Request" {
			requests++
			strict := json.NewDecoder(bytes.NewReader(data))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&f.request); err != nil {
				return f, fmt.Errorf("request: %w", err)
			}
			continue
		}
		d.object = &unstructured.Unstructured{}
		if err := d.object.UnmarshalJSON(data); err != nil {
			return f, err
		}
		f.documents = append(f.documents, d)
	}
	if requests != 1 {
		return f, fmt.Errorf("%d documents of kind Request, want 1", requests)
	}
	return f, nil
}

// find returns the document of an object.
func (f fixture) find(resource, namespace, name string) (document, bool) {
	plurals := map[schema.GroupKind]string{}
	for _, d := range f.documents {
		if d.object.GetKind() == "CustomResourceDefinition" {
			group, _, _ := unstructured.NestedString(d.object.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(d.object.Object, "spec", "names", "kind")
			plurals[schema.GroupKind{Group: group, Kind: kind}], _, _ = unstructured.NestedString(d.object.Object, "spec", "names", "plural")
		}
	}
	for _, d := range f.documents {
		gvk := d.object.GroupVersionKind()
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		if plural := plurals[gvk.GroupKind()]; plural != "" {
			gvr.Resource = plural
		}
		if gvr.GroupResource().String() == resource && d.object.GetNamespace() == namespace && d.object.GetName() == name {
			return d, true
		}
	}
	return document{}, false
}

// input is the admission review's request, as the API server would send it.
func (f fixture) input(t testing.TB, world *cluster.World) map[string]any {
	t.Helper()
	r := f.request
	gr := schema.ParseGroupResource(r.Resource)
	namespace := r.Namespace
	if r.Resource == "namespaces" {
		namespace = r.Name
	}
	review := map[string]any{
		"uid": "fixture", "operation": r.Operation, "name": r.Name, "namespace": namespace, "subResource": r.Subresource, "dryRun": r.DryRun,
		"resource": map[string]any{"group": gr.Group, "version": "v1", "resource": gr.Resource},
		"userInfo": map[string]any{"username": r.User, "groups": append([]string{}, r.Groups...)},
		"object":   nil, "oldObject": nil, "options": r.Options,
	}
	input := map[string]any{"request": review}
	target, found := f.find(r.Resource, r.Namespace, r.Name)
	if !found {
		t.Fatalf("%s: no document of the requested %s %s/%s", f.file, r.Resource, r.Namespace, r.Name)
	}
	gvk := target.object.GroupVersionKind()
	review["kind"] = map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
	switch r.trigger() {
	case policies.Delete:
		if r.Subresource == "eviction" {
			review["object"] = map[string]any{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": r.Name, "namespace": r.Namespace}}
		} else {
			review["oldObject"] = target.object.Object
		}
	case policies.FinalizerEdit:
		object, left := target.object.DeepCopy(), make([]any, len(r.Finalizers))
		for i, finalizer := range r.Finalizers {
			left[i] = finalizer
		}
		place := map[bool]string{true: "spec", false: "metadata"}[r.Subresource == "finalize"]
		if err := unstructured.SetNestedSlice(object.Object, left, place, "finalizers"); err != nil {
			t.Fatalf("%s: %v", f.file, err)
		}
		review["object"], review["oldObject"] = object.Object, target.object.Object
	default:
		review["object"] = target.object.Object
	}
	var spec []string
	if r.Resource == "namespaces" {
		spec, _, _ = unstructured.NestedStringSlice(target.object.Object, "spec", "finalizers")
	}
	input["ownership"] = world.Ownership(target.object, gr, spec)
	return input
}

// line is where a finding points at.
func (f fixture) line(finding policies.Finding) (int, error) {
	if len(finding.Objects) == 0 {
		return 0, errors.New("it names no object")
	}
	o := finding.Objects[0]
	d, found := f.find(o.Resource, o.Namespace, o.Name)
	if !found {
		return 0, fmt.Errorf("no document of %s %s/%s", o.Resource, o.Namespace, o.Name)
	}
	field := finding.Field
	if field == "" {
		field = "metadata.name"
	}
	steps := strings.FieldsFunc(field, func(r rune) bool { return strings.ContainsRune(".[]", r) })
	return policies.LineOf(d.node, steps), nil
}

func (f fixture) evaluate(t testing.TB, engine *policies.Engine) policies.Result {
	t.Helper()
	return f.prepare(t).evaluate(t, engine)
}

// prepared is a fixture with its facts and its request.
type prepared struct {
	fixture
	world *cluster.World
	input map[string]any
}

func (f fixture) prepare(t testing.TB) prepared {
	t.Helper()
	objects := make([]*unstructured.Unstructured, len(f.documents))
	for i, d := range f.documents {
		objects[i] = d.object
	}
	world, err := cluster.FromObjects(cluster.Options{Now: func() time.Time { return time.Unix(0, 0) }}, objects)
	if err != nil {
		t.Fatalf("%s: %v", f.file, err)
	}
	input := f.input(t, world)
	world.View(func(doc map[string]any) {
		for name, document := range map[string]any{"cluster.schema": doc, "input.schema": input} {
			if err := policies.MatchSchema(name, document); err != nil {
				t.Errorf("%s: the document does not fit schema/%s.json: %v", f.file, name, err)
			}
		}
	})
	return prepared{f, world, input}
}

func (p prepared) evaluate(t testing.TB, engine *policies.Engine) policies.Result {
	t.Helper()
	result, err := engine.Evaluate(t.Context(), p.request.trigger(), p.input, p.world)
	if err != nil {
		t.Fatalf("%s: %v", p.file, err)
	}
	for _, err := range result.Errors {
		t.Errorf("%s: %v", p.file, err)
	}
	return result
}

// problems compares findings with the comments of the fixture.
func (f fixture) problems(findings []policies.Finding) (problems []string) {
	open := map[int][]*regexp.Regexp{}
	for line, wants := range f.wants {
		open[line] = append(open[line], wants...)
	}
findings:
	for _, finding := range findings {
		said := fmt.Sprintf("%s hang: %s [%s]", finding.Certainty, finding.Message, finding.Policy)
		line, err := f.line(finding)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %q points nowhere: %v", f.file, said, err))
			continue
		}
		for i, want := range open[line] {
			if want.MatchString(said) {
				open[line] = append(open[line][:i], open[line][i+1:]...)
				continue findings
			}
		}
		problems = append(problems, fmt.Sprintf("%s:%d: unexpected: %s", f.file, line, said))
	}
	for line, wants := range open {
		for _, want := range wants {
			problems = append(problems, fmt.Sprintf("%s:%d: nothing found that matches %s", f.file, line, want))
		}
	}
	return problems
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

func TestFixtures(t *testing.T) {
	engine := newEngine(t)
	for _, f := range fixtures(t) {
		t.Run(f.file, func(t *testing.T) {
			result := f.evaluate(t, engine)
			for _, problem := range f.problems(result.Findings) {
				t.Error(problem)
			}
		})
	}
}

// TestFixturesAreComplete holds every policy to two fixtures of each kind.
func TestFixturesAreComplete(t *testing.T) {
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]int{}
	for _, f := range fixtures(t) {
		folder := filepath.Dir(filepath.Dir(f.file))
		kind, _, _ := strings.Cut(filepath.Base(f.file), "_")
		if found[folder] == nil {
			found[folder] = map[string]int{}
		}
		found[folder][kind]++
		if (kind == "hang") != (len(f.wants) > 0) || kind != "hang" && kind != "ok" {
			t.Errorf("%s: hang_*.yaml has comments that say what is found, ok_*.yaml has none, and there are no others", f.file)
		}
	}
	for _, p := range set.Policies() {
		if found[p.Folder]["hang"] < 2 || found[p.Folder]["ok"] < 2 {
			t.Errorf("policy %s has fixtures %v, want at least 2 hang and 2 ok", p.ID, found[p.Folder])
		}
		delete(found, p.Folder)
	}
	for folder := range found {
		t.Errorf("%s has fixtures and no policy", folder)
	}
}

// One case in so many there is time for under the race detector.
const oneIn = 3

// TestOff holds that a policy that is off takes away what it finds and nothing
// else: all fixtures of its own, and one in ten of each other policy's.
func TestOff(t *testing.T) {
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	var all []prepared
	for _, f := range fixtures(t) {
		all = append(all, f.prepare(t))
	}
	for i, p := range set.Policies() {
		if race.Detector && i%oneIn != 0 {
			continue
		}
		engine := newEngine(t, p.ID)
		for j, f := range all {
			its := filepath.Dir(filepath.Dir(f.file)) == p.Folder
			if !its && (i+j)%10 != 0 {
				continue
			}
			red := len(f.problems(f.evaluate(t, engine).Findings)) > 0
			if diff := cmp.Diff(its && len(f.wants) > 0, red); diff != "" {
				t.Errorf("without %s, %s fails: -want, +got:\n%s", p.ID, f.file, diff)
			}
		}
	}
}

// TestLazy holds policies that compile when they are asked, some at a time, to
// finding what all of them find that were checked and compiled together.
func TestLazy(t *testing.T) {
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
	onward, found := lazy(), 0
	for i, f := range fixtures(t) {
		if race.Detector && i%oneIn != 0 {
			continue
		}
		p := f.prepare(t)
		want := p.evaluate(t, all)
		found += len(want.Findings)
		asked := map[string]*policies.Engine{"first": lazy(), "further": onward}
		if i%2 == 0 { // and as lint does
			asked["first"].Expect(p.request.trigger(), p.input, p.world)
		}
		for when, engine := range asked {
			if diff := cmp.Diff(want, p.evaluate(t, engine)); diff != "" {
				t.Errorf("%s, asked as a %s question: -all, +lazy:\n%s", f.file, when, diff)
			}
		}
	}
	if !race.Detector && found < 100 {
		t.Errorf("%d findings: too few to mean anything", found)
	}
}
