package main

import (
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/lint/runner"
	"github.com/termguard/termguard/lint/settings"
	"github.com/termguard/termguard/lint/triage"
	"github.com/termguard/termguard/policies"
)

type lintFlags struct {
	policies settingsFlags
	runner.Options
	explain string
}

func newLint() *cobra.Command {
	var f lintFlags
	c := &cobra.Command{
		Use:   "lint PATH...",
		Short: "Find what in manifests would make a later deletion hang",
		Long: `Find what in manifests would make a later deletion hang.

A PATH is a file, a folder, or - for standard input. Each object is evaluated as
deleted later, as deleted with its namespace, as deleted by kubectl delete -f with
all others, and as applied. No network connection is opened.

` + settings.FileName + ` is read from the folder of the first PATH, or the nearest folder above,
up to the root of the repository. Flags take precedence over it.

Exit codes: 0 no findings, 1 findings at or above --fail-on, 2 an input that
could not be read, wrong usage, or an internal error.`,
		Example: `  termguard lint .
  helm template . | termguard lint -
  termguard lint deploy/ -o text -o sarif=termguard.sarif
  termguard lint . --baseline known.json --write-baseline
  termguard lint . --changed-since origin/main
  termguard lint --explain orphaned-finalizer`,
		RunE: func(c *cobra.Command, args []string) error {
			if f.explain != "" {
				return f.explainPolicy(c.OutOrStdout())
			}
			return f.run(c, args)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.Config, "config", "", "configuration `FILE`, kind LintConfig (default: "+settings.FileName+" beside the first PATH and upwards)")
	f.policies.addPolicies(flags)
	flags.StringArrayVarP(&f.Outputs, "output", "o", []string{"text"}, "`FORMAT[=FILE]`: text, json, sarif, junit or github (may be repeated)")
	flags.StringArrayVar(&f.Exclude, "exclude", nil, "skip paths in folders that match `PATTERN`, as in .gitignore (may be repeated)")
	flags.BoolVar(&f.Input.IncludeTests, "include-tests", false, "also evaluate files that only tests read: testdata, the test folder of a program, fixtures, golden files, cases of kuttl and chainsaw, copies of objects out of a cluster")
	flags.StringVar(&f.FailOn, "fail-on", "", "lowest `SEVERITY` for exit code 1: high, medium, low, info or never (default: low)")
	flags.StringSliceVar(&f.Only, "only", nil, "evaluate only the policies with these `ID`s, separated by commas")
	flags.StringVar(&f.Snapshot, "snapshot", "", "facts of the cluster that the manifests are for: a `FILE` written by termguard snapshot")
	flags.StringVar(&f.KubernetesVersion, "kubernetes-version", "", "`VERSION` of the API server that the manifests are for (default: that of the snapshot)")
	flags.StringVar(&f.Baseline, "baseline", "", "omit the findings in this `FILE`")
	flags.BoolVar(&f.WriteBaseline, "write-baseline", false, "write the findings of this run to the --baseline file")
	flags.StringVar(&f.ChangedSince, "changed-since", "", "evaluate only files that changed since the branch, tag or commit `REF`, by git")
	flags.BoolVar(&f.Input.Render, "render", true, "render charts and kustomizations with termguard-render, if that is beside termguard or in PATH")
	flags.StringArrayVar(&f.Input.Values, "values", nil, "`FILE` of values for the charts that are rendered (may be repeated)")
	flags.BoolVar(&f.NoRepoPolicies, "no-repo-policies", false, "do not load the policies that the configuration in the repository names: a pull request can change them")
	flags.DurationVar(&f.Timeout, "timeout", 10*time.Minute, "stop after this time, and report the findings so far; 0 for never")
	flags.StringVar(&f.explain, "explain", "", "explain the policy with this `ID`, and do nothing else")
	_ = c.RegisterFlagCompletionFunc("output", completeWords(runner.Formats()...))
	for _, flag := range []string{"explain", "only"} {
		_ = c.RegisterFlagCompletionFunc(flag, f.policies.completeID) // the flag is there
	}
	c.MarkFlagsMutuallyExclusive("write-baseline", "changed-since")
	return c
}

// run bounds the memory of the whole process, until it returns.
func (f *lintFlags) run(c *cobra.Command, paths []string) error {
	unbind := func() {}
	defer func() { unbind() }()
	f.Bound = func(limit uint64) { unbind = boundMemory(limit) }
	f.Input.Paths, f.Version = paths, versionOf()
	f.Policies, f.Load = f.policies.policies, func(names []string) (*policies.Set, error) {
		return (&settingsFlags{policies: names}).load()
	}
	f.Input.Stdin, f.Stdout, f.Stderr = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
	f.Color = colored(f.Stdout)
	f.Progress = func() func() { return newProgress(f.Stderr, "reading manifests and evaluating the policies").clear }
	err := runner.Run(c.Context(), f.Options)
	if errors.Is(err, runner.ErrFindings) {
		return errFindings
	}
	return err
}

func (f *lintFlags) explainPolicy(out io.Writer) error {
	set, err := f.policies.load()
	if err != nil {
		return err
	}
	return explain(out, append(set.Policies(), triage.Policies()...), f.explain)
}
