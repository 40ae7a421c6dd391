package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/internal/printable"
)

// Exit codes.
const (
	exitFound  = 1 // something was found
	exitFailed = 2 // it could not be done
)

// errFound ends a command that did its work and found something.
var errFound = errors.New("something was found")

// run is the command, from its name and arguments to its exit code: what was
// asked for goes to stdout, and what went wrong to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(args[0])
	root.SetArgs(args[1:])
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	code := exitCode(err)
	if code == exitFailed {
		fmt.Fprintf(stderr, "termguard: %s\n", printable.Lines(err.Error())) // it may quote what others wrote
	}
	return code
}

// exitCode of a command that ended so.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFound):
		return exitFound
	default:
		return exitFailed
	}
}

func newRoot(name string) *cobra.Command {
	root := &cobra.Command{
		Use:           "termguard",
		Short:         "Tell whether a deletion in Kubernetes will finish, before it starts",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          needsCommand,
	}
	if strings.HasPrefix(filepath.Base(name), "kubectl-") { // a plugin of kubectl
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl termguard"}
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
	})
	root.AddCommand(newCheck(), newLint(), newWebhook(), newSnapshot(), newPolicy(), newVersion())
	return root
}

// needsCommand is for commands that only hold others.
func needsCommand(c *cobra.Command, _ []string) error {
	return fmt.Errorf("say what to do: see %s --help", c.CommandPath())
}
