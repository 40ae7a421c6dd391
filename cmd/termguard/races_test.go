package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/race"
)

// TestRaces checks that make races runs the tests of every package that starts goroutines, and of
// no other.
func TestRaces(t *testing.T) {
	race.Skip(t)
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`(?m)^RACES := (.*)$`).FindSubmatch(makefile)
	if listed == nil {
		t.Fatal("the Makefile has no line RACES := PACKAGES")
	}
	raced := strings.Fields(string(listed[1]))
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{.Dir}} {{join .GoFiles " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := "./" + strings.TrimPrefix(fields[0], module)
		var starts []string
		for _, name := range fields[2:] {
			if at := startsGoroutines(t, filepath.Join(fields[1], name)); at != "" {
				starts = append(starts, at)
			}
		}
		switch in := slices.Contains(raced, pkg); {
		case len(starts) > 0 && !in:
			t.Errorf("%s starts goroutines (%s): add it to RACES in the Makefile", pkg, strings.Join(starts, ", "))
		case len(starts) == 0 && in:
			t.Errorf("%s starts no goroutine: remove it from RACES in the Makefile", pkg)
		}
		raced = slices.DeleteFunc(raced, func(other string) bool { return other == pkg })
	}
	if len(raced) > 0 {
		t.Errorf("RACES in the Makefile names packages that do not exist: %q", raced)
	}
}

var short = regexp.MustCompile(`testing\.Short\(\)`)

// TestTiers checks that make check runs the packages with tests that make test leaves out (testing.Short), and
// that make nightly runs what both leave out: packages of test/ that only it runs, and packages with tests
// that call lab.Nightly.
func TestTiers(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{}
	for _, list := range []string{"LONG", "RARE", "MORE"} {
		line := regexp.MustCompile(`(?m)^` + list + ` := (.*)$`).FindSubmatch(makefile)
		if line == nil {
			t.Fatalf("the Makefile has no line %s := PACKAGES", list)
		}
		listed[list] = strings.Fields(string(line[1]))
	}
	nightly := append(listed["RARE"], listed["MORE"]...)
	for _, pkg := range nightly {
		if tests, err := filepath.Glob(filepath.Join("../../test", pkg, "*_test.go")); err != nil || len(tests) == 0 {
			t.Errorf("the Makefile names %s, which has no tests: %v", pkg, err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{.Dir}} {{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var long []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		for _, name := range fields[2:] {
			text, err := os.ReadFile(filepath.Join(fields[1], name))
			if err != nil {
				t.Fatal(err)
			}
			if pkg := "./" + strings.TrimPrefix(fields[0], module); short.Match(text) && !slices.Contains(long, pkg) {
				long = append(long, pkg)
			}
		}
	}
	if !slices.Equal(long, listed["LONG"]) {
		t.Errorf("packages with tests that make test leaves out are %q, but LONG in the Makefile is %q", long, listed["LONG"])
	}
	files, err := filepath.Glob("../../test/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("find tests: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pkg := "./" + filepath.Base(filepath.Dir(file))
		if strings.Contains(string(text), "lab.Nightly()") && !slices.Contains(nightly, pkg) {
			t.Errorf("%s calls lab.Nightly, but make nightly does not run %s: add it to MORE in the Makefile", file, pkg)
		}
	}
}

// startsGoroutines returns the first place in a file that starts a goroutine: a go statement, or a
// method Go of a group that waits for it.
func startsGoroutines(t *testing.T, file string) (at string) {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		starts := false
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			method, is := n.Fun.(*ast.SelectorExpr)
			starts = is && method.Sel.Name == "Go"
		}
		if starts && at == "" {
			position := files.Position(n.Pos())
			position.Filename = filepath.Base(file)
			at = position.String()
		}
		return at == ""
	})
	return at
}
