package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/report"
	"github.com/termguard/termguard/lint/settings"
	"github.com/termguard/termguard/lint/tree"
	"github.com/termguard/termguard/lint/triage"
	"github.com/termguard/termguard/policies"
)

// linting are the flags of the lint command.
type linting struct {
	policies       settingsFlags
	config         string
	outputs        []string
	exclude        []string
	failOn         string
	snapshot       string
	version        string
	baseline       string
	writeBaseline  bool
	render         bool
	noRepoPolicies bool
	timeout        time.Duration
	changedSince   string
	explain        string

	stdin          io.Reader
	stdout, stderr io.Writer
}

func newLint() *cobra.Command {
	var f linting
	c := &cobra.Command{
		Use:   "lint PATH...",
		Short: "Find what in manifests would make a later deletion hang",
		Long: `Find what in manifests would make a later deletion hang.

A PATH is a file, a folder, or - for standard input. Each object is asked about:
if it is deleted later, if its namespace is, if kubectl delete -f runs on all of
it, and if it is applied. No network connection is opened.

` + settings.FileName + ` is looked for beside the first PATH and upwards, as far as the root
of the repository. Flags come before what it says.

Exit codes: 0 nothing was found, 1 findings at or above --fail-on, 2 an input
that could not be read, wrong usage, or an internal error.`,
		Example: `  termguard lint .
  helm template . | termguard lint -
  termguard lint deploy/ -o text -o sarif=termguard.sarif
  termguard lint . --baseline known.json --write-baseline
  termguard lint . --changed-since origin/main
  termguard lint --explain orphaned-finalizer`,
		RunE: func(c *cobra.Command, args []string) error {
			f.stdin, f.stdout, f.stderr = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
			if f.explain != "" {
				return f.explainPolicy()
			}
			return f.run(c.Context(), args)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.config, "config", "", "configuration `FILE`, kind LintConfig (default: "+settings.FileName+" beside the first PATH and upwards)")
	f.policies.addPolicies(flags)
	flags.StringArrayVarP(&f.outputs, "output", "o", []string{"text"}, "`FORMAT[=FILE]`: text, json, sarif, junit or github (may be repeated)")
	flags.StringArrayVar(&f.exclude, "exclude", nil, "`PATTERN`, as in .gitignore, of what folders are searched without (may be repeated)")
	flags.StringVar(&f.failOn, "fail-on", "", "least `SEVERITY` that makes the exit code 1: high, medium, low, info or never (default: low)")
	flags.StringVar(&f.snapshot, "snapshot", "", "facts of the cluster that the manifests are for: a `FILE` written by termguard snapshot")
	flags.StringVar(&f.version, "kubernetes-version", "", "`VERSION` of the API server that the manifests are for (default: that of the snapshot)")
	flags.StringVar(&f.baseline, "baseline", "", "leave out the findings that this `FILE` knows")
	flags.BoolVar(&f.writeBaseline, "write-baseline", false, "write the findings of this run to the --baseline file")
	flags.StringVar(&f.changedSince, "changed-since", "", "ask only about files that changed since the branch, tag or commit `REF`, by git")
	flags.BoolVar(&f.render, "render", false, "let helm, kustomize or kubectl, where they are in PATH, render charts and the kustomization of a folder that is named")
	flags.BoolVar(&f.noRepoPolicies, "no-repo-policies", false, "do not load the policies that the configuration in the repository names: who writes a pull request writes them, too")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "stop after this time, and report what was found until then; 0 for never")
	flags.StringVar(&f.explain, "explain", "", "explain the policy with this `ID`, and do nothing else")
	c.MarkFlagsMutuallyExclusive("write-baseline", "changed-since")
	return c
}

func (f *linting) explainPolicy() error {
	set, err := f.policies.load()
	if err != nil {
		return err
	}
	all := append(set.Policies(), triage.Policies()...)
	at := slices.IndexFunc(all, func(p policies.Policy) bool { return p.ID == f.explain })
	if at < 0 {
		return fmt.Errorf("there is no policy %q%s (see: termguard policy list)", f.explain, nearest.Hint(f.explain, idsOf(set)))
	}
	explain(f.stdout, all[at])
	return nil
}

// plan is what a run does, from flags and configuration.
type plan struct {
	settings *settings.Settings
	load     func(context.Context) (*policies.Set, error) // loads the policies, once
	off      map[string]bool
	options  lint.Options
	outputs  []output
	cwd      string
	changed  map[string]bool // by absolute path; nil where all files are meant
	baseline triage.Baseline
	heap     heap
}

// foreignMemory bounds the process, in bytes, where whoever wrote the repository
// wrote policies or a snapshot, too: a few lines of Rego can ask for any amount. It
// is more than five times what large repositories take.
const foreignMemory = 2 << 30

func (f *linting) run(ctx context.Context, paths []string) error {
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("--timeout of %v has passed", f.timeout))
		defer cancel()
	}
	p := &plan{}
	p.heap.start()
	defer p.heap.stop()
	if err := f.plan(ctx, p, paths); err != nil {
		return err
	}
	done := f.progress()
	result, err := lint.Run(ctx, p.options)
	done()
	stopped := result != nil && err != nil
	switch {
	case stopped:
		err = fmt.Errorf("stopped, as %w: more may be wrong than was found", err)
		result.Notes = append(result.Notes, err.Error())
	case errors.Is(err, lint.ErrNothing) && p.changed != nil:
		result, err = &lint.Result{}, nil
	case errors.Is(err, lint.ErrNothing):
		return fmt.Errorf("%w; name files or folders that hold manifests, or - for standard input", err)
	case err != nil:
		return err
	}
	set, loadErr := p.load(ctx)
	if loadErr != nil {
		return loadErr
	}
	p.onlyChanged(result, f.changedSince)
	kept, suppressed := triage.Suppress(result, triage.Options{
		Known: idsOf(set), Off: p.off, Ignore: p.settings.Ignore, File: p.shown(p.settings.File), Partial: p.changed != nil, Asked: p.asked,
		Stopped: stopped, Rel: func(file string) string { return p.relative(p.patterns(), file) },
	})
	fromRoot := func(file string) string { return p.relative(p.root(), file) }
	prints := lint.Fingerprints(kept, fromRoot)
	if f.writeBaseline {
		if stopped {
			return fmt.Errorf("the baseline was not written: %w", err)
		}
		return f.write(triage.NewBaseline(kept, prints, fromRoot), result)
	}
	r := report.Report{
		Suppressed: suppressed, Problems: result.Problems, Notes: result.Notes,
		Files: result.Files, Documents: result.Documents, Objects: result.Objects, Skipped: result.Skipped,
		Policies: append(set.Policies(), triage.Policies()...), Version: versionOf(), Rel: fromRoot,
	}
	var gone int
	r.Findings, r.Fingerprints, r.Known, gone = p.baseline.Compare(kept, prints)
	if gone > 0 && p.changed == nil && len(result.Problems) == 0 && !stopped {
		r.Notes = append(r.Notes, fmt.Sprintf("%d of the findings in the baseline %s are gone: write it anew with --write-baseline", gone, f.baseline))
	}
	if !stopped {
		err = verdict(r, f.failOn)
	}
	r.ExitCode = exitCode(err)
	if written := f.report(p.outputs, r); written != nil {
		return written
	}
	return err
}

// verdict is how a run ends that could do its work.
func verdict(r report.Report, failOn string) error {
	if n := len(r.Problems); n > 0 {
		return fmt.Errorf("%s with the input: more may be wrong than was found", counted(n, "problem"))
	}
	if slices.ContainsFunc(r.Findings, func(found lint.Finding) bool { return report.Fails(found, failOn) }) {
		return errFound
	}
	return nil
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// plan reads what the run goes by. Everything that can be wrong about it is
// found here, before the work.
func (f *linting) plan(ctx context.Context, p *plan, paths []string) error {
	if len(paths) == 0 {
		return errors.New("say what to lint: PATH..., where - is standard input; see termguard lint --help")
	}
	var err error
	if p.cwd, err = os.Getwd(); err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	if p.outputs, err = outputs(f.outputs); err != nil {
		return err
	}
	if err := f.readSettings(ctx, p, paths); err != nil {
		return err
	}
	if !slices.Contains(settings.FailOn(), f.failOn) {
		return fmt.Errorf("--fail-on is %q: want %s", f.failOn, settings.Or(settings.FailOn()))
	}
	version := f.version
	if version != "" {
		v, err := semver.ParseTolerant(version)
		if err != nil {
			return fmt.Errorf("the Kubernetes version is %q: want one like 1.36 or v1.36.3", version)
		}
		version = "v" + v.String()
	}
	if err := f.readBaseline(p); err != nil {
		return err
	}
	for _, o := range p.outputs {
		if err := p.writable(o.file); err != nil {
			return fmt.Errorf("-o %s=%s: %w", o.format, o.file, err)
		}
	}
	if f.writeBaseline {
		if err := p.writable(f.baseline); err != nil {
			return fmt.Errorf("--baseline: %w", err)
		}
	}
	p.options = lint.Options{
		Paths: paths, Stdin: f.stdin, Dir: p.cwd, Exclude: f.exclude, Render: f.render,
		Snapshot: f.snapshot, KubernetesVersion: version,
		Large: p.heap.large, Params: p.settings.Params, Off: p.off, Owners: p.settings.FinalizerOwners, Catalog: p.settings.Catalog,
	}
	if p.settings.File != "" {
		p.options.Exclude = append(settings.Rebase(p.settings.Exclude, p.patterns(), p.cwd), f.exclude...)
	}
	// What lint itself reads and writes is no manifest.
	p.options.Exclude = append(p.options.Exclude, settings.FileName)
	own := []string{f.baseline, f.snapshot}
	for _, o := range p.outputs {
		own = append(own, o.file)
	}
	for _, file := range own {
		if file != "" {
			p.options.Exclude = append(p.options.Exclude, "/"+globbed.Replace(p.relative(p.cwd, file)))
		}
	}
	p.options.Policies = func() (*policies.Set, error) { return p.load(ctx) }
	if f.changedSince != "" {
		return p.findChanged(ctx, paths, f.changedSince)
	}
	return nil
}

// globbed escapes what patterns as in .gitignore take for more than itself.
var globbed = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`)

// readSettings finds the configuration and the policies; flags that are not set
// take its values.
func (f *linting) readSettings(ctx context.Context, p *plan, paths []string) error {
	file := f.config
	if file == "" {
		for i, path := range paths {
			found, err := settings.Find(p.folder(path))
			if err != nil {
				return err
			}
			if i > 0 && found != file {
				return fmt.Errorf("%s goes by %s, and %s by %s: lint them apart, or name one with --config", paths[0], p.orNone(file), path, p.orNone(found))
			}
			file = found
		}
	} else {
		file = p.absolute(file)
	}
	p.settings = &settings.Settings{}
	if file != "" {
		var err error
		if p.settings, err = settings.Load(p.shown(file), p.bounds(file, paths)); err != nil {
			return err
		}
	}
	s := p.settings
	if p.bounds(file, paths) != "" {
		if f.noRepoPolicies {
			s.Policies = nil
		}
		if len(s.Policies) > 0 || s.Snapshot != "" {
			p.heap.bound(foreignMemory)
		}
	}
	f.policies.policies = append(slices.Clone(s.Policies), f.policies.policies...)
	p.load = soon(f.policies.load) // while files are read
	if s.NamesPolicies() {
		set, err := p.load(ctx)
		if err != nil {
			return err
		}
		if err := s.Check(idsOf(set)); err != nil {
			return err
		}
		p.off = s.Enforcement.Off(idsOf(set))
	}
	s.File = file
	for _, value := range []struct {
		flag   *string
		values []string
	}{
		{&f.failOn, []string{s.FailOn, string(policies.Low)}},
		{&f.snapshot, []string{s.Snapshot}},
		{&f.version, []string{s.KubernetesVersion}},
		{&f.baseline, []string{s.Baseline}},
	} {
		for _, v := range value.values {
			if *value.flag == "" {
				*value.flag = v
			}
		}
	}
	return nil
}

// soon starts work, and returns what waits for it, until a context ends.
func soon[T any](work func() (T, error)) func(context.Context) (T, error) {
	var value T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err = work()
	}()
	return func(ctx context.Context) (T, error) {
		select {
		case <-done:
			return value, err
		default:
		}
		select {
		case <-done:
			return value, err
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
	}
}

// bounds is the folder that a configuration may not name anything outside of,
// "" where it may: whoever starts lint wrote it, not whoever wrote what is linted.
func (p *plan) bounds(file string, paths []string) string {
	dir := filepath.Dir(file)
	root := tree.Root(p.folder(paths[0]))
	switch {
	case root != "" && tree.Within(root, file):
		return root
	case root == "" && tree.Within(dir, p.folder(paths[0])): // it would have been found
		return dir
	}
	return ""
}

func (f *linting) readBaseline(p *plan) error {
	switch {
	case f.writeBaseline && f.baseline == "":
		return errors.New("say where to write the baseline: --baseline FILE")
	case f.writeBaseline || f.baseline == "":
		return nil
	}
	file, err := os.Open(f.baseline)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the baseline %s does not exist: write it with --write-baseline", f.baseline)
	case err != nil:
		return fmt.Errorf("read baseline: %w", err)
	}
	defer file.Close()
	if p.baseline, err = triage.ReadBaseline(file); err != nil {
		return fmt.Errorf("baseline %s: %w", f.baseline, err)
	}
	return nil
}

// write writes a baseline. Without all inputs it would not know all findings.
func (f *linting) write(b triage.Baseline, result *lint.Result) error {
	if len(result.Problems) > 0 {
		for _, problem := range result.Problems {
			fmt.Fprintln(f.stderr, report.Problem(problem))
		}
		return fmt.Errorf("the baseline was not written: %s with the input, which may hide findings", counted(len(result.Problems), "problem"))
	}
	var text bytes.Buffer
	if err := b.Write(&text); err != nil {
		return err
	}
	if err := os.WriteFile(f.baseline, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write baseline: %w", err)
	}
	fmt.Fprintf(f.stderr, "termguard: wrote %s to %s\n", counted(len(b.Findings), "finding"), f.baseline)
	return nil
}

// findChanged asks git for the files to ask about.
func (p *plan) findChanged(ctx context.Context, paths []string, ref string) error {
	root := tree.Root(p.folder(paths[0]))
	for _, path := range paths {
		switch {
		case path == "-":
			return errors.New("--changed-since goes by files: it cannot tell what changed in standard input")
		case tree.Root(p.folder(path)) != root:
			return fmt.Errorf("--changed-since: %s and %s are in different repositories: lint them apart", paths[0], path)
		}
	}
	files, err := triage.Changed(ctx, p.folder(paths[0]), ref)
	if err != nil {
		return fmt.Errorf("--changed-since: %w", err)
	}
	p.changed = map[string]bool{}
	p.options.Only = []string{}
	for _, file := range files {
		p.changed[file] = true
		p.options.Only = append(p.options.Only, p.relative(p.cwd, file))
	}
	return nil
}

// onlyChanged takes from a result problems with files that did not change.
func (p *plan) onlyChanged(result *lint.Result, ref string) {
	if p.changed == nil {
		return
	}
	before := len(result.Problems)
	result.Problems = slices.DeleteFunc(result.Problems, func(problem lint.Problem) bool { return !p.asked(problem.File) })
	if n := before - len(result.Problems); n > 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("%s with files that did not change since %s: lint without --changed-since to see them", counted(n, "problem"), ref))
	}
	if len(p.changed) == 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("nothing changed since %s", ref))
	}
}

// asked tells whether a file is asked about.
func (p *plan) asked(file string) bool { return p.changed == nil || p.changed[p.absolute(file)] }

// folder of a path that was given.
func (p *plan) folder(path string) string {
	if path == "-" {
		return p.cwd
	}
	path = p.absolute(path)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	return filepath.Dir(path)
}

func (p *plan) absolute(path string) string {
	path = filepath.FromSlash(path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.cwd, path)
	}
	return filepath.Clean(path)
}

// relative is a file below a folder, with forward slashes; the file itself
// where it is elsewhere.
func (p *plan) relative(folder, file string) string {
	if file == "-" {
		return file
	}
	path := p.absolute(file)
	if rel, err := filepath.Rel(folder, path); err == nil && (filepath.IsLocal(rel) || folder == p.cwd) {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(path)
}

// shown is a file as it is shortest from the working directory.
func (p *plan) shown(file string) string {
	if rel, err := filepath.Rel(p.cwd, file); err == nil && len(rel) < len(file) {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(file)
}

func (p *plan) orNone(file string) string {
	if file == "" {
		return "none"
	}
	return p.shown(file)
}

// root is where fingerprints and machines count paths from: the root of the
// repository, or else the folder of the configuration, or else this one.
func (p *plan) root() string {
	from := p.folder(p.options.Paths[0])
	if root := tree.Root(from); root != "" {
		return root
	}
	if p.settings.File != "" && p.bounds(p.settings.File, p.options.Paths) != "" {
		return filepath.Dir(p.settings.File)
	}
	return p.cwd
}

// patterns are rooted in the folder of the configuration; in root, where it comes
// from elsewhere.
func (p *plan) patterns() string {
	if p.settings.File != "" && p.bounds(p.settings.File, p.options.Paths) != "" {
		return filepath.Dir(p.settings.File)
	}
	return p.root()
}

// writable refuses a file in a repository that is a link out of it: whoever wrote
// the repository would choose what is overwritten.
func (p *plan) writable(file string) error {
	if file == "" {
		return nil
	}
	file = p.absolute(file)
	if root := tree.Root(filepath.Dir(file)); root != "" {
		if err := tree.Inside(root, file); err != nil {
			return fmt.Errorf("%w; remove the link", err)
		}
	}
	return nil
}

// output is a format, and the file that it goes to; "" is standard output.
type output struct{ format, file string }

// outputs reads FORMAT[=FILE].
func outputs(values []string) ([]output, error) {
	var all []output
	taken := map[string]string{}
	for _, value := range values {
		format, file, named := strings.Cut(value, "=")
		if !slices.Contains(report.Names(), format) {
			return nil, fmt.Errorf("unknown output %q: use %s", format, settings.Or(report.Names()))
		}
		if named && file == "" {
			return nil, fmt.Errorf("-o %s: name the file behind =", value)
		}
		if file == "-" {
			file = ""
		}
		if other, twice := taken[file]; twice {
			where := file
			if where == "" {
				where = "standard output"
			}
			return nil, fmt.Errorf("-o %s and -o %s both go to %s: name another file, as in -o %s=FILE", other, format, where, format)
		}
		taken[file] = format
		all = append(all, output{format, file})
	}
	return all, nil
}

// report writes all outputs. Where standard output gets no text, what a person
// needs to know goes to standard error.
func (f *linting) report(all []output, r report.Report) error {
	text := false
	var errs []error
	for _, o := range all {
		write := report.Formats()[o.format]
		if o.file == "" {
			if o.format == "text" {
				text = true
				write = report.Text{Color: colored(f.stdout)}.Write
			}
			if err := write(r, f.stdout); err != nil {
				errs = append(errs, fmt.Errorf("write the report: %w", err))
			}
			continue
		}
		var b bytes.Buffer
		if err := write(r, &b); err != nil {
			errs = append(errs, fmt.Errorf("write the report as %s: %w", o.format, err))
			continue
		}
		if err := os.WriteFile(o.file, b.Bytes(), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("write the report: %w", err))
		}
	}
	if !text {
		for _, problem := range r.Problems {
			fmt.Fprintln(f.stderr, report.Problem(problem))
		}
		fmt.Fprintf(f.stderr, "termguard: %s\n", r.Summary())
	}
	return errors.Join(errs...)
}

// terminal tells whether people look at a stream.
func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// colored tells whether a stream is to be coloured (https://no-color.org).
func colored(out io.Writer) bool {
	return terminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// progress tells whoever waits at a terminal that work is going on, once it has
// taken a second.
func (f *linting) progress() (done func()) {
	if !terminal(f.stderr) {
		return func() {}
	}
	timer := time.AfterFunc(time.Second, func() { fmt.Fprintln(f.stderr, "termguard: reading manifests and asking the policies …") })
	return func() { timer.Stop() }
}
