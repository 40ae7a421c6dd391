package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
)

// deleting are the flags of the delete command, and what it did.
type deleting struct {
	checking
	yes, allowRemove, allowForce, dryRun bool
	patience                             time.Duration

	engine  *policies.Engine
	facts   cluster.Options
	options map[string]any
	hands   *check.Hands
	answers chan string // what is typed, a line each; closed at its end
	out     io.Writer
	errOut  io.Writer
	done    []string        // what was carried out
	left    []check.Subject // what is not gone yet
	tried   map[string]bool // commands that were carried out, or declined
	earlier []check.Step    // of all plans so far, what gives up or forces
}

func newDelete() *cobra.Command {
	var f deleting
	c := &cobra.Command{
		Use:   "delete TYPE/NAME... | -f FILE",
		Short: "Delete objects so that the deletion finishes: ask, show the plan, and carry it out step by step",
		Long: `Delete objects so that the deletion finishes: ask, show the plan, and carry it out step by step.

Each step is confirmed, and checked against the cluster before the next. What is
Terminating already is helped to its end. Objects that were made anew meanwhile are left
alone. It can be interrupted at any time, and run again: it goes on where it is.

With --yes nothing is asked: what restores is carried out, and the objects are deleted once
nothing is known to hold them. What gives something up, such as a finalizer that nobody
removes, needs --allow-remove, too. What forces is only offered with --allow-force, and
each such step is asked for, --yes or not.

Exit codes: 0 all is gone, 1 something is left, or would be, 2 error, or interrupted.`,
		Example: `  termguard delete namespaces/demo
  termguard delete ns/demo --yes --allow-remove
  termguard delete -f manifests/ --dry-run`,
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c.Context(), args, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
		ValidArgsFunction: f.complete,
	}
	flags := c.Flags()
	f.addShared(flags)
	flags.BoolVarP(&f.yes, "yes", "y", false, "ask nothing, but before each step that forces")
	flags.BoolVar(&f.dryRun, "dry-run", false, "have the API server check each step, and change nothing")
	flags.BoolVar(&f.allowRemove, "allow-remove", false, "with --yes: also give up what nobody is left for, such as finalizers without an owner")
	flags.BoolVar(&f.allowForce, "allow-force", false, "also offer the steps that force, at the price that each names")
	flags.DurationVar(&f.patience, "timeout", 5*time.Minute, "how long to wait for the effect of a step, and for the deletion")
	c.PreRunE = func(*cobra.Command, []string) error { return f.valid(c) }
	return c
}

const (
	// again is how often the cluster is asked anew for what was changed in it.
	again = time.Second
	// glance is how long a deletion goes on before it is asked what holds it now.
	glance = 10 * time.Second
)

func (d *deleting) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	err := d.begin(ctx, args, stdin, stdout, stderr)
	if err != nil && ctx.Err() != nil {
		return d.interrupted()
	}
	return err
}

func (d *deleting) begin(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	d.out, d.errOut, d.tried = stdout, stderr, map[string]bool{}
	if d.fromFiles() && len(args) > 0 {
		return fmt.Errorf("%q and --filename: name the objects, or the file", strings.Join(args, " "))
	}
	if slices.Contains(d.filenames, "-") && d.asks() {
		return errors.New("--filename=- leaves nobody to ask: add --yes, and leave out --allow-force")
	}
	if d.engine, d.facts, d.options, err = d.prepare(ctx, stderr); err != nil {
		return err
	}
	config, err := d.config()
	if err != nil {
		return err
	}
	names, together, err := d.targets(ctx, args, stdin)
	if err != nil {
		return err
	}
	if d.hands, err = check.NewHands(config); err != nil {
		return err
	}
	d.hands.DryRun = d.dryRun
	d.answers = make(chan string)
	if d.asks() {
		go d.listen(stdin)
	}
	return d.carry(ctx, names, together)
}

// asks tells whether anything may be asked.
func (d *deleting) asks() bool { return !d.dryRun && (!d.yes || d.allowForce) }

// targets are the objects that are deleted, and those that go with them.
func (d *deleting) targets(ctx context.Context, args []string, stdin io.Reader) ([]check.Name, check.Together, error) {
	together, err := d.meant(ctx, args, stdin)
	if err != nil || together.Of == "" {
		return together.Names, together, err
	}
	names, err := d.named(args) // one that takes others with it, as an Application of Argo CD
	for i := range names {
		if names[i].Namespace, err = d.within(); err != nil {
			return nil, together, err
		}
	}
	return names, together, err
}

// view is what the cluster is like now.
type view struct {
	report   answer
	verdict  policies.Verdict
	why      string
	plan     []check.Step
	subjects []check.Subject // of the targets, those that are there
	deleted  bool            // all of them are Terminating
	symptoms bool            // nothing is known but what their conditions say
	missing  []error
}

// look asks about the targets, and notes the objects of the plan.
func (d *deleting) look(ctx context.Context, names []check.Name, together check.Together) (v view, err error) {
	config, err := d.config()
	if err != nil {
		return v, err
	}
	// A step may have brought a type back.
	if d.hands.Types, err = check.Served(ctx, config); err != nil {
		return v, err
	}
	subjects, missing, world, err := d.find(ctx, check.Together{Names: together.Names, Types: &d.hands.Types}, d.facts, d.errOut)
	if err != nil {
		return v, err
	}
	if v.missing = missing; world == nil {
		return v, nil
	}
	v.deleted = true
	for _, s := range subjects {
		if together.Of == "" || slices.ContainsFunc(names, func(n check.Name) bool { return s.Is(n) }) {
			v.subjects = append(v.subjects, s)
			v.deleted = v.deleted && s.Terminating()
		}
	}
	if len(together.Names) == 1 {
		report, err := check.Ask(ctx, d.engine, world, subjects[0], d.options)
		if err != nil {
			return v, err
		}
		v.report, v.verdict, v.plan, v.why, v.symptoms = report, report.Verdict, report.Plan, report.Why(), report.Symptoms()
	} else {
		set, err := check.AskAll(ctx, d.engine, world, together, subjects, missing, d.options)
		if err != nil {
			return v, err
		}
		v.report, v.verdict, v.plan, v.why, v.symptoms = set, set.Verdict, set.Plan, set.Why(), set.Symptoms()
	}
	v.plan = slices.DeleteFunc(slices.Clone(v.plan), func(s check.Step) bool { return s.Kind == check.Delete }) // the report keeps its own
	for _, s := range v.plan {
		if s.Kind != policies.Mend && !slices.ContainsFunc(d.earlier, func(t check.Step) bool { return t.Command == s.Command }) {
			d.earlier = append(d.earlier, s)
		}
	}
	return v, d.hands.Note(ctx, v.plan)
}

// carry asks, carries out what is confirmed, deletes, and waits.
func (d *deleting) carry(ctx context.Context, names []check.Name, together check.Together) error {
	now, err := d.look(ctx, names, together)
	if err != nil {
		return err
	}
	if len(now.subjects) == 0 {
		return fmt.Errorf("nothing to delete: %w", errors.Join(now.missing...))
	}
	var text strings.Builder
	if err := now.report.Text(&text); err != nil {
		return err
	}
	d.say("%s", styleOf(d.out).Apply(text.String()))
	targets := now.subjects
	d.left = targets
	for _, s := range targets {
		if s.UID() == "" {
			return fmt.Errorf("%s may not be read: without its UID it is not deleted, as another of its name might be", s)
		}
	}
	if d.dryRun {
		return d.rehearse(ctx, now.plan, targets)
	}
	var until time.Time // when patience ends with what is deleted
	for {
		switch steps, err := d.next(ctx, now.plan); {
		case err != nil:
			return err
		case len(steps) > 0:
			if err := d.do(ctx, steps); err != nil {
				return err
			}
			now, err = d.effect(ctx, names, together, steps)
			if err != nil {
				return err
			}
			until = time.Time{}
			continue
		case now.deleted:
		default:
			if goes, err := d.delete(ctx, now, targets); err != nil || !goes {
				return err
			}
		}
		if until.IsZero() {
			until = time.Now().Add(d.patience)
		}
		if err := d.wait(ctx, min(glance, time.Until(until))); err != nil {
			return err
		}
		if len(d.left) > 0 {
			if now, err = d.look(ctx, names, together); err != nil {
				return err
			}
		}
		if len(d.left) == 0 || len(now.subjects) == 0 {
			d.say("gone: %s\n", listed(targets))
			return nil
		}
		// What the conditions of a namespace say may be older than what was done: its
		// controller looks again only after a while.
		stale := now.symptoms && len(d.done) > 0
		stuck := now.verdict == policies.Hangs && !stale || time.Now().After(until)
		switch {
		case !stuck || slices.ContainsFunc(now.plan, d.offered):
		case slices.ContainsFunc(d.earlier, d.offered): // what was restored does not end it
			d.say("\nstill there: %s: what was restored did not end it\n", listed(d.left))
			now.plan = d.earlier
		default:
			d.say("still there: %s: %s\n", listed(d.left), printable.Line(now.why))
			d.rest(now.plan)
			return errFound
		}
	}
}

// offered tells whether a step is one to carry out that was not tried yet.
func (d *deleting) offered(s check.Step) bool {
	if s.Action == nil || d.tried[s.Command] {
		return false
	}
	switch s.Kind {
	case policies.Remove:
		return !d.yes || d.allowRemove
	case policies.Force:
		return d.allowForce
	}
	return true
}

// next are the first steps of a plan that are to be carried out, and were confirmed: those
// that do the same to several objects are confirmed once.
func (d *deleting) next(ctx context.Context, plan []check.Step) ([]check.Step, error) {
	for _, steps := range check.Groups(plan) {
		steps = slices.DeleteFunc(slices.Clone(steps), func(s check.Step) bool { return !d.offered(s) })
		if len(steps) == 0 {
			continue
		}
		d.say("\n%s\n", printable.Line(steps[0].Do))
		for _, command := range check.Commands(steps) {
			d.say("  $ %s\n", printable.Line(command))
		}
		for _, s := range steps {
			d.tried[s.Command] = true
		}
		if yes, err := d.confirm(ctx, "carry it out?", steps[0].Kind == policies.Force); err != nil {
			return nil, err
		} else if yes {
			return steps, nil
		}
	}
	return nil, nil
}

func (d *deleting) do(ctx context.Context, steps []check.Step) error {
	for _, s := range steps {
		told, err := d.hands.Do(ctx, s.Step)
		d.done = append(d.done, told...)
		if err != nil && ctx.Err() != nil {
			return err
		}
		for _, line := range told {
			d.say("  done: %s\n", printable.Line(line))
		}
		if err != nil {
			d.say("  failed: %s\n", printable.Lines(err.Error())) // others may help
		}
	}
	return nil
}

// effect waits until none of the steps is asked for any more.
func (d *deleting) effect(ctx context.Context, names []check.Name, together check.Together, steps []check.Step) (view, error) {
	did := func(s check.Step) bool {
		return slices.ContainsFunc(steps, func(t check.Step) bool { return t.Command == s.Command })
	}
	until := time.Now().Add(d.patience)
	for {
		now, err := d.look(ctx, names, together)
		if err != nil {
			return now, err
		}
		if !slices.ContainsFunc(now.plan, did) {
			return now, nil
		}
		if time.Now().After(until) {
			d.say("  no effect within %s\n", d.patience)
			return now, nil
		}
		if err := pause(ctx, again); err != nil {
			return now, err
		}
	}
}

// delete deletes the targets, if nothing is known to hold them, or whoever is asked wants it.
func (d *deleting) delete(ctx context.Context, now view, targets []check.Subject) (goes bool, err error) {
	hangs := now.verdict == policies.Hangs || now.verdict == policies.Refused
	if hangs {
		d.say("\nnot deleted: %s\n", printable.Line(now.why))
		d.rest(now.plan)
		if d.yes {
			return false, errFound
		}
	}
	question := "delete " + listed(targets) + "?"
	if hangs {
		question = "delete " + listed(targets) + " all the same?"
	}
	d.say("\n")
	if yes, err := d.confirm(ctx, question, false); err != nil {
		return false, err
	} else if !yes {
		d.say("nothing was deleted\n")
		return false, errFound
	}
	for _, s := range targets {
		told, err := d.hands.Do(ctx, d.hands.Deletion(s, d.options))
		for _, line := range told {
			d.done = append(d.done, "deletion of "+line)
		}
		if err != nil {
			return false, err
		}
		for _, line := range told {
			d.say("  deletion asked for: %s\n", printable.Line(line))
		}
	}
	return true, nil
}

// rest tells what only a person can do, or what no flag allows.
func (d *deleting) rest(plan []check.Step) {
	for _, s := range plan {
		switch {
		case s.Action == nil:
			d.say("  yours to do: %s\n", printable.Line(s.Do))
			if s.Command != "" {
				d.say("    $ %s\n", printable.Line(s.Command))
			}
		case s.Kind == policies.Force && !d.allowForce:
			d.say("  with --allow-force: %s\n", printable.Line(s.Do))
		case s.Kind == policies.Remove && d.yes && !d.allowRemove:
			d.say("  with --allow-remove: %s\n", printable.Line(s.Do))
		}
	}
}

// wait returns when nothing is left, or after a while.
func (d *deleting) wait(ctx context.Context, long time.Duration) error {
	for until := time.Now().Add(long); ; {
		var still []check.Subject
		for _, s := range d.left {
			gone, anew, err := d.hands.Gone(ctx, s)
			if err != nil {
				return err
			}
			if anew {
				d.say("  %s was deleted and made anew: the new one is left alone\n", s)
			}
			if !gone {
				still = append(still, s)
			}
		}
		if d.left = still; len(still) == 0 || time.Now().After(until) {
			return nil
		}
		if err := pause(ctx, again); err != nil {
			return err
		}
	}
}

// rehearse has the API server check what would be done.
func (d *deleting) rehearse(ctx context.Context, plan []check.Step, targets []check.Subject) error {
	d.say("\ndry run: nothing is changed\n")
	var failed bool
	rehearsed := func(step policies.Step) error {
		told, err := d.hands.Do(ctx, step)
		for _, line := range told {
			d.say("  %s: %s\n", printable.Line(line), printable.Line(step.Do))
		}
		if err != nil && ctx.Err() == nil {
			failed = true
			d.say("  would fail: %s\n", printable.Lines(err.Error()))
			return nil
		}
		return err
	}
	for _, s := range plan {
		if s.Action == nil {
			d.say("  yours to do: %s\n", printable.Line(s.Do))
		} else if err := rehearsed(s.Step); err != nil {
			return err
		}
	}
	for _, s := range targets {
		if err := rehearsed(d.hands.Deletion(s, d.options)); err != nil {
			return err
		}
	}
	if failed {
		return errFound
	}
	return nil
}

// listen reads what is typed.
func (d *deleting) listen(stdin io.Reader) {
	defer close(d.answers)
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		d.answers <- lines.Text()
	}
}

// confirm asks, with --yes only what has to be asked anyway; only yes is yes. It ends at once
// when the command is interrupted.
func (d *deleting) confirm(ctx context.Context, question string, anyway bool) (bool, error) {
	if d.yes && !anyway {
		return true, nil
	}
	d.say("%s [y/N] ", printable.Line(question))
	select {
	case <-ctx.Done():
		d.say("\n")
		return false, ctx.Err()
	case line, more := <-d.answers:
		switch {
		case more:
			return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(line))), nil
		case d.yes:
			d.say("\n  nobody answers: left out\n")
			return false, nil
		}
		d.say("\n")
		return false, errors.New("nobody answers: nothing more was done (--yes asks nothing)")
	}
}

// interrupted tells what was done until then, and what is left. It asks nobody: it ends at once.
func (d *deleting) interrupted() error {
	if len(d.done) == 0 {
		return errors.New("interrupted: nothing was changed")
	}
	return fmt.Errorf("interrupted: done until then: %s; left: %s; run the same command again to go on", firstOf(d.done), listed(d.left))
}

func (d *deleting) say(format string, args ...any) { fmt.Fprintf(d.out, format, args...) }

func listed(subjects []check.Subject) string {
	var names []string
	for _, s := range subjects {
		names = append(names, s.String())
	}
	return firstOf(names)
}

// firstOf are the first few of several names.
func firstOf(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// pause waits, unless the command is interrupted.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
