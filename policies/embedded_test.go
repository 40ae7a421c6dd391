package policies

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/termguard/termguard/internal/race"
)

// TestDescribed compares the unparsed METADATA of the policies in the binary with the parsed one.
func TestDescribed(t *testing.T) {
	race.Skip(t)
	want, err := load(true, Embedded())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(Embedded())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.policies, got.policies); diff != "" {
		t.Errorf("-parsed, +described:\n%s", diff)
	}
}

// TestApart checks that a policy uses only its own rules and those of library packages that it
// imports: it can be compiled without the others.
func TestApart(t *testing.T) {
	race.Skip(t)
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
