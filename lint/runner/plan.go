package runner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/lint/report"
	"github.com/termguard/termguard/lint/settings"
	"github.com/termguard/termguard/lint/triage"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

// configure finds every mistake in the configuration before the work begins.
func (r *runner) configure(ctx context.Context) error {
	if len(r.Input.Paths) == 0 {
		return errors.New("say what to lint: PATH..., where - is standard input; see termguard lint --help")
	}
	var err error
	if r.Input.Dir, err = os.Getwd(); err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	if r.outputs, err = parseOutputs(r.Outputs); err != nil {
		return err
	}
	if err := r.readSettings(ctx); err != nil {
		return err
	}
	if !slices.Contains(settings.FailOn(), r.FailOn) {
		return fmt.Errorf("--fail-on is %q: want %s", r.FailOn, settings.Or(settings.FailOn()))
	}
	version := r.KubernetesVersion
	if version != "" {
		v, err := semver.ParseTolerant(version)
		if err != nil {
			return fmt.Errorf("the Kubernetes version is %q: want one like 1.36 or v1.36.3", version)
		}
		version = "v" + v.String()
	}
	if err := r.readBaseline(); err != nil {
		return err
	}
	ownFiles := []string{r.Baseline, r.Snapshot} // which are no manifests
	for _, o := range r.outputs {
		if err := r.checkWritable(o.file); err != nil {
			return fmt.Errorf("-o %s=%s: %w", o.format, o.file, err)
		}
		ownFiles = append(ownFiles, o.file)
	}
	if r.WriteBaseline {
		if err := r.checkWritable(r.Baseline); err != nil {
			return fmt.Errorf("--baseline: %w", err)
		}
	}
	facts, err := r.settings.FactsOptions()
	if err != nil {
		return err
	}
	r.options = lint.Options{
		Input: r.Input, Snapshot: r.Snapshot, KubernetesVersion: version,
		Params: r.settings.Params, Off: r.off, Owners: facts.Owners, Catalog: facts.Catalog,
	}
	if err := r.options.Input.Exclude.Add(r.patternRoot(), r.settings.Exclude...); err != nil {
		return err
	}
	patterns := append(slices.Clone(r.Exclude), settings.FileName)
	for _, file := range ownFiles {
		if file != "" {
			patterns = append(patterns, "/"+globEscaper.Replace(r.relative(r.Input.Dir, file)))
		}
	}
	if err := r.options.Input.Exclude.Add(r.Input.Dir, patterns...); err != nil {
		return err
	}
	r.options.Policies = func() (*policies.Set, error) { return r.load(ctx) }
	if r.ChangedSince != "" {
		return r.findChanged(ctx)
	}
	return nil
}

var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`)

// readSettings also supplies unset flags.
func (r *runner) readSettings(ctx context.Context) error {
	file := r.Config
	if file == "" {
		for i, path := range r.Input.Paths {
			configFile, err := settings.Find(r.folder(path))
			if err != nil {
				return err
			}
			if i > 0 && configFile != file {
				return fmt.Errorf("%s has configuration %s, and %s has %s: lint them apart, or name one with --config", r.Input.Paths[0], cmp.Or(r.shorten(file), "none"), path, cmp.Or(r.shorten(configFile), "none"))
			}
			file = configFile
		}
	} else {
		file = files.Absolute(r.Input.Dir, file)
	}
	r.settings = &settings.Settings{}
	if file != "" {
		var err error
		if r.settings, err = settings.Load(r.shorten(file), r.trustBoundary(file)); err != nil {
			return err
		}
	}
	s := r.settings
	if r.trustBoundary(file) != "" {
		if r.NoRepoPolicies {
			s.Policies = nil
		}
		if r.Bound != nil && (len(s.Policies) > 0 || s.Snapshot != "") {
			r.Bound(foreignMemory)
		}
	}
	folders := slices.Concat(s.Policies, r.Policies)
	r.load = startAsync(func() (*policies.Set, error) { return r.Load(folders) })
	if s.NamesPolicies() || len(r.Only) > 0 {
		set, err := r.load(ctx)
		if err != nil {
			return err
		}
		if err := s.Check(set.IDs()); err != nil {
			return err
		}
		r.off = s.Off(set.IDs())
		for _, id := range r.Only {
			if !slices.Contains(set.IDs(), id) {
				return fmt.Errorf("--only: policy %q not found%s (see: termguard policy list)", id, nearest.Hint(id, set.IDs()))
			}
		}
		for _, id := range set.IDs() {
			if len(r.Only) > 0 && !slices.Contains(r.Only, id) {
				r.off[id] = true
			}
		}
	}
	s.File = file
	r.FailOn = cmp.Or(r.FailOn, s.FailOn, string(policies.Low))
	r.Snapshot = cmp.Or(r.Snapshot, s.Snapshot)
	r.KubernetesVersion = cmp.Or(r.KubernetesVersion, s.KubernetesVersion)
	r.Baseline = cmp.Or(r.Baseline, s.Baseline)
	return nil
}

// startAsync returns a function that waits for work, until its context ends.
func startAsync(work func() (*policies.Set, error)) func(context.Context) (*policies.Set, error) {
	var set *policies.Set
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = lint.CatchPanic(func() (err error) { set, err = work(); return err })
	}()
	return func(ctx context.Context) (*policies.Set, error) {
		select {
		case <-done:
		case <-ctx.Done():
			select { // done comes first
			case <-done:
			default:
				return nil, context.Cause(ctx)
			}
		}
		return set, err
	}
}

// trustBoundary returns the folder that a configuration may not refer outside of; "" if it is the user's, not
// the author's of the linted files.
func (r *runner) trustBoundary(file string) string {
	dir := filepath.Dir(file)
	root := files.Root(r.folder(r.Input.Paths[0]))
	switch {
	case root != "" && files.Within(root, file):
		return root
	case root == "" && files.Within(dir, r.folder(r.Input.Paths[0])): // lint would have found it
		return dir
	}
	return ""
}

func (r *runner) readBaseline() error {
	switch {
	case r.WriteBaseline && r.Baseline == "":
		return errors.New("say where to write the baseline: --baseline FILE")
	case r.WriteBaseline || r.Baseline == "":
		return nil
	}
	file, err := os.Open(r.Baseline)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the baseline %s does not exist: write it with --write-baseline", r.Baseline)
	case err != nil:
		return fmt.Errorf("read baseline: %w", err)
	}
	defer file.Close()
	if r.baseline, err = triage.ReadBaseline(file); err != nil {
		return fmt.Errorf("baseline %s: %w", r.Baseline, err)
	}
	return nil
}

func (r *runner) writeBaseline(b triage.Baseline, result *lint.Result) error {
	if len(result.Problems) > 0 {
		for _, problem := range result.Problems {
			fmt.Fprintln(r.Stderr, report.Problem(problem))
		}
		return fmt.Errorf("the baseline was not written: %s with the input, which may hide findings", page.Count(len(result.Problems), "problem"))
	}
	var text bytes.Buffer
	if err := b.Write(&text); err != nil {
		return err
	}
	if err := os.WriteFile(r.Baseline, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write baseline: %w", err)
	}
	fmt.Fprintf(r.Stderr, "termguard: wrote %s to %s\n", page.Count(len(b.Findings), "finding"), r.Baseline)
	return nil
}

func (r *runner) findChanged(ctx context.Context) error {
	root := files.Root(r.folder(r.Input.Paths[0]))
	for _, path := range r.Input.Paths {
		switch {
		case path == "-":
			return errors.New("--changed-since compares files: it cannot show changes in standard input")
		case files.Root(r.folder(path)) != root:
			return fmt.Errorf("--changed-since: %s and %s are in different repositories: lint them apart", r.Input.Paths[0], path)
		}
	}
	var err error
	if r.Input.Only, err = triage.Changed(ctx, r.folder(r.Input.Paths[0]), r.ChangedSince); err != nil {
		return fmt.Errorf("--changed-since: %w", err)
	}
	r.options.Input.Only = r.Input.Only
	return nil
}
