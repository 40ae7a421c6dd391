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

// TestRaces holds that make races runs the tests of every package that starts
// goroutines, and of no other.
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
	t.Run("Once", func(t *testing.T) { runOnce(t, string(makefile), raced) })
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
			t.Errorf("%s starts no goroutine: take it out of RACES in the Makefile", pkg)
		}
		raced = slices.DeleteFunc(raced, func(other string) bool { return other == pkg })
	}
	if len(raced) > 0 {
		t.Errorf("RACES in the Makefile names %q: there are no such packages", raced)
	}
}

// runOnce holds that no test is left out by running each once: those of packages that
// start goroutines run in make races alone, but for ALONE, and for PARTLY, which do a part
// of their cases there. make unit runs these two whole.
func runOnce(t *testing.T, makefile string, raced []string) {
	t.Helper()
	whole := map[string]*regexp.Regexp{} // by alternative of the lists
	for _, list := range []string{"ALONE", "PARTLY"} {
		listed := regexp.MustCompile(`(?m)^` + list + ` := (.*)$`).FindStringSubmatch(makefile)
		if listed == nil {
			t.Fatalf("the Makefile has no line %s := TEST|TEST", list)
		}
		for _, alternative := range strings.Split(strings.ReplaceAll(listed[1], "$$", "$"), "|") {
			whole[alternative] = regexp.MustCompile(alternative)
		}
	}
	met := map[string]bool{}
	for _, pkg := range raced {
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		calls, partly := map[string][]string{}, map[string]bool{} // by the name of a function
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				f, is := d.(*ast.FuncDecl)
				if !is {
					continue
				}
				calls[f.Name.Name] = nil
				ast.Inspect(f, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.SelectorExpr:
						x, is := n.X.(*ast.Ident)
						partly[f.Name.Name] = partly[f.Name.Name] || is && x.Name == "race" && n.Sel.Name == "Detector"
					case *ast.CallExpr:
						switch called := n.Fun.(type) {
						case *ast.Ident:
							calls[f.Name.Name] = append(calls[f.Name.Name], called.Name)
						case *ast.SelectorExpr:
							calls[f.Name.Name] = append(calls[f.Name.Name], called.Sel.Name)
						}
					}
					return true
				})
			}
		}
		for grown := true; grown; {
			grown = false
			for name, called := range calls {
				if !partly[name] && slices.ContainsFunc(called, func(other string) bool { return partly[other] }) {
					partly[name], grown = true, true
				}
			}
		}
		for name := range calls {
			if !strings.HasPrefix(name, "Test") {
				continue
			}
			listed := false
			for alternative, matches := range whole {
				if matches.MatchString(name) {
					listed, met[alternative] = true, true
				}
			}
			if partly[name] && !listed {
				t.Errorf("%s: %s asks race.Detector, and so does a part of its cases in make races: add it to PARTLY in the Makefile", pkg, name)
			}
		}
	}
	for alternative := range whole {
		if !met[alternative] {
			t.Errorf("ALONE and PARTLY in the Makefile: %q is no test of RACES", alternative)
		}
	}
}

// startsGoroutines is where a file starts one: by a go statement, or a method Go of a
// group that waits for it.
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
