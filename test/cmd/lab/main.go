// Command lab starts a control plane for interactive use: see usage.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

const usage = `lab brings a real control plane up on this machine, until it is interrupted.

  lab                 the control plane, and the KUBECONFIG of it on standard output
  lab termguard       with termguard in it, which answers each deletion
  lab node            with a real node, as root
  lab build           only build the control plane
  lab build all       and what real nodes and extension API servers run
  lab build software  only build those of other projects that scenarios run
  lab build NAME...   only build some of those
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) error {
	if slices.ContainsFunc(args, func(arg string) bool { return arg == "--help" || arg == "-h" || arg == "-help" || arg == "help" }) {
		fmt.Print(usage)
		return nil
	}
	if mode := strings.Join(args, " "); mode == "build" || mode == "build all" {
		if _, err := lab.Build(ctx, os.Stderr); err != nil || mode == "build" {
			return err
		}
		if _, err := lab.BuildExtension(ctx, os.Stderr); err != nil {
			return err
		}
		_, _, err := lab.BuildNode(ctx, os.Stderr)
		return err
	}
	if len(args) > 1 && args[0] == "build" {
		chosen := args[1:]
		if args[1] == "software" {
			chosen = lab.Software()
		}
		for _, component := range chosen {
			if _, err := lab.BuildSoftware(ctx, component, lab.Options{}); err != nil {
				return err
			}
		}
		return nil
	}
	mode := strings.Join(args, " ")
	if mode == "termguard" {
		return runGuarded(ctx)
	}
	if mode != "" && mode != "node" {
		return fmt.Errorf("unknown arguments %q: it takes none, \"termguard\", \"node\", \"build\", \"build all\", \"build software\" or \"build NAME\"", mode)
	}
	l, err := lab.Start(ctx, lab.Options{})
	if err != nil {
		return err
	}
	defer l.Stop()
	if mode == "node" {
		n, err := l.StartRealNode(ctx, "real")
		if err != nil {
			return err
		}
		fmt.Printf("# the node's own view: nsenter -m -p -t %d; image for pods (hostNetwork): %s\n", n.PID(), lab.Image)
	}
	fmt.Printf("export KUBECONFIG=%s\n", l.Kubeconfig())
	fmt.Fprintln(os.Stderr, "lab: ready; Ctrl-C ends it and removes everything")
	<-ctx.Done()
	return nil
}

func runGuarded(ctx context.Context) error {
	binary, err := scenario.Binary()
	if err != nil {
		return err
	}
	g, err := scenario.Guard(ctx, lab.Options{})
	if err != nil {
		return err
	}
	defer g.Stop()
	fmt.Printf("\nIn another terminal:\n\n  export KUBECONFIG=%s\n  export PATH=%s:%s:$PATH    # kubectl of the lab, and termguard\n\n", g.Kubeconfig(), g.Bin(), filepath.Dir(binary))
	fmt.Fprintln(os.Stderr, "lab: ready, and termguard answers each deletion; its nodes run no containers; Ctrl-C ends it and removes everything")
	select {
	case <-ctx.Done():
		return nil
	case <-g.Termguard.Exited():
		return fmt.Errorf("termguard has ended:\n%s", g.Termguard.Log())
	}
}
