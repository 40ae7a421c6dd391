// Package deletion executes the plan of an answer: it requests consent to a step, takes it, waits for its effect
// and looks again, until nothing more may be done.
package deletion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/internal/background"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

var (
	// ErrLeft ends a run that leaves a target.
	ErrLeft = errors.New("objects are left")
	// ErrQuestion ends one that also leaves a question.
	ErrQuestion = errors.New("a step needs confirmation")

	errChanged = errors.New("the answer has changed")
)

// interval is the time between two requests about a change.
const interval = time.Second

type hands interface {
	note(ctx context.Context, plan []answer.Step) error
	weigh(ctx context.Context, s answer.Step, targets []answer.Subject) (operation, error)
	deletion(s answer.Subject, options map[string]any) (operation, error)
	do(ctx context.Context, s policies.Step) (results []string, err error)
	gone(ctx context.Context, s answer.Subject) (gone, recreated bool, err error)
	same(a, b policies.Object) bool
}

// Run is one deletion.
type Run struct {
	Hands hands
	// Look evaluates the targets anew.
	Look     func(context.Context) (State, error)
	Consents Consents
	// Ask prompts the user; nil without a terminal. An error means that the input ended.
	Ask func(context.Context, Question) (yes bool, err error)
	Say func(*page.Page)
	// Show writes the objects that are still Terminating.
	Show    func(answer.Answer)
	Options map[string]any
	// DryRun says that Hands send dry runs.
	DryRun bool
	// Patience bounds the wait for the effect of a step, and for the deletion.
	Patience time.Duration
	// Glance is the time between two evaluations.
	Glance time.Duration

	targets  []answer.Subject
	last     State
	done     []string
	left     []answer.Subject  // targets that exist
	declined map[string]bool   // commands without consent
	advised  map[string]string // why they are left to a person
	moot     bool              // a step has nothing left to do
	open     []Question
	skipped  []Task // steps that should have preceded the deletion
}

// Execute deletes the targets; the error is ErrLeft or ErrQuestion if a target stays.
func (r *Run) Execute(ctx context.Context) error {
	r.declined, r.advised = map[string]bool{}, map[string]string{}
	if err := r.look(ctx); err != nil {
		return err
	}
	if len(r.last.Targets) == 0 {
		return fmt.Errorf("nothing to delete: %w", r.last.missing())
	}
	r.Say(r.last.Page(false))
	r.targets, r.left = r.last.Targets, r.last.Targets
	for _, s := range r.targets {
		if s.UID() == "" {
			return fmt.Errorf("%s may not be read: without its UID it is not deleted, as another of its name might be", s)
		}
	}
	if r.DryRun {
		return r.rehearse(ctx)
	}
	return r.loop(ctx)
}

// look evaluates the policies anew, with an error for a recreated target.
func (r *Run) look(ctx context.Context) (err error) {
	if r.last, err = r.Look(ctx); err != nil {
		return err
	}
	if err := r.Hands.note(ctx, r.last.Plan); err != nil {
		return err
	}
	for _, now := range r.last.Targets {
		for _, s := range r.targets {
			if now.String() == s.String() && now.UID() != s.UID() {
				return errRecreated(s)
			}
		}
	}
	return nil
}

func (r *Run) loop(ctx context.Context) error {
	var until time.Time // of the wait for the deletion
	again := false      // looked once more, as others took the due steps
	for {
		if len(r.last.Targets) == 0 {
			return r.gone(ctx)
		}
		due, err := r.due(ctx)
		switch {
		case err != nil:
			return err
		case len(due) > 0:
			until, again = time.Time{}, false
			if err := r.step(ctx, due); err != nil {
				return err
			}
			continue
		case r.moot && !again:
			again = true
			if err := r.look(ctx); err != nil {
				return err
			}
			continue
		case !r.last.terminating():
			if err := r.delete(ctx); errors.Is(err, errChanged) {
				continue
			} else if err != nil {
				return err
			}
		}
		if until.IsZero() {
			if r.last.Verdict == policies.Hangs && !r.last.Symptoms() && len(r.done) == 0 {
				return r.stay()
			}
			until = time.Now().Add(r.Patience)
		}
		if err := r.wait(ctx, min(r.Glance, time.Until(until))); err != nil {
			return err
		}
		if len(r.left) > 0 {
			if err := r.look(ctx); err != nil {
				return err
			}
		}
		if len(r.left) == 0 || len(r.last.Targets) == 0 {
			return r.gone(ctx)
		}
		if r.last.hangs(len(r.done)) || time.Now().After(until) {
			if due, err = r.due(ctx); err != nil || len(due) > 0 {
				continue // which says it again
			}
			return r.stay()
		}
		ends, err := r.last.Ends(ctx)
		if err != nil {
			return err
		}
		r.Show(ends)
	}
}

func (r *Run) stay() error {
	r.verdict("still there: "+list(r.left)+": ", r.last)
	return r.end()
}

// gone checks the targets: a failed read may have another cause.
func (r *Run) gone(ctx context.Context) error {
	if err := r.wait(ctx, 0); err != nil {
		return err
	}
	if len(r.left) > 0 {
		return fmt.Errorf("%s: %w", list(r.left), r.last.missing())
	}
	r.line("deleted: %s", list(r.targets))
	return nil
}

// due returns the first steps that do the same, are of one class, and may be taken.
func (r *Run) due(ctx context.Context) (due []operation, err error) {
	r.moot = false
	if r.last.Symptoms() && len(r.done) > 0 {
		return nil, nil
	}
	for _, steps := range answer.Groups(r.last.Plan) {
		for _, s := range steps {
			if s.Action == nil || s.Advice != "" || r.declined[s.Command] {
				continue
			}
			if r.last.Verdict == policies.Refused && !slices.Contains(r.last.refused, s.Command) {
				continue // no other step helps while the deletion is refused
			}
			op, err := r.Hands.weigh(ctx, s, r.targets)
			if err != nil {
				return nil, err
			}
			switch {
			case op.Advice != "":
				r.advised[s.Command] = op.Advice
			case len(op.objects) == 0:
				r.moot = true
			case len(due) > 0 && due[0].class != op.class:
			default:
				due = append(due, op)
			}
		}
		if len(due) > 0 {
			return due, nil
		}
	}
	return nil, nil
}

// step takes steps that have consent, and waits for their effect. An answer is valid for its question alone.
func (r *Run) step(ctx context.Context, due []operation) error {
	question := questionOf(due)
	if r.Ask == nil || r.answered(question) {
		var p page.Page
		p.Blank()
		p.Line("%s", question.Do)
		question.commands(&p)
		r.Say(&p)
	}
	yes, prompted, err := r.consent(ctx, question)
	if err != nil {
		return err
	}
	if prompted { // the answer may have taken long
		if err := r.look(ctx); err != nil {
			return err
		}
	}
	if !yes {
		for _, s := range due {
			r.declined[s.Command] = true
		}
		return nil
	}
	if _, err := r.existing(ctx, r.targets); err != nil {
		return err
	}
	if prompted {
		now, err := r.due(ctx)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(questionOf(now), question) {
			r.item("  ", "the answer has changed meanwhile: nothing was done")
			return nil
		}
	}
	err = r.do(ctx, due, "", "  done: ", "%s")
	switch {
	case err == nil:
		return r.effect(ctx, due)
	case ctx.Err() != nil:
		return err
	}
	r.fails("  failed: ", err)
	if err := r.look(ctx); err != nil {
		return err
	}
	if len(r.last.unseen) > 0 || r.advises(due) {
		r.line("nothing more is done, as the next steps depend on it")
		return ErrLeft
	}
	r.item("  ", "no longer needed: another client did it, or the response was lost")
	return nil
}

// advises reports whether the plan still holds one of the steps. A workload that was scaled up has its effect
// once it runs: until then the plan has the same cause.
func (r *Run) advises(due []operation) bool {
	return slices.ContainsFunc(r.last.Plan, func(s answer.Step) bool {
		return slices.ContainsFunc(due, func(t operation) bool {
			return t.Command == s.Command || t.class == ClassRestore && t.Why == s.Why
		})
	})
}

// existing returns an error for a recreated target.
func (r *Run) existing(ctx context.Context, targets []answer.Subject) (left []answer.Subject, err error) {
	for _, s := range targets {
		gone, recreated, err := r.Hands.gone(ctx, s)
		switch {
		case err != nil:
			return nil, err
		case recreated:
			return nil, errRecreated(s)
		case !gone:
			left = append(left, s)
		}
	}
	return left, nil
}

func errRecreated(s answer.Subject) error {
	return fmt.Errorf("%s was recreated: the new one is left alone, and the run ends; run it again to delete that one", s)
}

// do takes steps until one fails. of precedes the results in the outcome; lead and format show them.
func (r *Run) do(ctx context.Context, due []operation, of, lead, format string) error {
	for _, s := range due {
		if s.class == ClassWait {
			continue // a second delete could change how the first goes on
		}
		lines, err := r.Hands.do(ctx, s.Step.Step)
		for _, line := range lines {
			r.done = append(r.done, of+line)
			if err == nil || ctx.Err() == nil {
				r.item(lead, format, line)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// effect waits until the plan holds none of the steps: later ones depend on it.
func (r *Run) effect(ctx context.Context, due []operation) error {
	for until := time.Now().Add(r.Patience); ; {
		if err := r.look(ctx); err != nil {
			return err
		}
		if !r.advises(due) {
			return nil
		}
		if time.Now().After(until) {
			r.item("  ", "no effect within %s: nothing more is done, as the next steps depend on it", r.Patience)
			return r.end()
		}
		if err := background.Pause(ctx, interval); err != nil {
			return err
		}
	}
}

var risks = map[policies.Verdict]string{
	policies.Hangs: "it hangs", policies.Refused: "it is refused", policies.AtRisk: "it may hang", policies.Unknown: "whether it hangs is unknown",
}

// delete deletes the targets if nothing is known to block them, or if the user insists; errChanged if the
// verdict changed meanwhile.
func (r *Run) delete(ctx context.Context) error {
	now := r.last
	hangs := now.Verdict == policies.Hangs || now.Verdict == policies.Refused
	if hangs {
		r.line("")
		r.verdict("not deleted: ", now)
		if r.Ask == nil || r.Consents.Yes {
			return r.end()
		}
	}
	due, err := r.deletions()
	if err != nil {
		return err
	}
	question := questionOf(due)
	for _, deletion := range due {
		question.Class = worse(question.Class, deletion.class)
	}
	question.Lost, question.Do = meaningOf(question.Class).Lost, "Delete "+list(r.targets)
	if risk := risks[now.Verdict]; risk != "" {
		question.Lost = risk + now.Because()
	}
	if hangs || now.before != "" {
		question.Do += " all the same"
	}
	question.Why = now.before
	yes, prompted, err := r.consent(ctx, question)
	if err != nil {
		return err
	}
	if !yes {
		r.line("nothing was deleted")
		return r.end()
	}
	if prompted { // the answer may have taken long
		if err := r.look(ctx); err != nil {
			return err
		}
		if r.last.Verdict != now.Verdict {
			r.item("  ", "the answer has changed meanwhile: nothing was deleted")
			return errChanged
		}
	}
	if now.Verdict != policies.Completes {
		r.skipped = r.tasks()
	}
	for _, s := range r.skipped {
		r.item("  skipped: ", "%s", s.Do)
	}
	return r.do(ctx, due, "deletion of ", "  ", "deletion requested: %s")
}

// deletions returns the steps that delete the targets: risks if another step should come first.
func (r *Run) deletions() (due []operation, err error) {
	for _, s := range r.targets {
		deletion, err := r.Hands.deletion(s, r.Options)
		if err != nil {
			return nil, err
		}
		if r.last.before != "" {
			deletion.class, deletion.objects[0].class = ClassRisk, ClassRisk
		}
		due = append(due, deletion)
	}
	return due, nil
}

func (r *Run) answered(q Question) bool { return r.Consents.cover(q, r.Hands.same) }

// consent leaves a question without an answer open.
func (r *Run) consent(ctx context.Context, q Question) (yes, prompted bool, err error) {
	if r.answered(q) {
		return true, false, nil
	}
	if r.Ask == nil {
		r.open = append(r.open, q)
		return false, false, nil
	}
	yes, err = r.Ask(ctx, q)
	return yes, true, err
}

func (r *Run) end() error {
	for _, q := range r.open {
		r.item("  ", "not allowed: %s", q.Do)
		r.item("    ", "to allow it: %s", strings.Join(q.Allow, " "))
	}
	for _, s := range r.last.Plan {
		if r.declined[s.Command] && r.Ask != nil {
			r.item("  declined: ", "%s", s.Do)
		}
	}
	for _, s := range r.tasks() {
		r.item("  ", "manual step: %s", s.Do)
		if s.Command != "" {
			var p page.Page
			p.Command(4, s.Command)
			r.Say(&p)
		}
		if s.Why != "" {
			r.item("    ", "termguard does not run it: %s", s.Why)
		}
	}
	if len(r.open) > 0 {
		return ErrQuestion
	}
	return ErrLeft
}

// tasks returns the plan's manual steps, which no consent makes termguard take.
func (r *Run) tasks() []Task {
	all := []Task{}
	for _, s := range r.last.Plan {
		if r.declined[s.Command] {
			continue
		}
		task := Task{Do: s.Do, Command: s.Command}
		if s.Action != nil {
			task.Why = cmp.Or(s.Advice, r.advised[s.Command])
		}
		if task.Why != "" && len(s.RemovedFinalizers()) > 0 && r.Consents.has(ClassStrip) {
			task.Why += "; --allow strip does not cover that"
		}
		all = append(all, task)
	}
	return all
}

func (r *Run) wait(ctx context.Context, while time.Duration) error {
	for until := time.Now().Add(while); ; {
		left, err := r.existing(ctx, r.left)
		if err != nil {
			return err
		}
		if r.left = left; len(left) == 0 || time.Now().After(until) {
			return nil
		}
		if err := background.Pause(ctx, interval); err != nil {
			return err
		}
	}
}

func (r *Run) rehearse(ctx context.Context) error {
	r.line("")
	r.line("dry run: nothing is changed")
	var failed bool
	rehearse := func(step policies.Step) error {
		lines, err := r.Hands.do(ctx, step)
		for _, line := range lines {
			r.item("  ", "%s: %s", line, step.Do)
		}
		if err != nil && ctx.Err() == nil {
			failed = true
			r.fails("  would fail: ", err)
			return nil
		}
		return err
	}
	for _, s := range r.last.Plan {
		if s.Action == nil || s.Advice != "" {
			r.item("  ", "manual step: %s", s.Do)
		} else if err := rehearse(s.Step); err != nil {
			return err
		}
	}
	due, err := r.deletions()
	if err != nil {
		return err
	}
	for _, deletion := range due {
		if err := rehearse(deletion.Step.Step); err != nil {
			return err
		}
	}
	if failed {
		return ErrLeft
	}
	return nil
}

func (r *Run) line(format string, args ...any) {
	var p page.Page
	p.Line(format, args...)
	r.Say(&p)
}

func (r *Run) item(lead, format string, args ...any) {
	var p page.Page
	p.Item(lead, format, args...)
	r.Say(&p)
}

func (r *Run) fails(lead string, err error) {
	for line := range strings.Lines(err.Error()) {
		r.item(lead, "%s", strings.TrimSuffix(line, "\n"))
		lead = "    "
	}
}

func (r *Run) verdict(before string, now State) {
	var p page.Page
	p.Verdict(before, string(now.Verdict), answer.ToneOf(now.Verdict), now.Because())
	r.Say(&p)
}

func list(subjects []answer.Subject) string { return abridge(names(subjects)) }

func names(subjects []answer.Subject) []string {
	names := []string{}
	for _, s := range subjects {
		names = append(names, s.String())
	}
	return names
}
