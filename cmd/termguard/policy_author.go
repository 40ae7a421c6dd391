package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"
	"github.com/spf13/cobra"

	"github.com/termguard/termguard/internal/policytest"
	"github.com/termguard/termguard/policies"
)

func newPolicyNew() *cobra.Command {
	var in string
	c := &cobra.Command{
		Use:     "new ID",
		Short:   "Write the folder of a new policy, with tests and fixtures, all of which pass",
		Example: "  termguard policy new no-fridays --in my-policies",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			made, err := policies.Scaffold(in, args[0])
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			fmt.Fprintf(out, "made %s: the rule, its tests in Rego, and manifests that it is tried on\n", made)
			fmt.Fprintf(out, "next: edit %s, and the tests and fixtures beside it, which speak of the rule as it is now; then run: termguard policy test %s\n", filepath.Join(made, filepath.Base(made)+".rego"), in)
			return nil
		},
	}
	c.Flags().StringVar(&in, "in", ".", "`FOLDER` that the policy's folder goes into")
	return c
}

// own loads the policies of folders, and of no other place.
func own(folders []string) (*policies.Set, error) {
	var from []fs.FS
	for _, folder := range folders {
		if _, err := os.ReadDir(folder); err != nil {
			return nil, fmt.Errorf("read policies: %w", err)
		}
		from = append(from, policies.Dir(folder))
	}
	set, err := policies.Load(from...)
	if err != nil {
		return nil, err
	}
	return set, cmp.Or(holdSome(set, folders), set.CheckFindings())
}

func newPolicyCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FOLDER...",
		Short: "Check policies of your own: that they compile, say what they are, and are not slow; and lint them",
		Long: `Check policies of your own: that they compile beside those of the binary, that their
METADATA and findings have the right shape, and that the webhook could ask them in time:
the steps of an evaluation are counted, over each fixture as it is and over one with its
objects many times over. Where regal is on the PATH, it lints them, too.

Exit codes: 0 nothing is wrong, or only slow, 1 regal found something, 2 error.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			mine, err := own(args)
			if err != nil {
				return err
			}
			set, err := (&settingsFlags{policies: args}).load(c.Context()) // beside those of the binary
			if err != nil {
				return err
			}
			if _, err := policies.NewEngine(c.Context(), set, policies.EngineOptions{}); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%d of %d policies are yours, and all compile\n", len(mine.Policies()), len(set.Policies()))
			for _, p := range mine.Policies() {
				if examples(os.DirFS(filepath.Dir(filepath.Dir(p.File))), p, "hang") == nil {
					fmt.Fprintf(c.OutOrStdout(), "note: %s has no testdata/hang_*.yaml: nothing shows that it finds anything\n", p.ID)
				}
				slow, err := slowest(c.Context(), mine, p)
				if err != nil {
					return err
				}
				if slow != "" {
					fmt.Fprintf(c.OutOrStdout(), "warning: %s is too slow for a webhook: %s; look for loops within loops\n", p.ID, slow)
				}
			}
			return regal(c.Context(), args, c.OutOrStdout())
		},
	}
}

// What an evaluation may take: policies of the binary need less than half of it, and one
// that compares each object with each needs more.
const (
	manyObjects = 200
	mostSteps   = 250_000
)

// slowest tells of the first fixture that a policy takes too long about, "" for none.
func slowest(ctx context.Context, set *policies.Set, p policies.Policy) (string, error) {
	steps := &policytest.Steps{Most: mostSteps}
	engine, err := only(ctx, set, p.ID, policies.EngineOptions{Deadline: 5 * time.Minute, Lazy: true, Tracer: steps}) // steps end it, on any machine
	if err != nil {
		return "", err
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(p.File), "testdata", "*.yaml")) // none where the folder has odd characters
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fixture, err := policytest.Parse(file, text)
		if err != nil {
			return "", err
		}
		if slow, err := fixture.Costs(ctx, engine, steps, manyObjects); slow != "" || err != nil {
			return slow, err
		}
	}
	return "", nil
}

// regal lints folders with Regal, which is a program of its own: as a library it would be
// the largest part of this one. Rules are left out that do not fit policies of termguard.
func regal(ctx context.Context, folders []string, out io.Writer) error {
	path, err := exec.LookPath("regal")
	if err != nil {
		fmt.Fprintln(out, "note: not linted: regal is not on the PATH (https://www.openpolicyagent.org/projects/regal)")
		return nil
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"lint", "--ignore-files=lib/*",
		"--disable=directory-package-mismatch", "--disable=no-defined-entrypoint", "--disable=unresolved-import", "--disable=unresolved-reference"}, folders...)...)
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return errFound
	}
	return err
}

// examples are the fixtures of a policy of one kind, hang or ok, in the folder
// that holds the policy's.
func examples(fsys fs.FS, p policies.Policy, kind string) []string {
	files, _ := fs.Glob(fsys, p.Folder+"/testdata/"+kind+"_*.yaml") // the pattern is good
	return files
}

// trying are the flags of policy test.
type trying struct {
	run       string
	threshold float64
	watch     bool
	verbose   bool
}

func newPolicyTest() *cobra.Command {
	var f trying
	c := &cobra.Command{
		Use:   "test FOLDER...",
		Short: "Run the tests in Rego and the fixtures of policies of your own",
		Long: `Run the tests in Rego and the fixtures of policies of your own.

FOLDER holds a folder for each policy: POLICY/POLICY.rego with tests in *_test.rego, and
manifests in testdata/hang_*.yaml (with a comment # want "REGEXP" on the line that a
finding points at) and testdata/ok_*.yaml (of which nothing may be found).

Exit codes: 0 all pass, 1 some fail, 2 error.`,
		Example: `  termguard policy test my-policies
  termguard policy test my-policies --run no_fridays --watch`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if f.watch {
				return f.again(c.Context(), args, c.OutOrStdout())
			}
			return f.once(c.Context(), args, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&f.run, "run", "", "only tests \"PACKAGE.test_NAME\" and fixtures \"POLICY/testdata/FILE\" that match this `REGEXP`")
	c.Flags().Float64Var(&f.threshold, "threshold", 0, "fail if the tests in Rego reach fewer `PERCENT` of a policy's lines")
	c.Flags().BoolVar(&f.watch, "watch", false, "run again whenever a file changes, until interrupted")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "list the lines that no test reaches")
	return c
}

// watchEvery is how often files are looked at.
const watchEvery = 300 * time.Millisecond

// again runs the tests, and again after each change, until ctx ends.
func (f *trying) again(ctx context.Context, folders []string, out io.Writer) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var last uint64
	for {
		if now := fingerprint(folders); now != last {
			last = now
			if err := f.once(ctx, folders, out); err != nil && !errors.Is(err, errFound) {
				fmt.Fprintf(out, "%v\n", err)
			}
			fmt.Fprintln(out, "waiting for a change (Ctrl-C ends)")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// fingerprint changes with the names, sizes and times of files.
func fingerprint(folders []string) uint64 {
	sum := fnv.New64a()
	for _, folder := range folders {
		_ = filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error { // what cannot be read is told by once
			if err != nil {
				return nil
			}
			if info, err := entry.Info(); err == nil && !entry.IsDir() {
				fmt.Fprintln(sum, file, info.Size(), info.ModTime().UnixNano())
			}
			return nil
		})
	}
	return sum.Sum64() | 1 // never that of nothing
}

// once runs all tests.
func (f *trying) once(ctx context.Context, folders []string, out io.Writer) error {
	wanted, err := regexp.Compile(f.run)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	set, err := own(folders)
	if err != nil {
		return err
	}
	engine, err := policies.NewEngine(ctx, set, policies.EngineOptions{Deadline: evaluation})
	if err != nil {
		return err
	}
	ran, failed := 0, false
	for _, folder := range folders {
		rego, err := policytest.Rego(ctx, folder, f.run)
		if err != nil {
			return err
		}
		for _, p := range set.Policies() {
			if !comesFrom(p, folder) {
				continue
			}
			tests := rego[p.Folder]
			if tests == nil {
				tests = &policytest.RegoTests{}
			}
			fixtures, problems := tryFixtures(ctx, engine, os.DirFS(folder), folder, p, wanted)
			if f.run == "" && tests.Coverage < f.threshold {
				problems = append(problems, fmt.Sprintf("%s: tests in Rego reach %.0f %% of its lines, want %.0f %%", p.File, tests.Coverage, f.threshold))
			}
			problems = append(slices.Clone(tests.Failed), problems...)
			n := tests.Passed + len(tests.Failed) + fixtures
			ran += n
			if n == 0 && f.run != "" {
				continue
			}
			word := "ok  "
			if len(problems) > 0 {
				word, failed = "FAIL", true
			}
			fmt.Fprintf(out, "%s  %s: %d tests in Rego, %d fixtures, %.0f %% of its lines reached\n", word, p.ID, tests.Passed+len(tests.Failed), fixtures, tests.Coverage)
			for _, problem := range problems {
				fmt.Fprintf(out, "      %s\n", problem)
			}
			if tests.Printed != "" {
				fmt.Fprintf(out, "%s\n", strings.TrimSuffix(tests.Printed, "\n"))
			}
			if f.verbose {
				for _, line := range tests.NotCovered {
					fmt.Fprintf(out, "      not reached: %s\n", line)
				}
			}
		}
	}
	switch {
	case failed:
		return errFound
	case ran == 0 && f.run != "":
		return fmt.Errorf("no test matches --run %q", f.run)
	case ran == 0:
		return errors.New("no tests: write POLICY/POLICY_test.rego or POLICY/testdata/hang_*.yaml, as termguard policy new does")
	}
	return nil
}

// tryFixtures tries a policy's fixtures, and tells how many there are, and what is
// wrong.
func tryFixtures(ctx context.Context, engine *policies.Engine, fsys fs.FS, dir string, p policies.Policy, wanted *regexp.Regexp) (n int, problems []string) {
	files, _ := fs.Glob(fsys, p.Folder+"/testdata/*.yaml") // the pattern is good
	for _, file := range files {
		if !wanted.MatchString(file) {
			continue
		}
		n++
		wrong, err := tryFixture(ctx, engine, fsys, dir, file)
		if err != nil {
			wrong = []string{err.Error()}
		}
		problems = append(problems, wrong...)
	}
	return n, problems
}

func tryFixture(ctx context.Context, engine *policies.Engine, fsys fs.FS, dir, file string) ([]string, error) {
	fixture, result, err := evaluateFixture(ctx, engine, fsys, dir, file)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, err := range result.Errors {
		problems = append(problems, fmt.Sprintf("%s: %v", fixture.File, err))
	}
	kind, _, _ := strings.Cut(filepath.Base(file), "_")
	if kind != "hang" && kind != "ok" || (kind == "hang") != fixture.Hangs() {
		problems = append(problems, fixture.File+": name it hang_*.yaml if it has a comment # want \"REGEXP\", and ok_*.yaml if it has none")
	}
	return append(problems, fixture.Problems(result.Findings)...), nil
}

func evaluateFixture(ctx context.Context, engine *policies.Engine, fsys fs.FS, dir, file string) (policytest.Fixture, policies.Result, error) {
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		return policytest.Fixture{}, policies.Result{}, err
	}
	fixture, err := policytest.Parse(filepath.Join(dir, file), text)
	if err != nil {
		return fixture, policies.Result{}, err
	}
	prepared, err := fixture.Prepare()
	if err != nil {
		return fixture, policies.Result{}, err
	}
	result, err := prepared.Evaluate(ctx, engine)
	return fixture, result, err
}

// explainExample shows the first manifest that a policy finds something in, and
// what it says of it.
func explainExample(ctx context.Context, out io.Writer, set *policies.Set, p policies.Policy, folders []string) error {
	fsys, dir := policies.Examples(), "policies"
	for _, folder := range folders {
		if comesFrom(p, folder) {
			fsys, dir = os.DirFS(folder), folder
		}
	}
	files := examples(fsys, p, "hang")
	if len(files) == 0 {
		return nil
	}
	engine, err := only(ctx, set, p.ID, policies.EngineOptions{Deadline: evaluation, Lazy: true})
	if err != nil {
		return err
	}
	_, result, err := evaluateFixture(ctx, engine, fsys, dir, files[0])
	if err != nil {
		return err
	}
	text, err := fs.ReadFile(fsys, files[0])
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nAn example (%s)\n", filepath.Join(dir, files[0]))
	for line := range strings.Lines(string(text)) {
		fmt.Fprint(out, "  ", line)
	}
	fmt.Fprintln(out, "\nWhat it says of it")
	for _, finding := range result.Findings {
		fmt.Fprintln(out, wrap(finding.Says()+": "+finding.Message))
	}
	return nil
}

// only is an engine that asks one policy of a set.
func only(ctx context.Context, set *policies.Set, id string, options policies.EngineOptions) (*policies.Engine, error) {
	options.Off = map[string]bool{}
	for _, other := range set.IDs() {
		options.Off[other] = other != id
	}
	return policies.NewEngine(ctx, set, options)
}

func newPolicyFmt() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "fmt FOLDER...",
		Short: "Format the Rego of policies, as opa fmt does",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			changed, err := formatAll(args, !check)
			for _, file := range changed {
				fmt.Fprintln(c.OutOrStdout(), file)
			}
			if err == nil && check && len(changed) > 0 {
				return errFound
			}
			return err
		},
	}
	c.Flags().BoolVar(&check, "check", false, "write nothing: list the files that are not formatted, and exit with 1 if there are some")
	return c
}

// formatAll formats the Rego below folders, and returns the files that differ.
func formatAll(folders []string, write bool) (changed []string, err error) {
	files := map[string]bool{}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && filepath.Ext(file) == ".rego" {
				files[file] = true
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read policies: %w", err)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Rego in %s", strings.Join(folders, ", "))
	}
	var errs []error
	for _, file := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		formatted, err := format.SourceWithOpts(file, text, format.Opts{RegoVersion: ast.RegoV1})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if bytes.Equal(text, formatted) {
			continue
		}
		changed = append(changed, file)
		if write {
			if err := os.WriteFile(file, formatted, 0o644); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return changed, errors.Join(errs...)
}

func newPolicyLib() *cobra.Command {
	return &cobra.Command{
		Use:   "lib FOLDER",
		Short: "Write the library and the schemas beside your policies, for editors, opa and regal",
		Long: `Write the library (lib/) and the schemas (schema/) of this binary into FOLDER, beside your
policies, for editors and other tools. Policies use those in the binary: what is written
here is for reading, and policy check says when it is out of date. Settings for Regal, and so
for its language server in editors, are written where there are none (.regal/config.yaml).

  opa check --strict --schema FOLDER/schema FOLDER
  regal lint FOLDER`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := policies.ExportLibrary(args[0]); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "wrote lib/ and schema/ into %s\n", args[0])
			return nil
		},
	}
}
