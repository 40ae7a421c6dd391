package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/policies"
)

// TestPlanCauses holds a plan to causes: what is a symptom of them, or only good to know,
// is told elsewhere.
func TestPlanCauses(t *testing.T) {
	step := func(do string) policies.Step { return policies.Step{Kind: policies.Mend, Do: do} }
	finding := func(policy string, severity policies.Severity, do string) policies.Finding {
		return policies.Finding{Policy: policy, Severity: severity, Objects: []policies.Object{{Resource: "namespaces", Name: "demo"}}, Steps: []policies.Step{step(do)}}
	}
	slow := finding("slow-termination", policies.Info, "Wait")
	stuck := finding(symptom, policies.High, "See what remains")
	cause := finding("orphaned-finalizer", policies.High, "Bring it back")
	for name, tc := range map[string]struct {
		reason   string
		findings []policies.Finding
		want     []string
	}{
		"Cause":   {"Where a cause is known, its symptom asks for nothing.", []policies.Finding{stuck, cause}, []string{"Bring it back"}},
		"Symptom": {"Without one, the symptom is what there is.", []policies.Finding{stuck, slow}, []string{"See what remains"}},
		"Hangs":   {"Nobody waits for what hangs.", []policies.Finding{slow, cause}, []string{"Bring it back"}},
		"Slow":    {"What completes may be waited for.", []policies.Finding{slow}, []string{"Wait"}},
	} {
		var got []string
		for _, s := range plan(tc.findings) {
			got = append(got, s.Do)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s\n-want, +got:\n%s", name, tc.reason, diff)
		}
	}
}

// TestCommands holds that one patch of many objects is one command, which patches the same.
func TestCommands(t *testing.T) {
	const patch = `--type=json -p '[{"op":"test","path":"/metadata/finalizers/0","value":"x.io/it'\''s"}]'`
	step := func(command string) Step { return Step{Step: policies.Step{Do: "Remove it", Command: command}} }
	for name, tc := range map[string]struct {
		steps, want []string
	}{
		"One":        {[]string{"kubectl patch w.x.io/a -n ns " + patch}, []string{"kubectl patch w.x.io/a -n ns " + patch}},
		"Many":       {[]string{"kubectl patch w.x.io/a w.x.io/b -n ns " + patch, "kubectl patch w.x.io/c -n ns " + patch}, []string{"kubectl patch w.x.io/a w.x.io/b w.x.io/c -n ns " + patch}},
		"Namespaces": {[]string{"kubectl patch w.x.io/a -n one " + patch, "kubectl patch w.x.io/b -n two " + patch}, []string{`for at in one/a two/b; do kubectl patch w.x.io/"${at#*/}" -n "${at%%/*}" ` + patch + "; done"}},
		"Cluster":    {[]string{"kubectl patch w.x.io/a " + patch, "kubectl patch w.x.io/b " + patch}, []string{"kubectl patch w.x.io/a w.x.io/b " + patch}},
		"Other":      {[]string{"kubectl patch w.x.io/a -n ns " + patch, "kubectl patch v.x.io/a -n ns " + patch, "kubectl delete w.x.io/b", "kubectl get x | jq y"}, []string{"kubectl patch w.x.io/a -n ns " + patch, "kubectl patch v.x.io/a -n ns " + patch, "kubectl delete w.x.io/b", "kubectl get x | jq y"}},
	} {
		var steps []Step
		for _, command := range tc.steps {
			steps = append(steps, step(command))
		}
		if diff := cmp.Diff(tc.want, Commands(steps)); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", name, diff)
		}
	}
}

// 403 objects with a finalizer are one step, and one command.
func TestPlanOfMany(t *testing.T) {
	var steps []policies.Step
	for from := 0; from < 403; from += 10 {
		command := "kubectl patch"
		for i := from; i < min(from+10, 403); i++ {
			command += fmt.Sprintf(" widgets.acme.example.com/w-%03d", i)
		}
		steps = append(steps, policies.Step{Kind: policies.Remove, Do: "Remove it", Command: command + " -n demo --type=json -p '[]'"})
	}
	var out strings.Builder
	writePlan(&out, plan([]policies.Finding{{Severity: policies.High, Steps: steps}}))
	if n := strings.Count(out.String(), "\n"); n != 4 { // an empty line, a title, the step, the command
		t.Errorf("%d lines, want 4:\n%.2000s", n, out.String())
	}
	if !strings.Contains(out.String(), "/w-402 ") {
		t.Error("the last object is not in the plan")
	}
}

func FuzzWords(f *testing.F) {
	f.Add(`it's`)
	f.Add("a b\n$x")
	f.Fuzz(func(t *testing.T, text string) {
		got, simple := words(quote("x"+text) + " " + quote(text))
		want := []string{"x" + text, text}
		if diff := cmp.Diff(want, got); !simple || diff != "" {
			t.Errorf("simple %v: -want, +got:\n%s", simple, diff)
		}
	})
}
