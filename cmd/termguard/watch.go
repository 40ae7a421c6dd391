package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/watch"
)

// maxWatched bounds the objects of each look: a terminal shows fewer.
const maxWatched = 100

func newWatch() *cobra.Command {
	f := checkFlags{cascade: "background", grace: -1}
	c := &cobra.Command{
		Use:   "watch [TYPE/NAME]",
		Short: "Show Terminating objects and what they wait for",
		Long: `Show Terminating objects and what they wait for, until they are deleted.

It watches those of the cluster, those of a namespace (-n), or one object and the objects
deleted with it: the content of a namespace, the objects of a definition, dependents.
It writes a line for each change, as kubectl get --watch, and changes nothing.
If interrupted, it shows what is left.

Exit codes: 0 everything is deleted, 1 something is left, 2 error.`,
		Example: `  termguard watch
  termguard watch -n demo --timeout 5m
  termguard watch ns/demo`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return f.watched(c.Context(), args, c.OutOrStdout(), c.ErrOrStderr())
		},
		ValidArgsFunction: f.complete,
	}
	flags := c.Flags()
	f.addRead(flags)
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "this namespace and its content; or the namespace of the object that you name")
	flags.DurationVar(&f.patience, "timeout", 0, "how long to watch (default: until everything is deleted)")
	completions(c, &f.target)
	return c
}

func (f *checkFlags) watched(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	names, err := answer.ParseNames(args)
	if len(args) > 0 && err != nil {
		return err
	}
	s, err := f.prepare(ctx, stderr)
	if err != nil {
		return err
	}
	var name answer.Name
	if len(names) > 0 {
		name = names[0]
		if name.Namespace, err = f.target.namespaceOf(f.Namespace); err != nil {
			return err
		}
	}
	var uid string
	var gone error
	clear := s.reading()
	look := func(ctx context.Context) (answer.Answer, error) {
		defer func() { // progress only for the first look
			clear()
			s.Facts.Progress = nil
		}()
		if name.Name == "" {
			return s.AllTerminating(ctx, f.Namespace, maxWatched)
		}
		now, subject, err := s.TerminatingOf(ctx, name, uid, maxWatched)
		switch {
		case answer.Gone(err) && uid == "":
			gone = err
		case answer.Gone(err):
			gone = fmt.Errorf("deleted: %s/%s", name.Resource, name.Name)
		case err != nil:
		case subject.UID() == "":
			return now, fmt.Errorf("unseen: %s (forbidden), so whether it is Terminating is unknown", subject)
		case !subject.Terminating():
			return now, fmt.Errorf("%s is not Terminating: termguard check %s/%s shows whether its deletion would finish", subject, name.Resource, name.Name)
		default:
			uid = subject.UID()
		}
		return now, err
	}
	if f.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.patience, errors.New("--timeout ended"))
		defer cancel()
	}
	left, err := printerOn(stdout).Watch(ctx, look)
	switch {
	case err != nil:
		return err
	case gone != nil:
		_, err := fmt.Fprintln(stdout, printable.Line(gone.Error()))
		return err
	}
	if err := reporters["text"](left, stdout); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return findings(len(left.Items) > 0)
}

func printerOn(out io.Writer) *watch.Printer {
	return &watch.Printer{Out: out, Style: styleOf(out)}
}
