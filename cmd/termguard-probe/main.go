// Command termguard-probe looks at the node that it runs on, again and again, and writes what
// it finds into a ConfigMap in termguard's namespace. termguard probe prints the same, once,
// for people; this is a program of its own since it runs on every node, and so has to be small
// (docs/probe.md).
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

// version is set by the linker.
var version = "(devel)"

const (
	// patience bounds one request to the API server.
	patience = 30 * time.Second
	// garbage is how much the heap may grow, in percent, before it is collected: a look keeps
	// little, and this program's processor time is nobody's concern, its memory is.
	garbage = 50
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process as if nobody had asked for the first
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the command, from its arguments to its exit code: 0, or 2 if it could not look.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	complain := func(err error) { fmt.Fprintf(stderr, "termguard-probe: %s\n", printable.Lines(err.Error())) }
	var (
		options    probe.Options
		teller     teller
		kubeconfig string
		every      time.Duration
		asked      bool
	)
	flags := pflag.NewFlagSet("termguard-probe", pflag.ContinueOnError)
	flags.SetOutput(stdout) // of --help
	options.Flags(flags)
	flags.DurationVar(&every, "every", 2*time.Minute, "look again after this time, until told to stop; 0 looks once")
	flags.StringVar(&teller.namespace, "namespace", "termguard-system", "namespace that termguard runs in, in which the report is written into the ConfigMap "+report.Prefix+"NODE")
	flags.BoolVar(&teller.marks, "condition", false, "keep the condition "+condition+" of the node current, too, and tell of its changes in events")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default: the pod's own service account)")
	flags.BoolVar(&asked, "version", false, "print the version")
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		complain(err)
		return 2
	case asked:
		fmt.Fprintf(stdout, "termguard-probe version %s\n", version)
		return 0
	}
	debug.SetGCPercent(garbage)
	if err := again(ctx, options, teller, kubeconfig, every, complain); err != nil {
		complain(err)
		return 2
	}
	return 0
}

// again looks and tells, again and again.
func again(ctx context.Context, options probe.Options, t teller, kubeconfig string, every time.Duration, complain func(error)) error {
	if options.Node == "" {
		return errors.New("the report needs the name of the node in the cluster: --node")
	}
	config, err := configOf(kubeconfig)
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	if t.client, err = newClient(config); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	if err := probe.Yield(); err != nil && !errors.Is(err, errors.ErrUnsupported) { // it looks nevertheless
		complain(err)
	}
	if err := probe.Drop(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return repeat(ctx, every, func() error {
		r, err := probe.Look(ctx, options)
		if err == nil {
			err = t.tell(ctx, r)
		}
		debug.FreeOSMemory() // which nothing needs until the next look
		return err
	}, complain)
}

// repeat looks once, or again and again, with a pause after each look that no change of the
// clock makes longer or shorter. Of several looks, one may fail.
func repeat(ctx context.Context, every time.Duration, look func() error, complain func(error)) error {
	for {
		err := look()
		if every == 0 {
			return err
		}
		if err != nil && ctx.Err() == nil { // the next look may succeed
			complain(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

func configOf(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
