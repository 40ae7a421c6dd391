package answer

import (
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// TestClasses checks the table: the gravest class that applies wins.
func TestClasses(t *testing.T) {
	zero, one := int64(0), int32(1)
	none := int32(0)
	deletes := policies.Action{Verb: policies.VerbDelete, Objects: []string{"x/y"}}
	patches := func(patch string) policies.Action {
		return policies.Action{Verb: policies.VerbPatch, Objects: []string{"x/y"}, Type: "json", Patch: []byte(patch)}
	}
	const strips = `[{"op":"test","path":"/metadata/finalizers/0","value":"a"},{"op":"remove","path":"/metadata/finalizers/0"}]`
	widgets := schema.GroupResource{Group: "acme.example.com", Resource: "widgets"}
	for name, tc := range map[string]struct {
		reason   string
		action   policies.Action
		kind     policies.StepKind
		resource schema.GroupResource
		own      bool
		leaving  bool
		want     Class
	}{
		"Foreign":   {"whose object it is decides", deletes, policies.Mend, widgets, false, false, ClassForeign},
		"Own":       {"a target, or in a target", deletes, policies.Mend, widgets, true, false, ClassOwn},
		"Leaving":   {"what is Terminating is only waited for", deletes, policies.Mend, widgets, false, true, ClassWait},
		"Node":      {"others rely on it", deletes, policies.Remove, nodes, false, false, ClassForce},
		"OwnNode":   {"it was named", deletes, policies.Remove, nodes, true, false, ClassOwn},
		"Kind":      {"a step that says that it forces does, even of a target", deletes, policies.Force, widgets, true, false, ClassForce},
		"Grace":     {"grace period 0", policies.Action{Verb: policies.VerbDelete, GraceSeconds: &zero}, policies.Mend, pods, true, false, ClassForce},
		"GraceLate": {"also of what is Terminating", policies.Action{Verb: policies.VerbDelete, GraceSeconds: &zero}, policies.Mend, pods, true, true, ClassForce},
		"Finalize":  {"spec.finalizers of a namespace", policies.Action{Verb: policies.VerbFinalize}, policies.Remove, namespaces, true, false, ClassForce},
		"Strip":     {"a finalizer is no less gone for being in a target", patches(strips), policies.Remove, widgets, true, false, ClassStrip},
		"More":      {"a patch that also changes something else is not only that", patches(`[{"op":"remove","path":"/metadata/finalizers/0"},{"op":"remove","path":"/spec"}]`), policies.Remove, widgets, false, false, ""},
		"Other":     {"an unknown patch has no class", patches(`[{"op":"remove","path":"/spec"}]`), policies.Mend, widgets, false, false, ""},
		"Serve":     {"a definition of others", patches(`[{"op":"replace","path":"/spec/versions/0/served","value":true}]`), policies.Mend, definitions, false, false, ClassForce},
		"Up":        {"nothing is deleted", policies.Action{Verb: policies.VerbScale, Replicas: &one}, policies.Mend, widgets, false, false, ClassRestore},
		"Down":      {"that stops somebody's pods", policies.Action{Verb: policies.VerbScale, Replicas: &none}, policies.Mend, widgets, false, false, ""},
	} {
		got, err := deed{Step: policies.Step{Kind: tc.kind, Action: &tc.action}, resource: tc.resource, own: tc.own, leaving: tc.leaving}.class()
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %s: got class %q, %v, want %q", name, tc.reason, got, err, tc.want)
		}
	}
}

// sampleStep is the effect of a step of a sample's plan on one object.
type sampleStep struct {
	deed
	finding policies.Finding
	file    string
}

// stepsOfSamples yields the steps of all findings about all samples.
func stepsOfSamples(t *testing.T) iter.Seq[sampleStep] {
	engine := newEngine(t)
	return func(yield func(sampleStep) bool) {
		for d := range samples(t) {
			report, err := ask(t.Context(), engine, d.world, d.subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			types := typesOf(d.world)
			for _, f := range report.Findings {
				for _, s := range f.Steps {
					if s.Action == nil {
						continue
					}
					for _, name := range objectsIn(s.Action) {
						resource := schema.ParseGroupResource(name.Type)
						if typ, err := types.Find(name.Type); err == nil {
							resource = typ.GroupResource()
						}
						if !yield(sampleStep{deed{Step: s, resource: resource}, f, d.file}) {
							return
						}
					}
				}
			}
		}
	}
}

// TestClassesOfPolicies checks that each action of each policy has a class, both on an object of
// another owner and on a target.
func TestClassesOfPolicies(t *testing.T) {
	race.Skip(t)
	seen := map[Class]int{}
	for in := range stepsOfSamples(t) {
		for _, own := range []bool{true, false} {
			in.deed.own = own
			class, err := in.deed.class()
			if err != nil {
				t.Errorf("%s: %s: %v", in.file, in.finding.Policy, err)
			}
			seen[class]++
		}
	}
	for _, m := range Classes {
		if seen[m.Class] == 0 && m.Class != ClassWait && m.Class != ClassRisk { // which are of targets
			t.Errorf("no fixture has an action of class %s", m.Class)
		}
	}
}

// TestClassesPage compares the table in docs/delete.md with Classes, or writes it.
func TestClassesPage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| class | a step that | what is lost | allowed by |\n|---|---|---|---|\n")
	for _, m := range Classes {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", m.Class, m.Does, m.Lost, m.Consent)
	}
	section(t, "../docs/delete.md", "classes", table.String())
}

// section compares the part of a page between <!-- part --> and <!-- /part --> with text, or writes
// it.
func section(t *testing.T, file, part, text string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+part+" -->\n", "<!-- /"+part+" -->"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no %q", file, begin)
	}
	want := before + begin + text + end + after
	if want == string(page) {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") == "" {
		t.Fatalf("the table in %s is stale: run 'make docs'", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}
