// Package runner is termguard lint, from its configuration to its reports.
package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/report"
	"github.com/termguard/termguard/lint/sets"
	"github.com/termguard/termguard/lint/settings"
	"github.com/termguard/termguard/lint/triage"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// Options are the flags; the configuration supplies unset ones.
type Options struct {
	// Input lacks the patterns of Exclude and of the configuration.
	Input sets.Options
	// Config defaults to settings.FileName beside the first path and upwards.
	Config string
	// Policies are folders beyond the built-in policies. Load loads them, and the configuration's.
	Policies       []string
	Load           func(folders []string) (*policies.Set, error)
	NoRepoPolicies bool
	// Outputs are FORMAT or FORMAT=FILE.
	Outputs []string
	// Exclude are patterns as in .gitignore, relative to the working directory.
	Exclude []string
	// FailOn is the least severity that returns ErrFindings, or settings.Never.
	FailOn string
	// Only are ids of policies; none means all.
	Only                        []string
	Snapshot, KubernetesVersion string
	Baseline                    string
	WriteBaseline               bool
	// ChangedSince is a branch, tag or commit.
	ChangedSince string
	// Timeout of 0 means no limit.
	Timeout time.Duration
	Version string

	Stdout, Stderr io.Writer
	Color          bool
	// Progress shows that work continues until done is called; may be nil.
	Progress func() (done func())
	// Bound limits the memory of the process; may be nil.
	Bound func(bytes uint64)
}

var ErrFindings = errors.New("there are findings")

const (
	exitFindings = 1
	exitError    = 2
)

type runner struct {
	Options
	settings *settings.Settings
	load     func(context.Context) (*policies.Set, error)
	off      map[string]bool
	options  lint.Options // of the run
	outputs  []output
	baseline triage.Baseline
}

// foreignMemory bounds the process, in bytes, if the repository supplies policies or a snapshot: a few lines
// of Rego can use any amount. Large repositories take less than a fifth.
const foreignMemory = 2 << 30

// Run returns ErrFindings for findings, and another error if the work could not be done; findings up to then
// are reported.
func Run(ctx context.Context, options Options) error {
	growHeap()
	r := &runner{Options: options}
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("--timeout of %v has passed", r.Timeout))
		defer cancel()
	}
	if err := r.configure(ctx); err != nil {
		return err
	}
	done := func() {}
	if r.Progress != nil {
		done = r.Progress()
	}
	result, err := lint.Run(ctx, r.options)
	done()
	stopped := result != nil && err != nil
	switch {
	case stopped:
		err = fmt.Errorf("stopped, as %w: there may be more findings", err)
		result.Notes = append(result.Notes, err.Error())
	case errors.Is(err, sets.ErrNoInput) && r.Input.Only != nil:
		result, err = &lint.Result{}, nil
	case errors.Is(err, sets.ErrNoInput):
		return fmt.Errorf("%w; name files or folders that hold manifests, or - for standard input", err)
	case err != nil:
		return err
	}
	set, loadErr := r.load(ctx)
	switch {
	case loadErr != nil && stopped: // before any could be evaluated
		set = &policies.Set{}
	case loadErr != nil:
		return loadErr
	}
	r.onlyChanged(result, r.ChangedSince)
	if flags := r.excludeFlags(result.Problems); flags != "" {
		result.Notes = append(result.Notes, fmt.Sprintf("files that are broken on purpose, as in tests, can be excluded: %s, or exclude in %s", flags, settings.FileName))
	}
	fromRoot := func(file string) string { return r.relative(r.root(), file) }
	for i, f := range result.Findings {
		if severity, set := r.settings.Severity[f.Policy]; set {
			result.Findings[i].Severity = severity
		}
	}
	report := report.Report{Result: *result, Policies: append(set.Policies(), triage.Policies()...), Version: r.Version, Rel: fromRoot}
	var baseline triage.Baseline
	gone := 0
	if panicErr := lint.CatchPanic(func() error {
		options := triage.Options{
			Policies: set.Policies(), Off: r.off, Ignore: r.settings.Ignore, File: r.shorten(r.settings.File),
			Stopped: stopped, Rel: func(file string) string { return r.relative(r.patternRoot(), file) },
		}
		if r.Input.Only != nil {
			options.InScope = r.isSelected
		}
		counted, suppressed := triage.Suppress(result, options)
		lint.SetFingerprints(counted, fromRoot)
		baseline = triage.NewBaseline(counted, fromRoot)
		counted, accepted, missing := r.baseline.Compare(counted)
		report.Findings, report.Suppressed, report.BaselineCount, gone = lint.ByCause(counted), suppressed, accepted, missing
		return nil
	}); panicErr != nil { // the findings are reported unbundled
		err, stopped = panicErr, true
		report.Notes = append(report.Notes, err.Error())
	}
	if r.WriteBaseline {
		if stopped {
			return fmt.Errorf("the baseline was not written: %w", err)
		}
		return r.writeBaseline(baseline, result)
	}
	if gone > 0 && r.Input.Only == nil && len(result.Problems) == 0 && !stopped {
		report.Notes = append(report.Notes, fmt.Sprintf("%d of the findings in the baseline %s are fixed: rewrite it with --write-baseline", gone, r.Baseline))
	}
	switch n := len(report.Problems); {
	case stopped:
	case n > 0:
		err = fmt.Errorf("%s with the input: there may be more findings", page.Count(n, "problem"))
	case slices.ContainsFunc(report.Findings, func(f lint.Finding) bool { return f.AtLeast(r.FailOn) }):
		err = ErrFindings
	}
	switch {
	case errors.Is(err, ErrFindings):
		report.ExitCode = exitFindings
	case err != nil:
		report.ExitCode = exitError
	}
	if writeErr := r.report(report); writeErr != nil {
		return writeErr
	}
	return err
}
