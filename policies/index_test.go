package policies

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/termguard/termguard/internal/literal"
)

// TestIndex holds the index to what the policies say when they are parsed.
// UPDATE_GOLDEN=1 writes it.
func TestIndex(t *testing.T) {
	set, err := load(true, Embedded())
	if err != nil {
		t.Fatal(err)
	}
	var all []indexed
	for _, p := range set.policies {
		all = append(all, indexed{p, set.rules[p.ID]})
	}
	const generated = "indexed.go"
	want, err := literal.File("policies", "index", "by TestIndex from the policies' METADATA", all)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(generated, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	is, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(is)); diff != "" {
		t.Fatalf("%s is out of date (UPDATE_GOLDEN=1 go test ./policies writes it): -want, +got:\n%s", generated, diff)
	}
	got, current := fromIndex()
	if !current {
		t.Error("the index is not taken for current")
	}
	if diff := cmp.Diff(set.policies, got.policies); diff != "" {
		t.Errorf("policies: -parsed, +indexed:\n%s", diff)
	}
	if diff := cmp.Diff(set.rules, got.rules); diff != "" {
		t.Errorf("rules: -parsed, +indexed:\n%s", diff)
	}
}

// TestNewFolder holds that a folder is all that a new policy takes.
func TestNewFolder(t *testing.T) {
	want, err := Load(Embedded())
	if err != nil {
		t.Fatal(err)
	}
	defer func(was []indexed) { index = was }(index)
	index = nil
	got, err := Load(Embedded())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.policies, got.policies); diff != "" {
		t.Errorf("policies: -indexed, +parsed:\n%s", diff)
	}
}

// TestApart holds that a policy uses rules of its own, and of packages of the library
// that it imports, only: it may be compiled without the others.
func TestApart(t *testing.T) {
	set, err := load(true, Embedded())
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := set.compile(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	for file, module := range compiler.Modules {
		own := module.Package.Path
		ast.WalkRefs(module, func(ref ast.Ref) bool {
			if ref.HasPrefix(own[:2]) && !ref.HasPrefix(own) && !ref.HasPrefix(library) {
				t.Errorf("%s: %s belongs to another policy: move what both need to the library", file, ref)
			}
			return false
		})
	}
}
