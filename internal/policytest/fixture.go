// Package policytest runs the fixtures of policies.
package policytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Fixture is a file testdata/{hang,ok}_*.yaml of a policy: objects, a Request, and optionally a Cluster for
// facts that objects cannot show. Each finding must match a comment
//
// # want "regexp"
//
// on its line: its field in its first object, or else that object's name. The regexp matches "will hang:
// MESSAGE [policy-id]" or "forbidden: …" (policies.Finding.Says).
type Fixture struct {
	File string

	documents []document
	request   request
	wants     map[int][]*regexp.Regexp // by line
}

type document struct {
	node   *yaml.Node
	object *unstructured.Unstructured
}

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
	// Finalizers are left by an UPDATE, in the metadata or, with subresource finalize, in the spec.
	Finalizers []string `json:"finalizers"`
	// Manifests means that the objects are read as lint does, not in a cluster.
	Manifests bool `json:"manifests"`
}

var (
	wantComment = regexp.MustCompile(`# want (.*)$`)
	quoted      = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")
)

// Parse parses a fixture.
func Parse(file string, text []byte) (Fixture, error) {
	f := Fixture{File: file, wants: map[int][]*regexp.Regexp{}}
	if err := f.parse(text); err != nil {
		return f, fmt.Errorf("%s: %w", file, err)
	}
	return f, nil
}

func (f *Fixture) parse(text []byte) error {
	for i, line := range strings.Split(string(text), "\n") {
		comment := wantComment.FindStringSubmatch(line)
		if comment == nil {
			continue
		}
		for _, literal := range quoted.FindAllString(comment[1], -1) {
			pattern, err := strconv.Unquote(literal)
			if err != nil {
				return fmt.Errorf("line %d: want %s: %w", i+1, literal, err)
			}
			re, err := regexp.Compile(pattern)
			if err != nil {
				return fmt.Errorf("line %d: want %s: %w", i+1, literal, err)
			}
			f.wants[i+1] = append(f.wants[i+1], re)
		}
		if len(f.wants[i+1]) == 0 {
			return fmt.Errorf("line %d: a want without a quoted regexp", i+1)
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
			return err
		}
		d.node = root.Content[0]
		var value map[string]any
		if err := d.node.Decode(&value); err != nil {
			return err
		}
		data, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if value["kind"] == "Request" {
			requests++
			strict := json.NewDecoder(bytes.NewReader(data))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&f.request); err != nil {
				return fmt.Errorf("request: %w", err)
			}
			continue
		}
		d.object = &unstructured.Unstructured{}
		if err := d.object.UnmarshalJSON(data); err != nil {
			return err
		}
		f.documents = append(f.documents, d)
	}
	if requests != 1 {
		return fmt.Errorf("%d documents of kind Request, want 1", requests)
	}
	return nil
}

// find also finds resources of the fixture's definitions.
func (f Fixture) find(resource, namespace, name string) (document, bool) {
	for _, d := range f.documents {
		gvk := d.object.GroupVersionKind()
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		for _, definition := range f.documents {
			text := func(keys ...string) string {
				value, _, _ := unstructured.NestedString(definition.object.Object, append([]string{"spec"}, keys...)...)
				return value
			}
			if definition.object.GetKind() == "CustomResourceDefinition" && text("group") == gvk.Group && text("names", "kind") == gvk.Kind {
				gvr.Resource = text("names", "plural")
			}
		}
		if gvr.GroupResource().String() == resource && d.object.GetNamespace() == namespace && d.object.GetName() == name {
			return d, true
		}
	}
	return document{}, false
}

func (f Fixture) admissionRequest() (*question.Request, error) {
	r := f.request
	subject, is := f.find(r.Resource, r.Namespace, r.Name)
	if !is {
		return nil, fmt.Errorf("%s: no document of the requested %s %s/%s", f.File, r.Resource, r.Namespace, r.Name)
	}
	target := question.Target{
		Kind: subject.object.GroupVersionKind(), Resource: schema.ParseGroupResource(r.Resource).WithVersion("v1"),
		Namespace: r.Namespace, Name: r.Name, Object: subject.object.Object,
		User: authenticationv1.UserInfo{Username: r.User, Groups: r.Groups},
	}
	var built *question.Request
	switch {
	case r.Subresource == "eviction":
		built = target.Evict(r.Options)
	case r.Subresource == "drain":
		built = target.Drain()
	case r.Operation == "DELETE":
		built = target.Delete(r.Options)
	case r.Finalizers != nil:
		edit, place := target.Edit, "metadata"
		if r.Subresource == "finalize" {
			edit, place = target.Finalize, "spec"
		}
		after := subject.object.DeepCopy()
		if err := unstructured.SetNestedStringSlice(after.Object, r.Finalizers, place, "finalizers"); err != nil {
			return nil, fmt.Errorf("%s: %w", f.File, err)
		}
		built = edit(after.Object)
	default:
		built = target.Create()
	}
	built.DryRun = &r.DryRun
	return built, nil
}

func (f Fixture) line(finding policies.Finding) (int, error) {
	if len(finding.Objects) == 0 {
		return 0, errors.New("it names no object")
	}
	o := finding.Objects[0]
	d, ok := f.find(o.Resource, o.Namespace, o.Name)
	if !ok {
		return 0, fmt.Errorf("no document of %s %s/%s", o.Resource, o.Namespace, o.Name)
	}
	field := finding.Field
	if field == "" {
		field = "metadata.name"
	}
	steps := strings.FieldsFunc(field, func(r rune) bool { return strings.ContainsRune(".[]", r) })
	return policies.LineOf(d.node, steps), nil
}

// Prepared is a fixture with its facts and its input.
type Prepared struct {
	Fixture
	World *cluster.World
	Input map[string]any
}

// Objects returns all documents except the request.
func (f Fixture) Objects() []*unstructured.Unstructured {
	objects := make([]*unstructured.Unstructured, len(f.documents))
	for i, d := range f.documents {
		objects[i] = d.object
	}
	return objects
}

// Prepare builds the facts and the input of a fixture.
func (f Fixture) Prepare() (Prepared, error) { return f.PrepareWith(cluster.Options{}) }

// PrepareWith is Prepare with options; the fixture sets the time.
func (f Fixture) PrepareWith(options cluster.Options) (Prepared, error) {
	now := time.Unix(0, 0)
	for _, o := range f.Objects() {
		if text, _, _ := unstructured.NestedString(o.Object, "now"); o.GetKind() == "Cluster" && text != "" {
			var err error
			if now, err = time.Parse(time.RFC3339, text); err != nil {
				return Prepared{}, fmt.Errorf("%s: now: %w", f.File, err)
			}
		}
	}
	options.Now = func() time.Time { return now }
	if f.request.Manifests {
		options.Manifests = &cluster.Manifests{}
	}
	world, err := cluster.FromObjects(options, f.Objects())
	if err != nil {
		return Prepared{}, fmt.Errorf("%s: %w", f.File, err)
	}
	request, err := f.admissionRequest()
	if err != nil {
		return Prepared{}, err
	}
	p := Prepared{Fixture: f, World: world}
	world.Ask(request, func(m cluster.Moment) { p.Input = m.Input() })
	return p, nil
}

// Evaluate evaluates the policies on the fixture's request.
func (p Prepared) Evaluate(ctx context.Context, engine *policies.Engine) (policies.Result, error) {
	result, err := engine.Evaluate(ctx, p.Trigger(), p.Input, p.World)
	if err != nil {
		return result, fmt.Errorf("%s: %w", p.File, err)
	}
	for _, err := range result.Errors {
		if errors.Is(err, policies.ErrMalformed) {
			return result, fmt.Errorf("%s: %w", p.File, err)
		}
	}
	return result, nil
}

// Hangs reports whether the fixture expects findings.
func (f Fixture) Hangs() bool { return len(f.wants) > 0 }

// Trigger returns the trigger of the fixture's request.
func (f Fixture) Trigger() policies.Trigger {
	switch r := f.request; {
	case r.Operation == "DELETE", r.Subresource == "eviction", r.Subresource == "drain":
		return policies.Delete
	case r.Finalizers != nil:
		return policies.FinalizerEdit
	}
	return policies.Apply
}

// Problems compares findings with the fixture's comments.
func (f Fixture) Problems(findings []policies.Finding) (problems []string) {
	open := map[int][]*regexp.Regexp{}
	for line, wants := range f.wants {
		open[line] = append(open[line], wants...)
	}
findings:
	for _, finding := range findings {
		text := fmt.Sprintf("%s: %s [%s]", finding.Says(), finding.Message, finding.Policy)
		line, err := f.line(finding)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %q points nowhere: %v", f.File, text, err))
			continue
		}
		for i, want := range open[line] {
			if want.MatchString(text) {
				open[line] = append(open[line][:i], open[line][i+1:]...)
				continue findings
			}
		}
		problems = append(problems, fmt.Sprintf("%s:%d: unexpected: %s", f.File, line, text))
	}
	for _, line := range slices.Sorted(maps.Keys(open)) {
		for _, want := range open[line] {
			problems = append(problems, fmt.Sprintf("%s:%d: nothing found that matches %s", f.File, line, want))
		}
	}
	return problems
}
