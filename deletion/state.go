package deletion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/policies"
)

// State is the cluster before a step.
type State struct {
	Targets []answer.Subject
	answer.Answer
	// Plan is without the deletion.
	Plan []answer.Step
	// Ends returns the objects deleted with the targets.
	Ends func(context.Context) (answer.Answer, error)

	unseen  []policies.Unseen // unreadable facts that the answer depends on
	refused []string          // commands against an immediate refusal
	before  string            // the step to take first if the deletion may hang and termguard cannot take it
}

// NewState returns the state for an answer. Hearsay says who named the objects if not the user: steps outside
// the targets are then advice.
func NewState(targets []answer.Subject, a answer.Answer, hearsay string) State {
	v := State{Targets: targets, Answer: a, unseen: slices.Clone(a.Unseen)}
	v.Plan = slices.DeleteFunc(slices.Clone(a.Plan), func(s answer.Step) bool { return s.Kind == answer.Delete })
	for _, item := range a.Items {
		v.unseen = append(v.unseen, unexplained(item.Unseen, item.Findings)...)
		for _, f := range item.Findings {
			switch hang := f.Kind == policies.KindHang; {
			case hang && f.Severity != policies.Info && f.EstimateSeconds == nil && v.Verdict == policies.AtRisk && item.TerminatingSince == "" && len(a.Plan) > 0:
				v.before = a.Plan[0].Do
			case !hang && f.Certainty == policies.Will:
				for _, s := range f.Steps {
					v.refused = append(v.refused, s.Command)
				}
			}
		}
	}
	for i := range v.Plan {
		if len(v.unseen) > 0 {
			v.Plan[i].Advice = cmp.Or(v.Plan[i].Advice, "relevant facts are unseen: "+v.unseen[0].String())
		} else if hearsay != "" {
			v.Plan[i].Hearsay = cmp.Or(v.Plan[i].Hearsay, hearsay)
		}
	}
	return v
}

func (v *State) missing() error { return errors.New(strings.Join(v.Missing, "\n")) }

func (v *State) terminating() bool {
	return !slices.ContainsFunc(v.Targets, func(s answer.Subject) bool { return !s.Terminating() })
}

// hangs distrusts symptoms after steps: the namespace controller renews its conditions only after a while.
func (v *State) hangs(steps int) bool {
	return v.Verdict == policies.Hangs && (!v.Symptoms() || steps == 0)
}

// unexplained leaves out resources whose APIService or definition a certain finding blames.
func unexplained(unseen []policies.Unseen, findings []policies.Finding) []policies.Unseen {
	return slices.DeleteFunc(slices.Clone(unseen), func(u policies.Unseen) bool {
		_, group, _ := strings.Cut(u.Resource, ".")
		return slices.ContainsFunc(findings, func(f policies.Finding) bool {
			return f.Certainty == policies.Will && f.Kind == policies.KindHang && slices.ContainsFunc(f.Objects, func(o policies.Object) bool {
				_, served, _ := strings.Cut(o.Name, ".")
				return o.Resource == "apiservices.apiregistration.k8s.io" && group != "" && served == group ||
					o.Resource == "customresourcedefinitions.apiextensions.k8s.io" && u.Resource != "" && o.Name == u.Resource
			})
		})
	})
}

// Outcome is the result of a run in JSON.
type Outcome struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Verdict    policies.Verdict `json:"verdict,omitempty"`
	Why        string           `json:"why,omitempty"`
	Done       []string         `json:"done"`
	Left       []string         `json:"left"`
	Questions  []Question       `json:"questions"`
	Yours      []Task           `json:"yours"`
}

// Task is a manual step.
type Task struct {
	Do      string `json:"do"`
	Command string `json:"command,omitempty"`
	// Why says why termguard does not take an executable step.
	Why string `json:"why,omitempty"`
}

func (r *Run) Outcome() Outcome {
	left := names(r.left)
	tasks := append([]Task{}, r.skipped...)
	if len(left) > 0 {
		tasks = r.tasks()
	}
	return Outcome{"termguard.dev/v1", "Deletion", r.last.Verdict, r.last.Why(), append([]string{}, r.done...), left, append([]Question{}, r.open...), tasks}
}

// Interrupted returns the error of an interrupted run. It makes no request, so that the program ends at once.
func (r *Run) Interrupted() error {
	if len(r.done) == 0 {
		return errors.New("interrupted: nothing was changed")
	}
	return fmt.Errorf("interrupted: done until then: %s; left: %s; run the same command again to go on", abridge(r.done), list(r.left))
}
