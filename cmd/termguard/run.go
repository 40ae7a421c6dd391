package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/deletion"
	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/page"
)

const (
	exitFindings = 1
	exitFailed   = 2
	exitQuestion = 3 // a deletion needs an answer
)

var errFindings = errors.New("there are findings")

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(args[0])
	if strings.HasPrefix(filepath.Base(args[0]), "kubectl_complete-") { // kubectl calls it for completions
		args = append([]string{args[0], cobra.ShellCompRequestCmd}, args[1:]...)
	}
	root.SetArgs(args[1:])
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	code := exitCode(err)
	if code == exitFailed {
		fmt.Fprintf(stderr, "termguard: %s\n", printable.Lines(err.Error())) // may quote others' text
	}
	if usage, is := errors.AsType[usageError](err); is {
		fmt.Fprintln(stderr)
		root.SetOut(stderr)
		_ = usage.command.Help()
	}
	return code
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.Is(err, deletion.ErrQuestion):
		return exitQuestion
	default:
		return exitFailed
	}
}

func newRoot(name string) *cobra.Command {
	root := &cobra.Command{
		Use:           "termguard",
		Short:         "Show whether a deletion in Kubernetes will finish, before it starts",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          checkCommand,
		RunE:          needsCommand,
		Version:       build(), // a template for it would keep the linker from leaving out any method
	}
	if strings.HasPrefix(filepath.Base(name), "kubectl-") { // a plugin of kubectl
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl termguard"}
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
	})
	var quiet, ascii bool
	root.PersistentFlags().BoolVarP(&quiet, "quiet", "q", false, "suppress progress output")
	root.PersistentFlags().BoolVar(&ascii, "ascii", false, "draw with ASCII only (default: if the locale has no other characters)")
	root.PersistentPreRun = func(*cobra.Command, []string) {
		if ascii {
			root.SetOut(screen{root.OutOrStdout(), page.Style{ASCII: true}})
		}
		if quiet {
			root.SetErr(struct{ io.Writer }{root.ErrOrStderr()}) // which is no terminal
		}
	}
	root.CompletionOptions.HiddenDefaultCmd = true // --help is one screen
	root.SetHelpCommand(&cobra.Command{Hidden: true})
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	root.Flags().Lookup("help").Hidden, root.Flags().Lookup("version").Hidden = true, true
	root.AddCommand(newCheck(), newScan(), newWatch(), newDelete(), newLint(), newWebhook(), newSnapshot(), newPolicy(), newDoctor(), newProbe(), newVersion(), newOptions())
	hideShared(root)
	return root
}

func checkCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), nearest.Hint(args[0], names))
}

type usageError struct{ command *cobra.Command }

func (e usageError) Error() string { return e.command.CommandPath() + " needs a command" }

func needsCommand(c *cobra.Command, _ []string) error {
	return usageError{c}
}
