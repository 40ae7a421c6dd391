package deletion

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
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
		"Node":      {"others rely on it", deletes, policies.Remove, question.Nodes, false, false, ClassForce},
		"OwnNode":   {"it was named", deletes, policies.Remove, question.Nodes, true, false, ClassOwn},
		"Kind":      {"a step that says that it forces does, even of a target", deletes, policies.Force, widgets, true, false, ClassForce},
		"Grace":     {"grace period 0", policies.Action{Verb: policies.VerbDelete, GraceSeconds: &zero}, policies.Mend, question.Pods, true, false, ClassForce},
		"GraceLate": {"also of what is Terminating", policies.Action{Verb: policies.VerbDelete, GraceSeconds: &zero}, policies.Mend, question.Pods, true, true, ClassForce},
		"Finalize":  {"spec.finalizers of a namespace", policies.Action{Verb: policies.VerbFinalize}, policies.Remove, question.Namespaces, true, false, ClassForce},
		"Strip":     {"a finalizer is no less gone for being in a target", patches(strips), policies.Remove, widgets, true, false, ClassStrip},
		"More":      {"a patch that also changes something else is not only that", patches(`[{"op":"remove","path":"/metadata/finalizers/0"},{"op":"remove","path":"/spec"}]`), policies.Remove, widgets, false, false, ""},
		"Other":     {"an unknown patch has no class", patches(`[{"op":"remove","path":"/spec"}]`), policies.Mend, widgets, false, false, ""},
		"Serve":     {"a definition of others", patches(`[{"op":"replace","path":"/spec/versions/0/served","value":true}]`), policies.Mend, question.Definitions, false, false, ClassForce},
		"Up":        {"nothing is deleted", policies.Action{Verb: policies.VerbScale, Replicas: &one}, policies.Mend, widgets, false, false, ClassRestore},
		"Down":      {"that stops somebody's pods", policies.Action{Verb: policies.VerbScale, Replicas: &none}, policies.Mend, widgets, false, false, ""},
	} {
		got, err := ClassOf(policies.Step{Kind: tc.kind, Action: &tc.action}, tc.resource, tc.own, tc.leaving)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %s: got class %q, %v, want %q", name, tc.reason, got, err, tc.want)
		}
	}
}

// TestClassesPage compares the table in docs/delete.md with Classes, or writes it.
func TestClassesPage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| permission | a step that | what is lost | allowed by |\n|---|---|---|---|\n")
	for _, m := range Classes {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", m.Class, m.Does, m.Lost, m.Consent)
	}
	file, err := os.ReadFile("../docs/delete.md")
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- classes -->\n", "<!-- /classes -->"
	before, rest, _ := strings.Cut(string(file), begin)
	_, after, ok := strings.Cut(rest, end)
	want := before + begin + table.String() + end + after
	switch {
	case !ok:
		t.Fatal("docs/delete.md has no table of classes")
	case want == string(file):
	case os.Getenv("UPDATE_GOLDEN") == "":
		t.Fatal("the table in docs/delete.md is stale: run 'make docs'")
	default:
		err = os.WriteFile("../docs/delete.md", []byte(want), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
