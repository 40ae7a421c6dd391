package deletion

import (
	"errors"
	"fmt"

	"github.com/termguard/termguard/policies"
)

// Outcome is the result of a run, as JSON has it.
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

// Outcome returns the result so far.
func (r *Run) Outcome() Outcome {
	left := []string{}
	for _, s := range r.left {
		left = append(left, s.String())
	}
	tasks := append([]Task{}, r.skipped...)
	if len(left) > 0 {
		tasks = r.tasks()
	}
	return Outcome{"termguard.dev/v1", "Deletion", r.last.Verdict, r.last.Why(), append([]string{}, r.done...), left, append([]Question{}, r.open...), tasks}
}

// Interrupted returns the error of an interrupted run, with its steps and the remaining targets. It makes no
// request, so that the program ends at once.
func (r *Run) Interrupted() error {
	if len(r.done) == 0 {
		return errors.New("interrupted: nothing was changed")
	}
	return fmt.Errorf("interrupted: done until then: %s; left: %s; run the same command again to go on", abridge(r.done), list(r.left))
}
