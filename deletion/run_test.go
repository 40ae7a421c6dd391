package deletion

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// fake is a cluster of one target, which is blocked until a step was taken.
type fake struct {
	class     Class
	uid       string // of the object that has the target's name now
	held      bool   // the step has not been taken
	deleted   bool
	useless   bool             // the step has no effect
	forbidden bool             // the step fails
	did       []string         // requests
	ask       func(f *fake)    // what happens while the person is asked
	verdict   policies.Verdict // while the step is not taken
}

func (f *fake) target() answer.Subject {
	metadata := map[string]any{"name": "demo", "uid": f.uid}
	if f.deleted {
		metadata["deletionTimestamp"] = "2026-11-29T00:00:00Z"
	}
	return answer.Subject{
		Type: answer.Type{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Kind: "Namespace"},
		Name: "demo", Object: map[string]any{"metadata": metadata},
	}
}

func (f *fake) there() bool { return f.uid != "" && (!f.deleted || f.held) }

func (f *fake) look(context.Context) (State, error) {
	a := answer.Answer{Verdict: policies.Completes}
	var targets []answer.Subject
	if f.there() {
		targets = []answer.Subject{f.target()}
		a.Items = []answer.Item{{Target: f.target().ID(), Verdict: policies.Completes}}
	}
	if f.held {
		a.Verdict = f.verdict
		a.Items = []answer.Item{{Target: f.target().ID(), Verdict: f.verdict, Findings: []policies.Finding{{Message: "the step holds it", Certainty: policies.Will}}}}
		a.Plan = []answer.Step{{Step: policies.Step{Do: "Take the step", Command: "kubectl step", Action: &policies.Action{}}, Why: "it holds", Certainty: policies.Will}}
	}
	v := NewState(targets, a, "")
	v.Ends = func(context.Context) (answer.Answer, error) { return answer.Answer{}, nil }
	return v, nil
}

func (f *fake) note(context.Context, []answer.Step) error { return nil }

func (f *fake) weigh(_ context.Context, s answer.Step, _ []answer.Subject) (operation, error) {
	return operation{Step: s, class: f.class, objects: []operand{{name: policies.Object{Resource: "pods", Namespace: "other", Name: "a"}, class: f.class, Whose: "another's", named: meaningOf(f.class).ByName}}}, nil
}

func (f *fake) deletion(s answer.Subject, _ map[string]any) (operation, error) {
	return operation{Step: answer.Step{Step: policies.Step{Kind: answer.Delete, Do: "Delete " + s.String(), Command: "kubectl delete", Action: &policies.Action{}}}, class: ClassOwn, objects: []operand{{name: policies.Object{Resource: "namespaces", Name: s.Name}, class: ClassOwn}}}, nil
}

func (f *fake) do(_ context.Context, s policies.Step) ([]string, error) {
	f.did = append(f.did, s.Command)
	switch {
	case s.Kind == answer.Delete:
		f.deleted = true
	case f.forbidden:
		return nil, errors.New("forbidden")
	case !f.useless:
		f.held = false
	}
	return []string{"it"}, nil
}

func (f *fake) gone(_ context.Context, s answer.Subject) (gone, recreated bool, err error) {
	return !f.there(), f.there() && f.uid != s.UID(), nil
}

func (f *fake) same(a, b policies.Object) bool { return a == b }

func TestExecute(t *testing.T) {
	const step, remove = "kubectl step", "kubectl delete"
	terminating := fake{class: ClassStrip, held: true, deleted: true, verdict: policies.Hangs}
	for name, tc := range map[string]struct {
		reason    string
		cluster   fake
		yes       bool
		allow     string
		answer    string // "" without a terminal
		did       []string
		err       error
		questions int
		left      bool
	}{
		"Quiet":            {reason: "nothing blocks it, and --yes confirms the target", yes: true, did: []string{remove}},
		"NoConsent":        {reason: "without a terminal and --yes the question stays open", err: ErrQuestion, questions: 1, left: true},
		"No":               {reason: "a no deletes nothing", answer: "no", err: ErrLeft, left: true},
		"Held":             {reason: "--yes does not answer for a finalizer", cluster: terminating, yes: true, err: ErrQuestion, questions: 1, left: true},
		"HeldAllowed":      {reason: "the flag does", cluster: terminating, yes: true, allow: "strip", did: []string{step}},
		"HeldAnswered":     {reason: "so does the user, in the only question", cluster: terminating, answer: "yes", did: []string{step}},
		"OtherObject":      {reason: "a flag that names another object allows nothing", cluster: fake{class: ClassForce, held: true, deleted: true, verdict: policies.Hangs}, yes: true, allow: "force=pods/other/b", err: ErrQuestion, questions: 1, left: true},
		"ThisObject":       {reason: "one that names the object does", cluster: fake{class: ClassForce, held: true, deleted: true, verdict: policies.Hangs}, yes: true, allow: "force=pods/other/a", did: []string{step}},
		"NotDeletedToHang": {reason: "--yes does not delete a target that is known to hang", cluster: fake{class: ClassStrip, held: true, verdict: policies.Hangs}, yes: true, err: ErrQuestion, questions: 1, left: true},
		"StepThenDelete":   {reason: "once the step is taken it is deleted", cluster: fake{class: ClassStrip, held: true, verdict: policies.Hangs}, yes: true, allow: "strip", did: []string{step, remove}},
		"NoEffect":         {reason: "a step without effect ends the run", cluster: fake{class: ClassStrip, held: true, verdict: policies.Hangs, useless: true}, yes: true, allow: "strip", did: []string{step}, err: ErrLeft, left: true},
		"Fails":            {reason: "as does one that fails", cluster: fake{class: ClassStrip, held: true, verdict: policies.Hangs, forbidden: true}, yes: true, allow: "strip", did: []string{step}, err: ErrLeft, left: true},
		"Mended":           {reason: "a cause that disappeared during the question needs no step", cluster: fake{class: ClassStrip, held: true, deleted: true, verdict: policies.Hangs, ask: func(f *fake) { f.held = false }}, answer: "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := tc.cluster
				f.uid = "1"
				var said strings.Builder
				r := Run{Hands: &f, Look: f.look, Patience: time.Minute, Glance: time.Second, Show: func(answer.Answer) {}, Say: func(p *page.Page) { said.WriteString(p.String()) }}
				var err error
				if tc.allow != "" {
					if r.Consents, err = ParseConsents([]string{tc.allow}); err != nil {
						t.Fatal(err)
					}
				}
				r.Consents.Yes = tc.yes
				if tc.answer != "" {
					r.Ask = func(context.Context, Question) (bool, error) {
						if f.ask != nil {
							f.ask(&f)
						}
						return tc.answer == "yes", nil
					}
				}
				err = r.Execute(t.Context())
				got := r.Outcome()
				if !errors.Is(err, tc.err) || !slices.Equal(f.did, tc.did) || len(got.Questions) != tc.questions || (len(got.Left) > 0) != tc.left {
					t.Errorf("%s: want error %v, requests %q, %d questions, left %v; got %v, %q, %+v\n%s", tc.reason, tc.err, tc.did, tc.questions, tc.left, err, f.did, got, &said)
				}
			})
		})
	}
}

// TestRecreated leaves an object alone that has the name of a target, and was created during the
// question.
func TestRecreated(t *testing.T) {
	f := fake{class: ClassStrip, held: true, deleted: true, verdict: policies.Hangs, uid: "1"}
	r := Run{Hands: &f, Look: f.look, Patience: time.Minute, Show: func(answer.Answer) {}, Say: func(*page.Page) {}, Ask: func(context.Context, Question) (bool, error) {
		f.uid = "2"
		return true, nil
	}}
	if err := r.Execute(t.Context()); err == nil || !strings.Contains(err.Error(), "was recreated") || len(f.did) > 0 {
		t.Errorf("got %v, %q", err, f.did)
	}
}
