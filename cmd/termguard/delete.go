package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/background"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/watch"
)

// deleting are the flags of the delete command, and what it did.
type deleting struct {
	checking
	yes, dryRun bool
	allow       []string
	// glance is how long a deletion goes on before it is asked what holds it now.
	glance time.Duration

	engine   *policies.Engine
	facts    cluster.Options
	options  map[string]any
	hands    *check.Hands
	consents consents
	answers  *os.File // the terminal at which somebody answers, nil where nobody is asked
	out      io.Writer
	errOut   io.Writer
	printer  *watch.Printer
	done     []string          // what was carried out
	left     []check.Subject   // what is not gone yet
	declined map[string]bool   // commands that were not allowed
	advised  map[string]string // why commands are left to a person
	moot     bool              // a step of the plan finds nothing to do any more
	open     []question        // what nobody was there to answer
	skipped  []yours           // what the plan had to be done before the deletion, and was not
	last     view
}

func newDelete() *cobra.Command {
	f := deleting{glance: 10 * time.Second}
	return f.command()
}

func (f *deleting) command() *cobra.Command {
	var classes strings.Builder
	for _, m := range check.Classes {
		fmt.Fprintf(&classes, "  %-8s %s\n", m.Class, m.Does)
	}
	c := &cobra.Command{
		Use:   "delete TYPE/NAME... | TYPE -l LABELS | TYPE --all | -f FILE",
		Short: "Delete objects so that it finishes: ask, and go step by step",
		Long: `Delete objects so that the deletion finishes: ask, show the plan, and carry it out step by step.

A plan is advice. Each step that termguard can carry out has a class:
` + classes.String() + `
On a terminal, each step is asked for. --yes answers for wait and own, and for nothing else.
Without a terminal, every other class needs --allow, and foreign and force name the object,
too, as does strip outside of what is deleted. No flag allows everything. Only steps of termguard's own policies are carried out, that
are certain, where nothing that matters is hidden, and that are still asked for right before.

A step that has no effect ends the run, and so does a target that was made anew. It can be
interrupted at any time, and run again: it goes on where it is.

Exit codes: 0 all is gone, 1 something is left, or would be, 2 error, or interrupted,
3 a question is open: -o json tells which, and the flag that answers it.`,
		Example: `  termguard delete namespaces/demo
  termguard delete ns/demo --yes
  termguard delete ns/demo --yes --allow strip
  termguard delete ns/demo --yes --allow force=nodes/worker-5
  termguard delete -f manifests/ --dry-run`,
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c.Context(), args, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
		ValidArgsFunction: f.complete,
	}
	flags := c.Flags()
	f.addShared(flags)
	flags.BoolVarP(&f.yes, "yes", "y", false, "ask nothing about the objects that you name, and what is in the namespaces that you name")
	flags.StringArrayVar(&f.allow, "allow", nil, "also allow steps of this `CLASS`: risk, restore, strip, strip=TYPE/NAMESPACE/NAME of what is outside, foreign=TYPE/NAMESPACE/NAME, force=TYPE/NAME (may be repeated)")
	flags.BoolVar(&f.all, "all", false, "all objects of TYPE in the namespace")
	flags.BoolVar(&f.dryRun, "dry-run", false, "have the API server check each step, and change nothing")
	flags.StringVarP(&f.output, "output", "o", "text", "text, or json: what was done and left, and the questions that are open; the text then goes to stderr")
	flags.DurationVar(&f.patience, "timeout", 5*time.Minute, "how long to wait for the effect of a step, and for the deletion")
	c.MarkFlagsMutuallyExclusive("all-namespaces", "namespace")
	c.MarkFlagsMutuallyExclusive("all", "selector")
	completions(c, &f.target, "text", "json")
	c.PreRunE = func(*cobra.Command, []string) error { return cmp.Or(f.valid(c), f.bounded()) }
	return c
}

// bounded is an error where everything of a type would be deleted, and --all does not say so.
func (d *deleting) bounded() error {
	if d.everywhere && !d.all && d.labels == "" && d.fields == "" {
		return errors.New("--all-namespaces selects every object of the type in the cluster: name some, select them (-l), or say --all")
	}
	return nil
}

// again is how often the cluster is asked anew for what was changed in it.
const again = time.Second

func (d *deleting) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	err := d.begin(ctx, args, stdin, stdout, stderr)
	if err != nil && ctx.Err() != nil {
		return d.interrupted()
	}
	return err
}

func (d *deleting) begin(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	d.out, d.errOut, d.declined = stdout, stderr, map[string]bool{}
	d.advised = map[string]string{}
	switch {
	case d.output == "json":
		d.out = stderr
		defer func() {
			if d.hands != nil { // else nothing was asked
				err = cmp.Or(err, d.write(stdout))
			}
		}()
	case d.output != "text":
		return fmt.Errorf("unknown output %q: use text or json", d.output)
	}
	d.printer = printerOn(d.out)
	if d.fromFiles() && len(args) > 0 {
		return fmt.Errorf("%q and --filename: name the objects, or the file", strings.Join(args, " "))
	}
	if slices.Contains(d.filenames, "-") && !d.yes && !d.dryRun {
		return errors.New("--filename=- takes standard input, so nobody can be asked: add --yes, and --allow for what else is allowed")
	}
	if d.consents, err = readConsents(d.allow); err != nil {
		return err
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
	for _, n := range names {
		if d.fromFiles() && d.namespace != "" && n.Namespace != d.namespace {
			return fmt.Errorf("%s is not in namespace %s, as --namespace says: drop that, or correct it", n, d.namespace)
		}
	}
	if d.hands, err = check.NewHands(config); err != nil {
		return err
	}
	d.hands.DryRun = d.dryRun
	if terminal(stdin) && !d.dryRun {
		d.answers, _ = stdin.(*os.File)
	}
	return d.carry(ctx, names, together)
}

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
	unseen   []string // what the answer depends on and could not be seen
	first    []string // commands of steps about what refuses the deletion at once
	before   string   // what is to be done first, where the deletion may hang and nobody does that
	// ends asks about all that is being deleted with the targets.
	ends func(context.Context) (check.Terminating, error)
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
	endings := check.Endings{Most: maxWatched}
	facts := d.facts
	facts.Arrived = endings.Arrived
	subjects, missing, world, err := d.find(ctx, check.Together{Names: together.Names, Types: &d.hands.Types}, facts, d.errOut)
	if err != nil {
		return v, err
	}
	if v.missing = missing; world == nil {
		return v, nil
	}
	v.ends = func(ctx context.Context) (check.Terminating, error) {
		return endings.Ask(ctx, config, d.engine, world, v.subjects, d.options)
	}
	v.deleted = true
	var items []check.Report
	for _, s := range subjects {
		if together.Of == "" || slices.ContainsFunc(names, func(n check.Name) bool { return s.Is(n) }) {
			v.subjects = append(v.subjects, s)
			v.deleted = v.deleted && s.Terminating()
		}
	}
	if len(together.Names) == 1 {
		report, err := check.Ask(ctx, d.engine, world, subjects[0], d.options)
		if err == nil {
			err = report.Foresee(ctx, d.engine, world)
		}
		if err != nil {
			return v, err
		}
		v.report, v.verdict, v.plan, v.why, v.symptoms = report, report.Verdict, report.Plan, report.Why(), report.Symptoms()
		items = []check.Report{report}
	} else {
		set, err := check.AskAll(ctx, d.engine, world, together, subjects, missing, d.options)
		if err == nil {
			err = set.Foresee(ctx, d.engine, world)
		}
		if err != nil {
			return v, err
		}
		v.report, v.verdict, v.plan, v.why, v.symptoms = set, set.Verdict, set.Plan, set.Why(), set.Symptoms()
		v.unseen, items = set.Unseen, set.Items
	}
	for _, r := range items {
		v.unseen = append(v.unseen, unexplained(r.Unseen, r.Findings)...)
		for _, f := range r.Findings {
			switch hang := f.Kind == policies.KindHang; {
			case hang && f.Severity != policies.Info && f.EstimateSeconds == nil && v.verdict == policies.AtRisk && r.TerminatingSince == "" && len(v.plan) > 0:
				v.before = v.plan[0].Do
			case !hang && f.Certainty == policies.Will:
				for _, s := range f.Steps {
					v.first = append(v.first, s.Command)
				}
			}
		}
	}
	v.plan = slices.DeleteFunc(slices.Clone(v.plan), func(s check.Step) bool { return s.Kind == check.Delete }) // the report keeps its own
	for i := range v.plan {
		switch {
		case len(v.unseen) > 0:
			v.plan[i].Advice = cmp.Or(v.plan[i].Advice, "not all that matters can be seen: "+v.unseen[0])
		case together.Of != "":
			v.plan[i].Hearsay = cmp.Or(v.plan[i].Hearsay, "the inventory in the status of an object")
		case d.told != "":
			v.plan[i].Hearsay = cmp.Or(v.plan[i].Hearsay, d.told)
		}
	}
	return v, d.hands.Note(ctx, v.plan)
}

// unexplained are what is unseen but for what a finding that is certain tells of: resources of an
// APIService that does not answer, or of a definition whose objects cannot be converted.
func unexplained(unseen []string, findings []policies.Finding) []string {
	return slices.DeleteFunc(slices.Clone(unseen), func(item string) bool {
		resource, _, _ := strings.Cut(item, ": ")
		_, group, _ := strings.Cut(resource, ".")
		return slices.ContainsFunc(findings, func(f policies.Finding) bool {
			return f.Certainty == policies.Will && f.Kind == policies.KindHang && slices.ContainsFunc(f.Objects, func(o policies.Object) bool {
				_, served, _ := strings.Cut(o.Name, ".")
				return o.Resource == "apiservices.apiregistration.k8s.io" && group != "" && served == group ||
					o.Resource == "customresourcedefinitions.apiextensions.k8s.io" && o.Name == resource
			})
		})
	})
}

// carry asks, carries out what is allowed, deletes, and waits.
func (d *deleting) carry(ctx context.Context, names []check.Name, together check.Together) error {
	var targets []check.Subject
	look := func() (err error) {
		if d.last, err = d.look(ctx, names, together); err != nil {
			return err
		}
		for _, now := range d.last.subjects {
			for _, s := range targets {
				if now.String() == s.String() && now.UID() != s.UID() {
					return madeAnew(s)
				}
			}
		}
		return nil
	}
	if err := look(); err != nil {
		return err
	}
	if len(d.last.subjects) == 0 {
		return fmt.Errorf("nothing to delete: %w", errors.Join(d.last.missing...))
	}
	var text strings.Builder
	if err := d.last.report.Text(&text); err != nil {
		return err
	}
	d.say("%s", text.String())
	targets = d.last.subjects
	d.left = targets
	for _, s := range targets {
		if s.UID() == "" {
			return fmt.Errorf("%s may not be read: without its UID it is not deleted, as another of its name might be", s)
		}
	}
	if err := d.along(ctx, targets); err != nil {
		return err
	}
	if d.dryRun {
		return d.rehearse(ctx, d.last.plan, targets)
	}
	var until time.Time // when patience ends with what is deleted
	anew := false       // the cluster was looked at once more, as others did what was due
	for {
		if len(d.last.subjects) == 0 {
			return d.gone(ctx, targets)
		}
		due, err := d.due(ctx, targets)
		if err != nil {
			return err
		}
		if len(due) == 0 && d.moot && !anew {
			anew = true
			if err := look(); err != nil {
				return err
			}
			continue
		}
		if len(due) > 0 {
			if err := d.step(ctx, due, targets, look); err != nil {
				return err
			}
			until, anew = time.Time{}, false
			continue
		}
		if !d.last.deleted {
			switch err := d.delete(ctx, targets, look); {
			case errors.Is(err, errChanged):
				continue
			case err != nil:
				return err
			}
		}
		if until.IsZero() && d.stuck() && !d.last.symptoms && len(d.done) == 0 {
			d.still()
			return d.ended()
		}
		if until.IsZero() {
			until = time.Now().Add(d.patience)
		}
		if err := d.wait(ctx, min(d.glance, time.Until(until))); err != nil {
			return err
		}
		if len(d.left) > 0 {
			if err := look(); err != nil {
				return err
			}
		}
		if len(d.left) == 0 || len(d.last.subjects) == 0 {
			return d.gone(ctx, targets)
		}
		if d.stuck() || time.Now().After(until) {
			if due, err = d.due(ctx, targets); err != nil || len(due) > 0 {
				continue // which says it again
			}
			d.still()
			return d.ended()
		}
		ends, err := d.last.ends(ctx)
		if err != nil {
			return err
		}
		d.printer.Print(ends)
	}
}

// along says what becomes of the volumes behind what is deleted.
func (d *deleting) along(ctx context.Context, targets []check.Subject) error {
	if !slices.ContainsFunc(targets, func(s check.Subject) bool {
		return slices.Contains([]string{"namespaces", "persistentvolumeclaims"}, s.Type.Resource)
	}) {
		return nil
	}
	lines, err := d.hands.Along(ctx, targets)
	if err != nil && ctx.Err() == nil {
		lines, err = append(lines, "not seen, of what becomes of volumes: "+err.Error()), nil
	}
	for _, line := range lines[:min(len(lines), 10)] {
		d.say("  %s\n", printable.Line(line))
	}
	if more := len(lines) - 10; more > 0 {
		d.say("  and %d more volumes\n", more)
	}
	return err
}

// still says what is left, and why.
func (d *deleting) still() {
	d.say("still there: %s: %s\n", printable.Line(listed(d.left)), printable.Line(d.last.why))
}

// gone says that the targets are gone, if they are: that none could be read may have another
// cause.
func (d *deleting) gone(ctx context.Context, targets []check.Subject) error {
	if err := d.wait(ctx, 0); err != nil {
		return err
	}
	if len(d.left) > 0 {
		return fmt.Errorf("%s: %w", listed(d.left), errors.Join(d.last.missing...))
	}
	d.say("gone: %s\n", printable.Line(listed(targets)))
	return nil
}

// stuck tells whether what is deleted is known to hang. What the conditions of a namespace
// say may be older than what was done: its controller looks again only after a while.
func (d *deleting) stuck() bool {
	return d.last.verdict == policies.Hangs && (!d.last.symptoms || len(d.done) == 0)
}

// due are the first steps of the plan that do the same, are of one class, and may be
// carried out.
func (d *deleting) due(ctx context.Context, targets []check.Subject) (due []check.Deed, err error) {
	d.moot = false
	if d.last.symptoms && len(d.done) > 0 {
		return nil, nil
	}
	for _, steps := range check.Groups(d.last.plan) {
		for _, s := range steps {
			if s.Action == nil || s.Advice != "" || d.declined[s.Command] {
				continue
			}
			if d.last.verdict == policies.Refused && !slices.Contains(d.last.first, s.Command) {
				continue // nothing else is of use as long as the deletion is refused
			}
			weighed, err := d.hands.Weigh(ctx, s, targets)
			if err != nil {
				return nil, err
			}
			switch {
			case weighed.Advice != "":
				d.advised[s.Command] = weighed.Advice // rest tells
			case len(weighed.Objects) == 0:
				d.moot = true
			case len(due) > 0 && due[0].Class != weighed.Class:
			default:
				due = append(due, weighed)
			}
		}
		if len(due) > 0 {
			return due, nil
		}
	}
	return nil, nil
}

// step carries steps out, if that is allowed, and waits for their effect. After a question
// it looks again: who has answered has answered that question, and no other.
func (d *deleting) step(ctx context.Context, due []check.Deed, targets []check.Subject, look func() error) error {
	asked := questionOf(due)
	if d.answers == nil || d.flagged(asked) { // else the question says it
		d.say("\n%s\n%s", printable.Line(asked.Do), asked.commands())
	}
	yes, answered, err := d.allowed(ctx, asked)
	if err != nil {
		return err
	}
	if !yes {
		for _, s := range due {
			d.declined[s.Command] = true
		}
		if answered {
			return look() // what comes next may be old by now
		}
		return nil
	}
	if answered {
		if err := look(); err != nil {
			return err
		}
		if err := d.same(ctx, targets); err != nil {
			return err
		}
		now, err := d.due(ctx, targets)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(questionOf(now), asked) {
			d.say("  the answer has changed meanwhile: nothing was done\n")
			return nil
		}
	} else if err := d.same(ctx, targets); err != nil {
		return err
	}
	failed, err := d.do(ctx, due)
	if err != nil {
		return err
	}
	if failed {
		if err := look(); err != nil {
			return err
		}
		if len(d.last.unseen) > 0 || d.asks(due) {
			d.say("nothing more is done, as the next steps depend on it\n")
			return errFound
		}
		d.say("  no longer needed: somebody else did it, or the answer was lost\n")
		return nil
	}
	return d.effect(ctx, due, look)
}

// asks tells whether the plan still holds one of the steps. What was scaled up has its effect
// once it runs: until then the plan tells the same cause.
func (d *deleting) asks(due []check.Deed) bool {
	return slices.ContainsFunc(d.last.plan, func(s check.Step) bool {
		return slices.ContainsFunc(due, func(t check.Deed) bool {
			return t.Command == s.Command || t.Class == check.ClassRestore && t.Why == s.Why
		})
	})
}

// same is an error where a target is not the object any more that was asked about: what is
// there now is somebody else's.
func (d *deleting) same(ctx context.Context, targets []check.Subject) error {
	for _, s := range targets {
		if _, anew, err := d.hands.Gone(ctx, s); err != nil {
			return err
		} else if anew {
			return madeAnew(s)
		}
	}
	return nil
}

func madeAnew(s check.Subject) error {
	return fmt.Errorf("%s was deleted and created again: the new one is left alone, and the run ends; run it again for that one", s)
}

// do carries steps out, until one fails.
func (d *deleting) do(ctx context.Context, due []check.Deed) (failed bool, err error) {
	for _, s := range due {
		if s.Class == check.ClassWait {
			continue // to delete it again could change how it goes
		}
		told, err := d.hands.Do(ctx, s.Step.Step)
		d.done = append(d.done, told...)
		if err != nil && ctx.Err() != nil {
			return false, err
		}
		for _, line := range told {
			d.say("  done: %s\n", printable.Line(line))
		}
		if err != nil {
			d.say("  failed: %s\n", printable.Lines(err.Error()))
			return true, nil
		}
	}
	return false, nil
}

// effect waits until none of the steps is asked for any more: what comes next was planned
// for after them.
func (d *deleting) effect(ctx context.Context, due []check.Deed, look func() error) error {
	for until := time.Now().Add(d.patience); ; {
		if err := look(); err != nil {
			return err
		}
		if !d.asks(due) {
			return nil
		}
		if time.Now().After(until) {
			d.say("  no effect within %s: nothing more is done, as the next steps depend on it\n", d.patience)
			return d.ended()
		}
		if err := background.Pause(ctx, again); err != nil {
			return err
		}
	}
}

// errChanged tells that the answer is another than the one that was shown.
var errChanged = errors.New("the answer has changed")

// risks are what may become of a deletion, by the verdict.
var risks = map[policies.Verdict]string{
	policies.Hangs: "it hangs", policies.Refused: "it is refused", policies.AtRisk: "it may hang", policies.Unknown: "whether it hangs is unknown",
}

// delete deletes the targets, if nothing is known to hold them, or whoever is asked wants it.
func (d *deleting) delete(ctx context.Context, targets []check.Subject, look func() error) error {
	now := d.last
	hangs := now.verdict == policies.Hangs || now.verdict == policies.Refused
	if hangs {
		d.say("\nnot deleted: %s\n", printable.Line(now.why))
		if d.answers == nil || d.yes {
			return d.ended()
		}
	}
	var due []check.Deed
	for _, s := range targets {
		deletion, err := d.hands.Deletion(s, d.options)
		if err != nil {
			return err
		}
		due = append(due, deletion)
	}
	if now.before != "" {
		for i := range due {
			due[i].Class, due[i].Objects[0].Class = check.ClassRisk, check.ClassRisk
		}
	}
	asked := questionOf(due)
	for _, deletion := range due {
		asked.Class = check.Worse(asked.Class, deletion.Class)
	}
	asked.Lost, asked.Do = check.MeaningOf(asked.Class).Lost, "Delete "+listed(targets)
	if risk := risks[now.verdict]; risk != "" {
		asked.Lost = risk + strings.TrimPrefix(now.why, string(now.verdict))
	}
	if hangs || now.before != "" {
		asked.Do += " all the same"
	}
	asked.Why = now.before
	yes, answered, err := d.allowed(ctx, asked)
	if err != nil {
		return err
	}
	if !yes {
		d.say("nothing was deleted\n")
		return d.ended()
	}
	if answered { // which may have taken long
		if err := look(); err != nil {
			return err
		}
		if d.last.verdict != now.verdict {
			d.say("  the answer has changed meanwhile: nothing was deleted\n")
			return errChanged
		}
	}
	if now.verdict != policies.Completes {
		d.skipped = d.yours()
	}
	for _, s := range d.skipped {
		d.say("  skipped: %s\n", printable.Line(s.Do))
	}
	for _, deletion := range due {
		if deletion.Class == check.ClassWait {
			continue // to delete it again could change how it goes
		}
		told, err := d.hands.Do(ctx, deletion.Step.Step)
		for _, line := range told {
			d.done = append(d.done, "deletion of "+line)
		}
		if err != nil {
			return err
		}
		for _, line := range told {
			d.say("  deletion asked for: %s\n", printable.Line(line))
		}
	}
	return nil
}

// ended ends a run that leaves something: with the question that is open, if there is one.
func (d *deleting) ended() error {
	d.rest()
	if len(d.open) > 0 {
		return errQuestion
	}
	return errFound
}

// rest tells what is left to a person, and what was not allowed.
func (d *deleting) rest() {
	for _, q := range d.open {
		d.say("  not allowed: %s\n    to allow it: %s\n", printable.Line(q.Do), printable.Line(strings.Join(q.Allow, " ")))
	}
	for _, s := range d.last.plan {
		if d.declined[s.Command] && d.answers != nil {
			d.say("  declined: %s\n", printable.Line(s.Do))
		}
	}
	for _, s := range d.yours() {
		d.say("  yours to do: %s\n", printable.Line(s.Do))
		if s.Command != "" {
			d.say("    $ %s\n", printable.Line(s.Command))
		}
		if s.Why != "" {
			d.say("    termguard leaves it to you: %s\n", printable.Line(s.Why))
		}
	}
}

// yours is a step that is left to a person, as JSON has it.
type yours struct {
	Do      string `json:"do"`
	Command string `json:"command,omitempty"`
	// Why tells why termguard does not carry it out, although it could.
	Why string `json:"why,omitempty"`
}

// yours are the steps of the plan that no answer has termguard carry out.
func (d *deleting) yours() []yours {
	all := []yours{}
	for _, s := range d.last.plan {
		if d.declined[s.Command] {
			continue
		}
		step := yours{Do: s.Do, Command: s.Command}
		if s.Action != nil {
			step.Why = cmp.Or(s.Advice, d.advised[s.Command])
		}
		if step.Why != "" && len(s.Strips()) > 0 && d.consents.has(check.ClassStrip) {
			step.Why += "; --allow strip does not cover that"
		}
		all = append(all, step)
	}
	return all
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
				return madeAnew(s)
			}
			if !gone {
				still = append(still, s)
			}
		}
		if d.left = still; len(still) == 0 || time.Now().After(until) {
			return nil
		}
		if err := background.Pause(ctx, again); err != nil {
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
		if s.Action == nil || s.Advice != "" {
			d.say("  yours to do: %s\n", printable.Line(s.Do))
		} else if err := rehearsed(s.Step); err != nil {
			return err
		}
	}
	for _, s := range targets {
		deletion, err := d.hands.Deletion(s, d.options)
		if err != nil {
			return err
		}
		if err := rehearsed(deletion.Step.Step); err != nil {
			return err
		}
	}
	if failed {
		return errFound
	}
	return nil
}

// interrupted tells what was done until then, and what is left. It asks nobody: it ends at once.
func (d *deleting) interrupted() error {
	if len(d.done) == 0 {
		return errors.New("interrupted: nothing was changed")
	}
	return fmt.Errorf("interrupted: done until then: %s; left: %s; run the same command again to go on", firstOf(d.done), listed(d.left))
}

// say writes for a person, wrapped as their terminal is wide. An answer is typed behind a
// question, on the same line.
func (d *deleting) say(format string, args ...any) {
	text := styleOf(d.out).Apply(fmt.Sprintf(format, args...))
	if strings.HasSuffix(format, " ") {
		text = strings.TrimRight(text, " \n") + " "
	}
	io.WriteString(d.out, text)
}

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
