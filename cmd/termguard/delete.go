package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/deletion"
	"github.com/termguard/termguard/page"
)

type deleteFlags struct {
	checkFlags
	yes, dryRun bool
	allow       []string
	glance      time.Duration
}

func newDelete() *cobra.Command {
	f := deleteFlags{glance: 10 * time.Second}
	return f.command()
}

func (f *deleteFlags) command() *cobra.Command {
	var classes strings.Builder
	for _, m := range deletion.Classes {
		fmt.Fprintf(&classes, "  %-8s %s\n", m.Class, m.Does)
	}
	c := &cobra.Command{
		Use:   "delete TYPE/NAME... | TYPE -l LABELS | TYPE --all | -f FILE",
		Short: "Delete objects, and run the steps that let the deletion finish",
		Long: `Delete objects, show the plan that lets the deletion finish, and run it step by step.

A plan is advice. Each step that termguard can run needs a permission:
` + classes.String() + `
On a terminal, each step needs confirmation. --yes confirms wait and own, and nothing else.
Without a terminal, every other permission needs --allow: foreign and force also name the
object, as does strip outside of the deleted objects. No flag allows everything. termguard
runs only certain steps of its own policies, if no relevant fact is unseen, and evaluates
again right before each.

A step without an effect ends the run, and so does a target that was recreated. You can
interrupt it at any time, and run it again: it continues from the state that it finds.

Exit codes: 0 everything is deleted, 1 something is left, or would be, 2 error, or interrupted,
3 a step needs confirmation: -o json names it, and the flag that allows it.`,
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
	flags.BoolVarP(&f.yes, "yes", "y", false, "need no confirmation for the objects that you name, and the content of the namespaces that you name")
	flags.StringArrayVar(&f.allow, "allow", nil, "also allow steps with this `PERMISSION`: risk, restore, strip, strip=TYPE/NAMESPACE/NAME of an object outside, foreign=TYPE/NAMESPACE/NAME, force=TYPE/NAME (may be repeated)")
	flags.BoolVar(&f.All, "all", false, "all objects of TYPE in the namespace")
	flags.BoolVar(&f.dryRun, "dry-run", false, "have the API server check each step, and change nothing")
	outputOf(c, &f.output, "text, or json: the steps that ran, what is left, and steps that need confirmation; the text then goes to stderr", "text", "json")
	flags.DurationVar(&f.patience, "timeout", 5*time.Minute, "how long to wait for the effect of a step, and for the deletion")
	c.MarkFlagsMutuallyExclusive("all-namespaces", "namespace")
	c.MarkFlagsMutuallyExclusive("all", "selector")
	completions(c, &f.target)
	c.PreRunE = func(*cobra.Command, []string) error {
		if err := f.valid(c); err != nil {
			return err
		}
		if f.Everywhere && !f.All && f.Labels == "" && f.Fields == "" {
			return errors.New("--all-namespaces selects every object of the type in the cluster: name objects, select them (-l), or add --all")
		}
		return nil
	}
	return c
}

func (d *deleteFlags) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	out := stdout
	if d.output == "json" {
		out = stderr
	}
	run := deletion.Run{
		DryRun: d.dryRun, Patience: d.patience, Glance: d.glance,
		Say:  func(p *page.Page) { _ = p.Write(out, styleOf(out)) }, // a closed pipe ends the process
		Show: printerOn(out).Print,
	}
	err := d.prepareRun(ctx, &run, args, stdin, out, stderr)
	if err == nil {
		err = run.Execute(ctx)
	}
	if run.Hands != nil && d.output == "json" { // else nothing was evaluated
		err = cmp.Or(err, writeJSON(run.Outcome(), stdout))
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return run.Interrupted()
	case errors.Is(err, deletion.ErrLeft):
		return errFindings
	}
	return err
}

func (d *deleteFlags) prepareRun(ctx context.Context, run *deletion.Run, args []string, stdin io.Reader, out, stderr io.Writer) error {
	if err := d.Parse(args); err != nil {
		return err
	}
	if slices.Contains(d.Filenames, "-") && !d.yes && !d.dryRun {
		return errors.New("--filename=- reads standard input, so nothing can be confirmed: add --yes, and --allow for other permissions")
	}
	consents, err := deletion.ParseConsents(d.allow)
	if err != nil {
		return err
	}
	run.Consents, run.Consents.Yes = consents, d.yes
	s, err := d.prepare(ctx, stderr)
	if err != nil {
		return err
	}
	run.Options = s.Options
	q, err := d.question(ctx, s, stdin)
	if err != nil {
		return err
	}
	if q.Together = len(q.Names) > 1; !q.Together {
		q.Options = s.Options
	}
	for _, n := range q.Names {
		if d.FromFiles() && d.Namespace != "" && n.Namespace != d.Namespace {
			return fmt.Errorf("%s is not in namespace %s: correct or omit --namespace", n.Ref(), d.Namespace)
		}
	}
	hands, err := deletion.NewHands(s.Config)
	if err != nil {
		return err
	}
	hands.DryRun = d.dryRun
	run.Hands = hands
	if file, is := stdin.(*os.File); is && terminal(stdin) && !d.dryRun {
		run.Ask = func(ctx context.Context, q deletion.Question) (bool, error) {
			return prompt(ctx, file, out, q)
		}
	}
	run.Look = func(ctx context.Context) (state deletion.State, err error) {
		if q.Types == nil { // else read just now
			types, err := answer.Served(ctx, s.Config)
			if err != nil {
				return state, err
			}
			q.Types = &types
		}
		hands.Types = *q.Types
		state, err = s.look(ctx, q)
		q.Types = nil // a step may bring a type back
		return state, err
	}
	return nil
}

func (s session) look(ctx context.Context, q answer.Question) (deletion.State, error) {
	endings := answer.Endings{Most: maxWatched}
	s.Facts.Arrived = endings.Arrived
	a, world, err := s.answer(ctx, &q)
	if err != nil || world == nil {
		return deletion.State{Answer: answer.Answer{Missing: a.Missing}}, err
	}
	targets, hearsay := q.Targets, s.hearsay
	if q.Of != "" { // an object, the last name, and what is deleted with it
		hearsay = "the inventory in the status of an object"
		targets = slices.DeleteFunc(slices.Clone(targets), func(t answer.Subject) bool { return !t.Is(q.Names[len(q.Names)-1]) })
	}
	state := deletion.NewState(targets, a, hearsay)
	state.Ends = func(ctx context.Context) (answer.Answer, error) {
		return endings.Ask(ctx, s.Session, world, targets)
	}
	return state, nil
}

// prompt returns an error if the input ends.
func prompt(ctx context.Context, answers *os.File, out io.Writer, q deletion.Question) (yes bool, err error) {
	flush(answers)
	style := styleOf(out)
	fmt.Fprint(out, q.Prompt().In(style), "[y/N] ")
	typed := make(chan string, 1) // closed when the input ends
	go func() {
		defer close(typed)
		if line, err := bufio.NewReader(answers).ReadString('\n'); err == nil {
			typed <- line
		}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return false, ctx.Err()
	case line, more := <-typed:
		if !more {
			fmt.Fprintln(out)
			return false, errors.New("the input ended without an answer: nothing else was done (scripts use --yes and --allow)")
		}
		switch reply := strings.ToLower(strings.TrimSpace(line)); reply {
		case "y", "yes":
			return true, nil
		case "", "n", "no":
		default:
			var p page.Page
			p.Item("  ", "%s is neither yes nor no: taken as no", strconv.Quote(reply))
			fmt.Fprint(out, p.In(style))
		}
		return false, nil
	}
}
