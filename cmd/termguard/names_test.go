package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/race"
)

// participles are no names: a noun says what a thing is, and a verb what a function does.
var participles = []string{"told", "asked", "found", "known", "considered", "looked", "wanted", "heard", "judged", "meant", "spoken", "surmise", "surmises", "deed", "deeds", "stranger"}

// TestNames checks the names that the code declares, in tests too.
func TestNames(t *testing.T) {
	race.Skip(t)
	forbidden := map[string]bool{}
	for _, name := range participles {
		forbidden[name] = true
	}
	files := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "components" || entry.Name() == "node_modules" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		for _, id := range declared(file) {
			if forbidden[strings.ToLower(id.Name)] {
				t.Errorf("%s: %s is a participle: name the thing", files.Position(id.Pos()), id.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func declared(file *ast.File) (names []*ast.Ident) {
	expressions := func(list ...ast.Expr) {
		for _, e := range list {
			if id, ok := e.(*ast.Ident); ok {
				names = append(names, id)
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			names = append(names, node.Name)
		case *ast.TypeSpec:
			names = append(names, node.Name)
		case *ast.ValueSpec:
			names = append(names, node.Names...)
		case *ast.Field:
			names = append(names, node.Names...)
		case *ast.AssignStmt:
			if node.Tok == token.DEFINE {
				expressions(node.Lhs...)
			}
		case *ast.RangeStmt:
			if node.Tok == token.DEFINE {
				expressions(node.Key, node.Value)
			}
		}
		return true
	})
	return names
}
