package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// patterns lists every file with regular expressions, how many, and what they read: names, files and
// other programs' words, never a message, a piece of evidence or a printed line of termguard. Structure
// travels as types (Finding.Cause, Step.Then): do not add a pattern to get it back.
var patterns = map[string]struct {
	count int
	reads string
}{
	"answer/release/order.go":        {1, "the separator of YAML documents"},
	"cluster/catalog/catalog.go":     {3, "names of resources and suffixes of versions in the catalog"},
	"cluster/catalog/references.go":  {1, "paths of fields in the catalog"},
	"cluster/catalog/versions.go":    {1, "versions"},
	"cluster/nodes/hazards.go":       {1, "commands of containers"},
	"cluster/ownership/leases.go":    {1, "holders of Leases, which name pods"},
	"cluster/ownership/makers.go":    {1, "UIDs"},
	"cluster/ownership/paused.go":    {1, "names of fields and annotations that pause a controller"},
	"cluster/references/named.go":    {1, "names of fields"},
	"cluster/refusals/statements.go": {3, "what the API server writes about webhooks"},
	"cmd/termguard/policy_author.go": {1, "ids of policies, by the user's pattern"},
	"internal/policytest/fixture.go": {3, "comments of fixtures"},
	"cluster/snapshots/redact.go":    {4, "the text of a snapshot that is made anonymous"},
	"internal/shell/quote.go":        {1, "words of a shell"},
	"lint/argocd.go":                 {1, "URLs of kustomizations"},
	"lint/evaluate.go":               {1, "manifests of Helm hooks"},
	"lint/fingerprint.go":            {1, "paths of fields"},
	"lint/files/file.go":             {3, "paths of files, and manifests"},
	"lint/files/object.go":           {1, "paths of fields"},
	"lint/files/template.go":         {3, "manifests"},
	"lint/files/walk.go":             {7, "paths of files"},
	"lint/triage/ignore.go":          {3, "ids of policies, and marks that people write"},
	"policies/action.go":             {1, "names of objects"},
	"policies/findings.go":           {1, "errors of Rego's sprintf, in whatever it made"},
	"policies/scaffold.go":           {1, "ids of policies"},
	"probe/read.go":                  {2, "names of cgroups and folders of pods"},
}

func TestPatterns(t *testing.T) {
	got := map[string]int{}
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel("../..", path)
		if d.IsDir() && (name == "test" || name != "." && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return fmt.Errorf("parse %s: %w", path, err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if selected, is := n.(*ast.SelectorExpr); is && fmt.Sprint(selected.X) == "regexp" && strings.Contains(selected.Sel.Name, "Compile") {
				got[filepath.ToSlash(name)]++
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for file, p := range patterns {
		want[file] = p.count
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("regular expressions: read a field instead of a message, or list what a new one reads: -want, +got:\n%s", diff)
	}
}
