package policytest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"

	"github.com/termguard/termguard/policies"
)

// testTimeout bounds one test in Rego.
const testTimeout = 30 * time.Second

// RegoTests are what the tests of one policy in Rego came to.
type RegoTests struct {
	Passed int
	// Failed is a line for each: where it is, and what it said.
	Failed []string
	// Coverage of the policy's lines by its tests, in percent, and those that none
	// reaches, as FILE:LINE.
	Coverage   float64
	NotCovered []string
	// Printed is what the tests printed.
	Printed string
}

// Rego runs the tests of the policies below dir, those whose name
// "PACKAGE.test_NAME" matches the regular expression run ("": all), and returns
// what they came to, by folder. Policies see the library of the binary, and each
// other.
func Rego(ctx context.Context, dir, run string) (map[string]*RegoTests, error) {
	modules, err := parseAll(dir)
	if err != nil {
		return nil, err
	}
	compiler := ast.NewCompiler().WithCapabilities(policies.Capabilities()).WithEnablePrintStatements(true)
	coverage := cover.New()
	store := inmem.New()
	found := map[string]*RegoTests{}
	of := func(file string) *RegoTests {
		folder := filepath.Base(filepath.Dir(file))
		if found[folder] == nil {
			found[folder] = &RegoTests{}
		}
		return found[folder]
	}
	err = storage.Txn(ctx, store, storage.TransactionParams{}, func(txn storage.Transaction) error {
		results, err := tester.NewRunner().SetStore(store).SetCompiler(compiler).SetModules(modules).SetCoverageQueryTracer(coverage).
			CapturePrintOutput(true).SetTimeout(testTimeout).Filter(run).RunTests(ctx, txn)
		if err != nil {
			return err
		}
		for result := range results {
			its := of(result.Location.File)
			its.Printed += string(result.Output)
			switch {
			case result.Pass():
				its.Passed++
			case result.Skip:
			default:
				its.Failed = append(its.Failed, failure(result))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("test the Rego in %s: %w", dir, err)
	}
	lines := map[string][2]int{} // covered and not, by folder
	for file, module := range modules {
		if strings.HasSuffix(file, "_test.rego") || !strings.HasPrefix(file, dir+string(filepath.Separator)) {
			continue
		}
		its, folder := of(file), filepath.Base(filepath.Dir(file))
		for _, report := range coverage.Report(map[string]*ast.Module{file: module}).Files {
			lines[folder] = [2]int{lines[folder][0] + report.CoveredLines, lines[folder][1] + report.NotCoveredLines}
			for _, missed := range report.NotCovered {
				its.NotCovered = append(its.NotCovered, fmt.Sprintf("%s:%d", file, missed.Start.Row))
			}
		}
		its.Coverage = 100
		if all := lines[folder][0] + lines[folder][1]; all > 0 {
			its.Coverage = 100 * float64(lines[folder][0]) / float64(all)
		}
	}
	for _, its := range found {
		slices.Sort(its.Failed)
		slices.Sort(its.NotCovered)
	}
	return found, nil
}

func failure(result *tester.Result) string {
	why := "it is not true"
	if result.Error != nil {
		why = result.Error.Error()
	} else if result.FailedAt != nil {
		why = fmt.Sprintf("line %d is not true: %s", result.FailedAt.Location.Row, result.FailedAt.Location.Text)
	}
	return fmt.Sprintf("%s:%d: %s: %s", result.Location.File, result.Location.Row, result.Name, why)
}

// parseAll parses the policies below dir with their tests, and the library.
func parseAll(dir string) (map[string]*ast.Module, error) {
	modules := map[string]*ast.Module{}
	var errs []error
	parse := func(fsys fs.FS, pattern, root string, tests bool) {
		files, err := fs.Glob(fsys, pattern)
		if err != nil {
			errs = append(errs, err)
		}
		for _, file := range files {
			if !tests && strings.HasSuffix(file, "_test.rego") {
				continue
			}
			text, err := fs.ReadFile(fsys, file)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			name := filepath.Join(root, file)
			module, err := ast.ParseModuleWithOpts(name, string(text), ast.ParserOptions{RegoVersion: ast.RegoV1})
			switch {
			case err != nil:
				errs = append(errs, err)
			case module != nil:
				modules[name] = module
			}
		}
	}
	parse(os.DirFS(dir), "*/*.rego", dir, true)
	parse(policies.Embedded(), "lib/*/*.rego", "", false)
	return modules, errors.Join(errs...)
}
