package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/race"
)

// document has the folders that hold the facts as maps: they write them, hand them to Rego, or add
// to a request what policies read beside them.
var document = []string{"cluster", "policies", "question"}

// TestFactsAreTyped checks that other Go code reads the facts, and the verdicts about owners and
// refusals in them, by cluster.Facts: it never gets the document as maps, and no
// function there takes one.
func TestFactsAreTyped(t *testing.T) {
	race.Skip(t)
	const root = "../.."
	read := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		top, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(document, top) || top == "test" || strings.HasPrefix(top, ".") && top != "."):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		read++
		ast.Inspect(file, func(n ast.Node) bool {
			if why := takesApart(n); why != "" {
				t.Errorf("%s: %s: add a method to cluster.Facts instead", files.Position(n.Pos()), why)
			}
			return true
		})
		return nil
	})
	if err != nil || read < 100 {
		t.Fatalf("read %d files: %v", read, err)
	}
}

// takesApart says how an expression reads the facts as maps, "" if it does not.
func takesApart(n ast.Node) string {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if n.Sel.Name == "View" {
			return "View is for policies: it gives the document"
		}
	case *ast.FuncDecl:
		if n.Name.Name == "View" {
			return "View gives the document"
		}
	case *ast.IndexExpr:
		if key, is := n.Index.(*ast.BasicLit); is && slices.Contains([]string{`"ownership"`, `"refusals"`}, key.Value) {
			return "what is under " + key.Value + " is for policies"
		}
	case *ast.CallExpr:
		if f, is := n.Fun.(*ast.SelectorExpr); is && f.Sel.Name == "Lookup" {
			if of, is := f.X.(*ast.Ident); is && of.Name == "facts" {
				return "facts.Lookup gives maps"
			}
		}
	}
	return ""
}
