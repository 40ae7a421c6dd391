package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// evaluation bounds asking the policies: a person waits longer than an API
// server.
const evaluation = 10 * time.Second

// checking are the flags of the check command.
type checking struct {
	target       clusterFlags
	settings     settingsFlags
	namespace    string
	timeout      time.Duration
	cascade      string
	grace        int64
	force        bool
	output       string
	snapshot     string
	allowUnknown bool
}

func newCheck() *cobra.Command {
	var f checking
	c := &cobra.Command{
		Use:   "check TYPE/NAME",
		Short: "Tell whether deleting an object would finish, what blocks it, and the safe way out",
		Long: `Tell whether deleting an object would finish, what blocks it, and the safe way out.

Nothing is deleted, and nothing needs to be installed in the cluster. What may
not be read is named, and the answer is then "unknown" unless something was found.

Exit codes: 0 it completes, 1 it hangs, may hang, or that is unknown, 2 error.`,
		Example: `  termguard check namespaces/demo
  termguard check pod web-0 -n demo --grace-period=5
  termguard check ns/demo --snapshot facts.json -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c.Context(), args, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := c.Flags()
	f.target.add(flags)
	f.settings.addConfig(flags)
	f.settings.addPolicies(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the object (default: that of the context)")
	flags.DurationVar(&f.timeout, "request-timeout", 30*time.Second, "limit of one request to the cluster")
	flags.StringVar(&f.cascade, "cascade", "background", "how it would be deleted: background, foreground or orphan")
	flags.Int64Var(&f.grace, "grace-period", -1, "`SECONDS` that it would be given (default: its own)")
	flags.BoolVar(&f.force, "force", false, "it would be deleted at once, without a grace period")
	flags.StringVarP(&f.output, "output", "o", "text", "text, json or yaml")
	flags.StringVar(&f.snapshot, "snapshot", "", "ask this `FILE`, written by termguard snapshot, instead of a cluster")
	flags.BoolVar(&f.allowUnknown, "allow-unknown", false, "exit with 0 where the verdict is unknown")
	c.MarkFlagsMutuallyExclusive("snapshot", "context")
	c.MarkFlagsMutuallyExclusive("snapshot", "kubeconfig")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if c.Flags().Changed("grace-period") && f.grace < 0 {
			return fmt.Errorf("--grace-period is %d: want seconds, 0 or more", f.grace)
		}
		return nil
	}
	return c
}

func (f *checking) run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	name, err := check.ParseName(args, f.namespace)
	if err != nil {
		return err
	}
	options, err := check.DeleteOptions(f.cascade, f.grace, f.force)
	if err != nil {
		return err
	}
	write, known := reporters[f.output]
	if !known {
		return fmt.Errorf("unknown output %q: use text, json or yaml", f.output)
	}
	set, err := f.settings.load()
	if err != nil {
		return err
	}
	config, err := f.settings.read(set)
	if err != nil {
		return err
	}
	facts, err := config.FactsOptions()
	if err != nil {
		return err
	}
	// Who asks wants to know how long it takes, however short.
	params := map[string]any{"slow-termination": map[string]any{"seconds": 0}}
	maps.Copy(params, config.Params)
	engine, err := policies.NewEngine(ctx, set, policies.EngineOptions{
		Params: params, Off: config.Enforcement.Off(idsOf(set)), Deadline: evaluation,
	})
	if err != nil {
		return err
	}
	subject, world, err := f.find(ctx, name, facts, stderr)
	if err != nil {
		return err
	}
	report, err := check.Ask(ctx, engine, world, subject, options)
	if err != nil {
		return err
	}
	if err := write(report, stdout); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if report.Verdict == policies.Completes || report.Verdict == policies.Unknown && f.allowUnknown {
		return nil
	}
	return errFound
}

// find finds the object, and the facts that its deletion depends on.
func (f *checking) find(ctx context.Context, name check.Name, options cluster.Options, stderr io.Writer) (check.Subject, *cluster.World, error) {
	if f.snapshot != "" {
		file, err := os.Open(f.snapshot)
		if err != nil {
			return check.Subject{}, nil, fmt.Errorf("read snapshot: %w", err)
		}
		defer file.Close()
		world, err := cluster.ReadSnapshot(file)
		if err != nil {
			return check.Subject{}, nil, fmt.Errorf("%s: %w", f.snapshot, err)
		}
		if name.Namespace == "" {
			name.Namespace = "default"
		}
		subject, err := check.FromFacts(world, name)
		return subject, world, err
	}
	config, err := f.target.config()
	if err != nil {
		return check.Subject{}, nil, err
	}
	config.Timeout = f.timeout
	if name.Namespace == "" {
		if name.Namespace, err = f.target.namespace(); err != nil {
			return check.Subject{}, nil, err
		}
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return check.FromCluster(ctx, config, options, name, log)
}

// reporters write a report, by the name of the output.
var reporters = map[string]func(check.Report, io.Writer) error{
	"text": check.Report.Text,
	"json": func(r check.Report, out io.Writer) error {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	},
	"yaml": func(r check.Report, out io.Writer) error {
		text, err := yaml.Marshal(r)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	},
}
