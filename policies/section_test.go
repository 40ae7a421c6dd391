package policies

import (
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// made is a section over a map.
type made map[string]any

func (m made) Get(key string) any  { return m[key] }
func (m made) All() map[string]any { return m }

// A section reads like the map that it stands for, by policies and in the check of their needs.
func TestSection(t *testing.T) {
	web := map[string]any{"phase": "Running"}
	plain := map[string]any{"pods": map[string]any{"a": map[string]any{"web": web}, "empty": map[string]any{}}}
	sections := map[string]any{"pods": made{"a": made{"web": web}, "empty": made{}}}
	for _, path := range [][]string{{"pods", "a"}, {"pods", "a", "web"}, {"pods", "a", "web", "phase"}, {"pods", "empty"}, {"pods", "b"}, {"pods", "a", "none"}, {"pods", "a", "web", "phase", "none"}} {
		read := func(facts map[string]any) (ast.Value, bool) {
			s := &store{inmem.New(), nil}
			txn, err := s.view(t.Context(), facts)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Abort(t.Context(), txn)
			result, err := s.Read(t.Context(), txn, append(storage.Path{"cluster"}, path...))
			if err != nil && !storage.IsNotFound(err) {
				t.Fatal(err)
			}
			value, _ := result.(ast.Value)
			about := subject{namespace: "a", name: "web"}
			reaches := about.reaches(facts, path, &document{})
			return value, reaches
		}
		value, reaches := read(sections)
		wantValue, wantReaches := read(plain)
		if (value == nil) != (wantValue == nil) || value != nil && value.Compare(wantValue) != 0 {
			t.Errorf("%v: a policy reads %v, want %v", path, value, wantValue)
		}
		if reaches != wantReaches {
			t.Errorf("%v: needed: %v, want %v", path, reaches, wantReaches)
		}
	}
}
