package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/internal/policytest"
	"github.com/termguard/termguard/policies"
)

func newPolicyNew() *cobra.Command {
	var in string
	c := &cobra.Command{
		Use:     "new ID",
		Short:   "Write the folder of a new policy, with fixtures, all of which pass",
		Example: "  termguard policy new no-fridays --in my-policies",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			made, err := policies.Scaffold(in, args[0])
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			fmt.Fprintf(out, "created %s: the rule, its fixtures, and the findings in each\n", made)
			fmt.Fprintf(out, "next: edit %s and its fixtures in testdata, which fit the rule as it is now; then run: termguard policy test %s --update\n", filepath.Join(made, filepath.Base(made)+".rego"), in)
			return nil
		},
	}
	c.Flags().StringVar(&in, "in", ".", "`FOLDER` that the policy's folder goes into")
	return c
}

// own loads the policies of folders only.
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
	return set, cmp.Or(holdSome(set, folders), checkIDs(set))
}

// checkIDs rejects ids of policies in the binary, except in the folder that it was built from, which has all
// of them.
func checkIDs(set *policies.Set) error {
	ours, ids := policies.EmbeddedIDs(), set.IDs()
	if !slices.ContainsFunc(ours, func(id string) bool { return !slices.Contains(ids, id) }) {
		return nil
	}
	for _, p := range set.Policies() {
		if slices.Contains(ours, p.ID) {
			return fmt.Errorf("%s: policy id %q: %w, in termguard itself; choose another id", p.File, p.ID, policies.ErrExists)
		}
	}
	return nil
}

type testFlags struct {
	run       string
	threshold float64
	verbose   bool
	update    bool
}

func newPolicyTest() *cobra.Command {
	var f testFlags
	c := &cobra.Command{
		Use:   "test FOLDER...",
		Short: "Test your own policies on their fixtures",
		Long: `Test your own policies on their fixtures. Before, they must compile, and their METADATA and
findings must have the right shape. To format them and lint them, use opa fmt and regal lint.

FOLDER holds a folder for each policy: POLICY/POLICY.rego, and manifests in
testdata/hang_*.yaml (with a comment # want "REGEXP" on the line that a finding points
at) and testdata/ok_*.yaml (of which nothing may be found). testdata/findings.golden holds
the findings whole; --update writes it. Tests in Rego (*_test.rego) are for opa test.

Exit codes: 0 all pass, 1 some fail, 2 error.`,
		Example: `  termguard policy test my-policies
  termguard policy test my-policies --run no_fridays
  termguard policy test my-policies --update && git diff`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return f.try(c.Context(), args, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&f.run, "run", "", "only fixtures \"POLICY/testdata/FILE\" that match this `REGEXP`")
	c.Flags().Float64Var(&f.threshold, "threshold", 0, "fail if the fixtures reach fewer `PERCENT` of a policy's lines")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "list the lines that no fixture reaches")
	c.Flags().BoolVar(&f.update, "update", false, "rewrite testdata/findings.golden: read the diff")
	c.MarkFlagsMutuallyExclusive("run", "update")
	return c
}

func (f *testFlags) try(ctx context.Context, folders []string, out io.Writer) error {
	pattern, err := regexp.Compile(f.run)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	set, err := own(folders)
	if err != nil {
		return err
	}
	tracer := policytest.NewTracer()
	engine, err := policies.NewEngine(ctx, set, policies.EngineOptions{Deadline: evaluation, Tracer: tracer})
	if err != nil {
		return err
	}
	ran, failed := 0, false
	for _, folder := range folders {
		for _, p := range set.Policies() {
			if !comesFrom(p, folder) {
				continue
			}
			tracer.Reset()
			golden := policytest.NewGolden(set)
			files, _ := fs.Glob(os.DirFS(folder), p.Folder+"/testdata/*.yaml") // the pattern is valid
			fixtures, hangs := 0, false
			var problems []string
			for _, file := range files {
				hangs = hangs || strings.HasPrefix(filepath.Base(file), "hang_")
				if pattern.MatchString(file) {
					fixtures++
					problems = append(problems, tryFixture(ctx, engine, golden, filepath.Join(folder, file))...)
				}
			}
			if ran += fixtures; fixtures == 0 && f.run != "" {
				continue
			}
			reached, missed, err := tracer.Covered(os.DirFS(folder), folder, p.Folder)
			if err != nil {
				return err
			}
			if f.run == "" && fixtures > 0 {
				if wrong := f.compare(golden, filepath.Join(folder, p.Folder, "testdata", policytest.GoldenFile)); wrong != "" {
					problems = append(problems, wrong)
				}
				if reached < f.threshold {
					problems = append(problems, fmt.Sprintf("%s: fixtures reach %.0f %% of its lines, want %.0f %%", p.File, reached, f.threshold))
				}
			}
			word := "ok  "
			if len(problems) > 0 {
				word, failed = "FAIL", true
			}
			fmt.Fprintf(out, "%s  %s: %d fixtures, %.0f %% of its lines reached\n", word, p.ID, fixtures, reached)
			for _, problem := range problems {
				fmt.Fprintf(out, "      %s\n", problem)
			}
			if !hangs {
				fmt.Fprintln(out, "      no testdata/hang_*.yaml: no fixture shows that it finds anything")
			}
			if f.verbose {
				for _, line := range missed {
					fmt.Fprintf(out, "      not reached: %s\n", line)
				}
			}
		}
	}
	switch {
	case failed:
		return errFindings
	case ran == 0 && f.run != "":
		return fmt.Errorf("no fixture matches --run %q", f.run)
	case ran == 0:
		return errors.New("no fixtures: write POLICY/testdata/hang_*.yaml, as termguard policy new does")
	}
	return nil
}

func (f *testFlags) compare(golden *policytest.Golden, file string) string {
	if f.update {
		if err := os.WriteFile(file, []byte(golden.String()), 0o644); err != nil {
			return err.Error()
		}
		return ""
	}
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	if at := golden.Differs(string(want)); at != "" {
		return filepath.Join(filepath.Dir(file), at) + " (--update writes it)"
	}
	return ""
}

func tryFixture(ctx context.Context, engine *policies.Engine, golden *policytest.Golden, file string) []string {
	var prepared policytest.Prepared
	var result policies.Result
	text, err := os.ReadFile(file)
	if err == nil {
		var fixture policytest.Fixture
		if fixture, err = policytest.Parse(file, text); err == nil {
			prepared, err = fixture.Prepare()
		}
	}
	if err == nil {
		result, err = prepared.Evaluate(ctx, engine)
	}
	if err != nil {
		return []string{err.Error()}
	}
	golden.Add(filepath.Base(file), result)
	var problems []string
	for _, err := range result.Errors {
		problems = append(problems, fmt.Sprintf("%s: %v", file, err))
	}
	kind, _, _ := strings.Cut(filepath.Base(file), "_")
	if kind != "hang" && kind != "ok" || (kind == "hang") != prepared.Hangs() {
		problems = append(problems, file+": name it hang_*.yaml if it has a comment # want \"REGEXP\", and ok_*.yaml if it has none")
	}
	return append(problems, prepared.Problems(result.Findings)...)
}
