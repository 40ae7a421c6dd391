package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

func newEngine(t testing.TB) *policies.Engine {
	t.Helper()
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute}) // a slow machine is no failure
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// worldOf returns the facts about the objects in a file of testdata.
func worldOf(t testing.TB, file string) *cluster.World {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return worldFrom(t, string(text))
}

// decodeAll decodes the documents of a YAML text.
func decodeAll(t testing.TB, text string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for _, document := range strings.Split(strings.TrimSuffix(text, "\n---\n"), "\n---\n") {
		object := &unstructured.Unstructured{}
		asJSON, err := yaml.YAMLToJSON([]byte(document))
		if err == nil {
			err = object.UnmarshalJSON(asJSON)
		}
		if err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		objects = append(objects, object)
	}
	return objects
}

// worldFrom returns the facts about the objects in a YAML text.
func worldFrom(t testing.TB, text string) *cluster.World {
	t.Helper()
	world, err := cluster.FromObjects(cluster.Options{}, decodeAll(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return world
}

// TestReport compares answers with testdata/NAME.txt and NAME.json;
// UPDATE_GOLDEN=1 writes them.
func TestReport(t *testing.T) {
	engine := newEngine(t)
	for _, tt := range []struct {
		name, reason string
		target       Name
		want         policies.Verdict
	}{
		{"namespace", "what is in a namespace holds it", Name{Object: policies.Object{Resource: "ns", Name: "demo"}}, policies.Hangs},
		{"object", "finalizers of the object itself come from the facts", Name{Object: policies.Object{Resource: "kiali", Namespace: "demo", Name: "kiali"}}, policies.Hangs},
		{"terminating", "a namespace that is already being deleted", Name{Object: policies.Object{Resource: "ns", Name: "stuck"}}, policies.Hangs},
		{"plain", "nothing in the way", Name{Object: policies.Object{Resource: "ns", Name: "plain"}}, policies.Completes},
		{"configmap", "an object that the facts only count", Name{Object: policies.Object{Resource: "cm", Namespace: "plain", Name: "settings"}}, policies.Completes},
		{"served", "what is in a namespace rests on owners that are alive", Name{Object: policies.Object{Resource: "ns", Name: "served"}}, policies.Completes},
		{"widget", "of an object itself, a snapshot does not hold what its status says", Name{Object: policies.Object{Resource: "widgets", Namespace: "served", Name: "a"}}, policies.Unknown},
		{"definition", "and a definition whose instances have some", Name{Object: policies.Object{Resource: "crd", Name: "widgets.acme.example.com"}}, policies.Completes},
		{"unseen", "what may be there is not seen", Name{Object: policies.Object{Resource: "secret", Namespace: "plain", Name: "token"}}, policies.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			world := worldOf(t, "cluster.yaml")
			subject, err := FromFacts(world, tt.target)
			if err != nil {
				t.Fatal(err)
			}
			options, err := question.FromFlags("background", -1, false)
			if err != nil {
				t.Fatal(err)
			}
			report, err := ask(t.Context(), engine, world, subject, options)
			if err != nil {
				t.Fatal(err)
			}
			if report.Verdict != tt.want {
				t.Errorf("verdict %s, want %s: %s", report.Verdict, tt.want, tt.reason)
			}
			var text bytes.Buffer
			if err := report.all.Text(&text); err != nil {
				t.Fatal(err)
			}
			asJSON, err := json.MarshalIndent(report.all, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, tt.name+".txt", text.Bytes())
			if tt.name == "namespace" {
				for _, width := range []int{20, 60, 80} {
					golden(t, fmt.Sprintf("namespace.%d.txt", width), []byte(report.all.Page(false).In(page.Style{Width: width})))
				}
				golden(t, "namespace.color.txt", []byte(report.all.Page(false).In(page.Style{Width: 100, Color: true})))
			}
			golden(t, tt.name+".json", append(asJSON, '\n'))
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (write it with: UPDATE_GOLDEN=1 go test ./answer)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (UPDATE_GOLDEN=1 go test ./answer writes it): -want, +got:\n%s", file, diff)
	}
}

func TestPlan(t *testing.T) {
	race.Skip(t)
	mend := func(do string) policies.Step { return policies.Step{Kind: policies.Mend, Do: do} }
	force := func(do, command string) policies.Step {
		return policies.Step{Kind: policies.Force, Do: do, Command: command}
	}
	remove := policies.Step{Kind: policies.Remove, Do: "drop", Command: "kubectl delete x"}
	got := plan([]policies.Finding{
		{Certainty: policies.Will, Message: "a", Remedy: "told by the steps", Steps: []policies.Step{mend("mend a"), force("force", "kubectl a")}},
		{Certainty: policies.Will, Message: "b", Steps: []policies.Step{remove, mend("mend b")}},
		{Certainty: policies.Will, Message: "c", Steps: []policies.Step{mend("mend a"), remove, force("force", "kubectl c")}},
		{Certainty: policies.Will, Message: "d", Remedy: "no steps"},
		{Certainty: policies.Will, Message: "e"},
	})
	want := []Step{
		{Step: mend("mend a"), Why: "a", Certainty: policies.Will},
		{Step: mend("mend b"), Why: "b", Certainty: policies.Will},
		{Step: mend("no steps"), Why: "d", Certainty: policies.Will},
		{Step: remove, Why: "b", Certainty: policies.Will},
		{Step: force("force", "kubectl a"), Why: "a", Certainty: policies.Will},
		{Step: force("force", "kubectl c"), Why: "c", Certainty: policies.Will},
	}
	plain := cmpopts.IgnoreFields(Step{}, "Mends", "Refusal")
	if diff := cmp.Diff(want, got, plain); diff != "" {
		t.Errorf("steps: -want, +got:\n%s", diff)
	}
	scale := policies.Step{Kind: policies.Mend, Do: "Scale up x", Command: "kubectl scale x"}.WithPromise(policies.FinishesItself)
	strip := func(name string) policies.Step {
		return policies.Step{Kind: policies.Remove, Do: "strip " + name, Command: "kubectl patch " + name}
	}
	findings := []policies.Finding{
		{Certainty: policies.Will, Message: "a", Steps: []policies.Step{mend("mend a"), strip("a")}},
		{Certainty: policies.Will, Message: "b", Steps: []policies.Step{scale, strip("b")}},
		{Certainty: policies.Will, Message: "c", Steps: []policies.Step{scale, strip("c")}},
	}
	var steps []string
	for _, s := range byCause(plan(findings)) {
		steps = append(steps, s.Do)
	}
	if diff := cmp.Diff([]string{"Scale up x", "mend a", "strip a", "strip b", "strip c"}, steps); diff != "" {
		t.Errorf("first step: -want, +got:\n%s", diff)
	}
	if _, all := causesOf(plan(findings)); all != 3 {
		t.Errorf("%d blockers, want 3", all)
	}
	if first := plan(findings[1:])[0].Do; first != scale.Do {
		t.Errorf("the step that unblocks everything does not say so: %s", first)
	}
}

type answer struct {
	policies.Result
	err error
}

func TestAsk(t *testing.T) {
	seconds := func(n int) *int { return &n }
	finding := func(certainty policies.Certainty, severity policies.Severity, estimate *int) policies.Finding {
		return policies.Finding{Certainty: certainty, Severity: severity, EstimateSeconds: estimate}
	}
	for _, tt := range []struct {
		reason   string
		result   policies.Result
		unseen   []policies.Unseen
		verdict  policies.Verdict
		estimate *int
		seen     []string
	}{
		{reason: "nothing found", verdict: policies.Completes, seen: []string{}},
		{
			reason:  "the longest estimate counts",
			result:  policies.Result{Findings: []policies.Finding{finding(policies.May, policies.Info, seconds(5)), finding(policies.May, policies.Info, seconds(32))}},
			verdict: policies.Completes, estimate: seconds(32), seen: []string{},
		},
		{
			reason:  "a deletion that hangs has no estimate",
			result:  policies.Result{Findings: []policies.Finding{finding(policies.Will, policies.High, nil), finding(policies.May, policies.Low, seconds(32))}},
			verdict: policies.Hangs, seen: []string{},
		},
		{reason: "the object itself is unseen", unseen: []policies.Unseen{{What: "x itself", Reason: "forbidden"}}, verdict: policies.Unknown, seen: []string{"x itself: forbidden"}},
		{
			reason:  "a policy that failed makes the verdict unknown",
			result:  policies.Result{Errors: []error{errors.New("policy p: failed")}, Unseen: []policies.Unseen{{Resource: "pods", Reason: "forbidden"}}},
			verdict: policies.Unknown, seen: []string{"pods: forbidden", "policy p: failed"},
		},
	} {
		s := Subject{Name: "x", Object: map[string]any{}, Unseen: tt.unseen}
		report, err := ask(t.Context(), evaluated(answer{Result: tt.result}), cluster.NewWorld(cluster.Options{}), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]any{tt.verdict, tt.estimate, tt.seen}, []any{report.Verdict, report.EstimateSeconds, append([]string{}, policies.UnseenTexts(report.Unseen)...)}); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", tt.reason, diff)
		}
	}
	if _, err := ask(t.Context(), evaluated(answer{err: errors.New("broken")}), cluster.NewWorld(cluster.Options{}), Subject{Object: map[string]any{}}, nil); err == nil {
		t.Error("got an answer from an engine that fails, want an error")
	}
}

func TestParseNames(t *testing.T) {
	for _, tt := range []struct {
		reason string
		args   []string
		want   []Name
		err    string
	}{
		{"one", []string{"ns/demo"}, []Name{{Object: policies.Object{Resource: "ns", Name: "demo"}}}, ""},
		{"type and name", []string{"ns", "demo"}, []Name{{Object: policies.Object{Resource: "ns", Name: "demo"}}}, ""},
		{"several, and one twice", []string{"ns/a", "po/b", "ns/a"}, []Name{{Object: policies.Object{Resource: "ns", Name: "a"}}, {Object: policies.Object{Resource: "po", Name: "b"}}}, ""},
		{"a type and several names", []string{"ns", "a", "b"}, []Name{{Object: policies.Object{Resource: "ns", Name: "a"}}, {Object: policies.Object{Resource: "ns", Name: "b"}}}, ""},
		{"several types", []string{"po,svc", "x"}, []Name{{Object: policies.Object{Resource: "po", Name: "x"}}, {Object: policies.Object{Resource: "svc", Name: "x"}}}, ""},
		{"no name", []string{"ns"}, nil, `"ns" has no name`},
		{"a namespace", []string{"istio-system"}, nil, `delete takes --all; if it is a namespace: namespaces/istio-system`},
		{"an empty name", []string{"ns/"}, nil, `"ns/" is no object`},
		{"an empty type", []string{"/demo"}, nil, `"/demo" is no object`},
		{"a name with a slash", []string{"ns/a/b"}, nil, `"ns/a/b" is no object`},
		{"both forms", []string{"ns/a", "b"}, nil, `"b" is no object`},
		{"both forms, the other way", []string{"ns", "po/b"}, nil, `"ns po/b" is no object`},
		{"nothing", nil, nil, "got no argument: want TYPE/NAME"},
	} {
		got, err := ParseNames(tt.args)
		if diff := cmp.Diff(tt.want, got); diff != "" || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q; -want, +got:\n%s", tt.reason, err, tt.err, diff)
		}
	}
}

// TestWaitsForeground checks that a foreground deletion also waits for the finalizers of
// dependents.
func TestWaitsForeground(t *testing.T) {
	world := worldOf(t, "cluster.yaml")
	subject, err := FromFacts(world, Name{Object: policies.Object{Resource: "widgets", Namespace: "served", Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	subject.Object["metadata"].(map[string]any)["uid"] = "widget-a"
	for cascade, want := range map[string][]string{"background": nil, "foreground": {"b"}} {
		options, err := question.FromFlags(cascade, -1, false)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		world.Read(func(f cluster.Facts) {
			for _, wait := range waitsFor(f, subject, nil, options) {
				names = append(names, wait.Names...)
			}
		})
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", cascade, diff)
		}
	}
}

// TestFromFactsTerminating checks since when an object is Terminating if the facts hold no record
// of it.
func TestFromFactsTerminating(t *testing.T) {
	since := "2026-01-01T00:00:00Z"
	object := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
			"name": name, "namespace": "demo", "finalizers": []any{"x.io/f"},
		}}}
	}
	old := object("old")
	old.Object["metadata"].(map[string]any)["deletionTimestamp"] = since
	world, err := cluster.FromObjects(cluster.Options{}, []*unstructured.Unstructured{old, object("new")})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"old": since, "new": nil} {
		s, err := FromFacts(world, Name{Object: policies.Object{Resource: "configmaps", Namespace: "demo", Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		if got := child(s.Object, "metadata")["deletionTimestamp"]; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// FromFacts is AllFromFacts for one object.
func FromFacts(world *cluster.World, name Name) (s Subject, err error) {
	s, err = fromFacts(world, typesOf(world), name)
	return s, err
}
