// Command termguard-probe regularly writes a report about its node into a ConfigMap. It is separate from
// termguard because it runs on every node and must be small (docs/probe.md).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/probe"
	"github.com/termguard/termguard/probe/report"
)

// Set by the linker.
var version = "(devel)"

const (
	// patience bounds one request to the API server.
	patience = 30 * time.Second
	// garbage is for debug.SetGCPercent: memory matters here, processor time does not.
	garbage = 50
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code: 0, or 2 if it could not inspect the node.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	complain := func(err error) { fmt.Fprintf(stderr, "termguard-probe: %s\n", printable.Lines(err.Error())) }
	var (
		options     probe.Options
		publisher   publisher
		kubeconfig  string
		every       time.Duration
		showVersion bool
	)
	flags := pflag.NewFlagSet("termguard-probe", pflag.ContinueOnError)
	flags.SetOutput(stdout) // for --help
	options.Flags(flags)
	flags.DurationVar(&every, "every", 2*time.Minute, "inspect again after this time; 0 inspects once")
	flags.StringVar(&publisher.namespace, "namespace", "termguard-system", "namespace that termguard runs in, in which the report is written into the ConfigMap "+report.Prefix+"NODE")
	flags.BoolVar(&publisher.condition, "condition", false, "also keep the condition "+condition+" of the node current, and record its changes in Events")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default: the pod's own service account)")
	flags.BoolVar(&showVersion, "version", false, "print the version")
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		complain(err)
		return 2
	case showVersion:
		fmt.Fprintf(stdout, "termguard-probe version %s\n", version)
		return 0
	}
	debug.SetGCPercent(garbage)
	if err := again(ctx, options, publisher, kubeconfig, every, complain); err != nil {
		complain(err)
		return 2
	}
	return 0
}

func again(ctx context.Context, options probe.Options, p publisher, kubeconfig string, every time.Duration, complain func(error)) error {
	if options.Node == "" {
		return errors.New("the report needs the name of the node in the cluster: --node")
	}
	find := rest.InClusterConfig
	if kubeconfig != "" {
		find = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) }
	}
	config, err := find()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	if p.client, err = newClient(config); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	if err := probe.DropPrivileges(complain); err != nil {
		return err
	}
	return repeat(ctx, every, func() error {
		r, err := probe.Inspect(ctx, options)
		if err == nil {
			err = p.publish(ctx, r)
		}
		debug.FreeOSMemory()
		return err
	}, complain)
}

// repeat calls look until ctx is done, or once if every is 0.
func repeat(ctx context.Context, every time.Duration, look func() error, complain func(error)) error {
	for {
		err := look()
		if every == 0 {
			return err
		}
		if err != nil && ctx.Err() == nil { // the next inspection may succeed
			complain(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}
