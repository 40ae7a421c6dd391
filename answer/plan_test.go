package answer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// TestPlanCauses checks that a plan has steps for causes only: symptoms and remarks are shown
// elsewhere.
func TestPlanCauses(t *testing.T) {
	step := func(do string) policies.Step { return policies.Step{Kind: policies.Mend, Do: do} }
	finding := func(policy string, severity policies.Severity, do string) policies.Finding {
		return policies.Finding{Policy: policy, Severity: severity, Objects: []policies.Object{{Resource: "namespaces", Name: "demo"}}, Steps: []policies.Step{step(do)}}
	}
	slow := finding("slow-termination", policies.Info, "Wait")
	stuck := finding("already-terminating", policies.High, "See what remains")
	stuck.Symptom = true
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

// TestCommands checks that one patch of many objects becomes one command that patches the same
// objects.
func TestCommands(t *testing.T) {
	const options = `--type=json -p '[{"op":"test","path":"/metadata/finalizers/0","value":"x.io/it'\''s"}]'`
	patch := func(namespace string, objects ...string) policies.Step {
		a := &policies.Action{
			Verb: policies.VerbPatch, Objects: objects, Namespace: namespace,
			Type: "json", Patch: json.RawMessage(`[{"op":"test","path":"/metadata/finalizers/0","value":"x.io/it's"}]`),
		}
		return policies.Step{Command: a.Command(), Action: a}
	}
	for name, tc := range map[string]struct {
		steps []policies.Step
		want  []string
	}{
		"One":        {[]policies.Step{patch("ns", "w.x.io/a")}, []string{"kubectl patch w.x.io/a -n ns " + options}},
		"Many":       {[]policies.Step{patch("ns", "w.x.io/a", "w.x.io/b"), patch("ns", "w.x.io/c")}, []string{"kubectl patch w.x.io/a w.x.io/b w.x.io/c -n ns " + options}},
		"Namespaces": {[]policies.Step{patch("one", "w.x.io/a"), patch("two", "w.x.io/b")}, []string{`for at in one/a two/b; do kubectl patch w.x.io/"${at#*/}" -n "${at%%/*}" ` + options + "; done"}},
		"Cluster":    {[]policies.Step{patch("", "w.x.io/a"), patch("", "w.x.io/b")}, []string{"kubectl patch w.x.io/a w.x.io/b " + options}},
		"Other":      {[]policies.Step{patch("ns", "w.x.io/a"), patch("ns", "v.x.io/a"), {Command: "kubectl get x | jq y"}}, []string{"kubectl patch w.x.io/a -n ns " + options, "kubectl patch v.x.io/a -n ns " + options, "kubectl get x | jq y"}},
	} {
		var steps []Step
		for _, step := range tc.steps {
			steps = append(steps, Step{Step: step})
		}
		if diff := cmp.Diff(tc.want, Commands(steps)); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", name, diff)
		}
	}
}

// The 403 objects with a finalizer are one step and one command.
func TestPlanOfMany(t *testing.T) {
	var steps []policies.Step
	for from := 0; from < 403; from += 10 {
		a := &policies.Action{Verb: policies.VerbPatch, Namespace: "demo", Type: "json", Patch: json.RawMessage("[]")}
		for i := from; i < min(from+10, 403); i++ {
			a.Objects = append(a.Objects, fmt.Sprintf("widgets.acme.example.com/w-%03d", i))
		}
		steps = append(steps, policies.Step{Kind: policies.Remove, Do: "Remove it", Command: a.Command(), Action: a})
	}
	var out page.Page
	addPlan(&out, plan([]policies.Finding{{Severity: policies.High, Steps: steps}}), whole)
	if n := strings.Count(out.String(), "\n"); n != 4 { // an empty line, a title, the step, the command
		t.Errorf("%d lines, want 4:\n%.2000s", n, out.String())
	}
	if !strings.Contains(out.String(), "/w-402 ") {
		t.Error("the plan lacks the last object")
	}
}

// TestCauses checks that an end is promised only if one thing blocks the deletion.
func TestCauses(t *testing.T) {
	finding := func(policy, message, do string) policies.Finding {
		return policies.Finding{Policy: policy, Message: message, Severity: policies.High, Certainty: policies.Will, Steps: []policies.Step{policies.Step{Kind: policies.Mend, Do: do}.WithPromise(policies.FinishesItself)}}
	}
	kiali := finding("orphaned-finalizer", "nobody removes it", "Bring back Kiali")
	api := finding("unavailable-apiservice", "an API is down", "Bring back Service a/b")
	symptom := finding("already-terminating", "the API server says so", "Look")
	symptom.Symptom = true
	may := func(f policies.Finding) policies.Finding { f.Certainty = policies.May; return f }
	for name, tc := range map[string]struct {
		reason   string
		findings []policies.Finding
		want     string
	}{
		"One":     {"then it does", []policies.Finding{kiali}, "; next: bring back Kiali, and the deletion finishes by itself"},
		"Two":     {"each is only a part", []policies.Finding{kiali, api}, "; 2 blockers; first: bring back Kiali"},
		"OneMay":  {"then it does, too", []policies.Finding{may(kiali)}, "; next: bring back Kiali, and the deletion finishes by itself"},
		"TwoMay":  {"each may be only a part", []policies.Finding{may(kiali), may(api)}, "; 2 possible blockers; first: bring back Kiali"},
		"Both":    {"what is certain is not all", []policies.Finding{kiali, may(api)}, "; 1 blocker, 1 possible; first: bring back Kiali"},
		"Symptom": {"what it says is no cause", []policies.Finding{kiali, symptom}, "; next: bring back Kiali, and the deletion finishes by itself"},
	} {
		if got := next(plan(tc.findings)); got != tc.want {
			t.Errorf("%s: %s: got %q, want %q", name, tc.reason, got, tc.want)
		}
	}
}

// TestByCause checks that one webhook and one API become two causes, each with its ways out below
// it, however many policies report them.
func TestByCause(t *testing.T) {
	finding := func(policy, message, resource, service string, more ...policies.Step) policies.Finding {
		return policies.Finding{
			Policy: policy, Message: message, Severity: policies.High, Certainty: policies.Will,
			Objects: []policies.Object{{Resource: "namespaces", Name: "shop"}, {Resource: resource, Name: "it"}},
			Cause:   policies.Cause{Object: &policies.Object{Resource: resource, Name: "it"}},
			Steps:   append([]policies.Step{{Kind: policies.Mend, Do: "Bring back Service " + service}}, more...),
		}
	}
	const hook, api = "validatingwebhookconfigurations.admissionregistration.k8s.io", "apiservices.apiregistration.k8s.io"
	drop := policies.Step{Kind: policies.Remove, Do: "Delete the configuration", Command: "kubectl delete it"}
	refused := finding("refused-request", "it is refused", hook, "sec/guard", drop)
	refused.Steps[0] = refused.Steps[0].WithPromise(policies.DeleteAgain)
	content := finding("failing-webhook-blocks-delete", "content is refused", hook, "sec/guard", drop)
	down := finding("unavailable-apiservice", "an API is down", api, "mon/adapter", policies.Step{Kind: policies.Remove, Do: "Delete the APIService", Command: "kubectl delete api"})
	down.Steps[0] = down.Steps[0].WithPromise(policies.FinishesItself)
	all := plan([]policies.Finding{refused, down, content})
	if got := next(all); got != "; 2 blockers; first: bring back Service sec/guard" {
		t.Errorf("end of the first line: %q", got)
	}
	var out page.Page
	addPlan(&out, all, folded)
	const want = `
what to do:
  1. Bring back Service sec/guard
     because: it is refused
  2. Delete the configuration
     $ kubectl delete it
  3. Bring back Service mon/adapter
     because: an API is down
  4. Delete the APIService
     $ kubectl delete api
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
