package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/spf13/cobra"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
)

// evaluating are the flags of policy eval: those of check, and how much is told.
type evaluating struct {
	checking
	trace bool
}

func newPolicyEval() *cobra.Command {
	var f evaluating
	c := &cobra.Command{
		Use:   "eval ID TYPE/NAME",
		Short: "Ask one policy about the deletion of an object, and show what it read",
		Long: `Ask one policy about the deletion of an object, in the cluster or in a snapshot, and show
what it found and which facts it read.

Exit codes: 0 it finds nothing, 1 it finds something or nobody can tell, 2 error.`,
		Example: `  termguard policy eval no-fridays configmap/settings -n demo --policies my-policies
  termguard policy eval orphaned-finalizer ns/demo --snapshot facts.json --trace`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c.Context(), args[0], args[1:], c.OutOrStdout(), c.ErrOrStderr())
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return f.settings.completeID(c, args, begun)
			}
			return f.complete(c, args[1:], begun)
		},
	}
	flags := c.Flags()
	f.target.add(flags)
	f.settings.addConfig(flags)
	f.settings.addPolicies(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the object (default: that of the context)")
	flags.DurationVar(&f.timeout, "request-timeout", 30*time.Second, "limit of one request to the cluster")
	flags.StringVar(&f.snapshot, "snapshot", "", "ask this `FILE`, written by termguard snapshot, instead of a cluster")
	flags.StringVarP(&f.output, "output", "o", "text", "text or json")
	flags.BoolVar(&f.trace, "trace", false, "show each step of the evaluation, with file and line")
	completions(c, &f.target, "text", "json")
	c.MarkFlagsMutuallyExclusive("snapshot", "context")
	c.MarkFlagsMutuallyExclusive("snapshot", "kubeconfig")
	return c
}

// evaluated is what one policy said, as JSON.
type evaluated struct {
	Policy   string             `json:"policy"`
	Target   string             `json:"target"`
	Asked    bool               `json:"asked"`
	Findings []policies.Finding `json:"findings"`
	Errors   []string           `json:"errors"`
	Unseen   []string           `json:"unseen"` // why that says nothing
	Read     []string           `json:"read"`
}

func (f *evaluating) run(ctx context.Context, id string, args []string, stdout, stderr io.Writer) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("unknown output %q: use text or json", f.output)
	}
	set, err := f.settings.load(ctx)
	if err != nil {
		return err
	}
	p, err := policyOf(set, id)
	if err != nil {
		return err
	}
	if !slices.Contains(p.Triggers, policies.Delete) {
		return fmt.Errorf("policy %s is asked on %s, and eval asks about a delete: try it on a fixture with termguard policy test", id, triggers(p))
	}
	config, err := f.settings.read(set.IDs())
	if err != nil {
		return err
	}
	facts, err := config.FactsOptions()
	if err != nil {
		return err
	}
	facts.MaxNames = maxNames
	read := map[string]bool{}
	options := policies.EngineOptions{Params: config.Params, Deadline: evaluation, Lazy: true, Read: func(path string) { read[path] = true }}
	tracer := topdown.NewBufferTracer()
	if f.trace {
		options.Tracer = tracer
	}
	engine, err := only(ctx, set, id, options)
	if err != nil {
		return err
	}
	names, err := check.ParseNames(args)
	if err == nil && len(names) != 1 {
		err = fmt.Errorf("got %d objects: eval asks about one", len(names))
	}
	if err != nil {
		return err
	}
	name := names[0]
	if name.Namespace, err = f.within(); err != nil {
		return err
	}
	subjects, missing, world, err := f.find(ctx, check.Together{Names: []check.Name{name}}, facts, stderr)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return missing[0]
	}
	asDeleted, err := check.DeleteOptions("background", -1, false)
	if err != nil {
		return err
	}
	input := check.Input(world, subjects[0], asDeleted)
	result, err := engine.Evaluate(ctx, policies.Delete, input, world)
	if err != nil {
		return err
	}
	var untold []string
	if stub := subjects[0].Stub; stub != "" && slices.Contains(result.Readers, id) {
		result.Unseen = nil
		result = result.OfStub(stub)
		untold = result.Unseen
	}
	answer := evaluated{
		Policy: id, Target: subjects[0].String(), Asked: len(engine.Asked(policies.Delete, input, world)) > 0,
		Findings: append([]policies.Finding{}, result.Findings...), Errors: []string{}, Unseen: append([]string{}, untold...), Read: slices.Sorted(maps.Keys(read)),
	}
	for _, err := range result.Errors {
		answer.Errors = append(answer.Errors, err.Error())
	}
	if f.trace {
		topdown.PrettyTraceWithLocation(stderr, *tracer)
	}
	if err := answer.write(stdout, f.output); err != nil {
		return err
	}
	switch {
	case len(answer.Errors) > 0:
		return fmt.Errorf("%s", strings.Join(answer.Errors, "\n"))
	case len(answer.Unseen) > 0:
		return errFound
	case len(answer.Findings) > 0:
		return errFound
	}
	return nil
}

func (e evaluated) write(out io.Writer, output string) error {
	if output == "json" {
		return writeData(output, e, out)
	}
	switch {
	case len(e.Unseen) > 0:
		fmt.Fprintf(out, "%s is unknown of %s\n", e.Policy, e.Target)
		for _, why := range e.Unseen {
			fmt.Fprintf(out, "  %s\n", printable.Line(why))
		}
	case !e.Asked:
		fmt.Fprintf(out, "%s is not asked about %s: its METADATA names other resources, or needs documents that are not there\n", e.Policy, e.Target)
	case len(e.Errors) > 0:
		fmt.Fprintf(out, "%s failed, and tells nothing about %s\n", e.Policy, e.Target)
	case len(e.Findings) == 0:
		fmt.Fprintf(out, "%s finds nothing about %s\n", e.Policy, e.Target)
	}
	for _, f := range e.Findings {
		fmt.Fprintf(out, "%s: %s [%s]\n", f.Says(), printable.Line(f.Message), f.Policy)
		for _, evidence := range f.Evidence {
			fmt.Fprintf(out, "  %s\n", printable.Line(evidence))
		}
	}
	if len(e.Read) > 0 {
		fmt.Fprintln(out, "it read:")
		for _, path := range e.Read {
			fmt.Fprintf(out, "  %s\n", printable.Line(path))
		}
	}
	return nil
}
