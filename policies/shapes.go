package policies

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/termguard/termguard/internal/nearest"
)

var findingKeys = map[string]types.Type{
	"msg": types.S, "kind": types.S, "remedy": types.S, "field": types.S, "estimate_seconds": types.N,
	"objects":  types.NewArray(nil, types.NewObject(nil, types.NewDynamicProperty(types.S, types.S))),
	"evidence": types.NewArray(nil, types.S),
	"steps":    types.NewArray(nil, types.NewObject(nil, types.NewDynamicProperty(types.S, types.A))),
	"cause":    types.NewObject(nil, types.NewDynamicProperty(types.S, types.A)),
	"manifest": types.NewObject(nil, types.NewDynamicProperty(types.S, types.S)),
}

// checkFindings rejects rules that can produce no valid finding, by Rego's static types; other mistakes fail
// in evaluation.
func (s *Set) checkFindings() error {
	var errs []error
	for _, p := range s.policies {
		for _, rule := range p.sets(s.checked) {
			ref := p.ref(rule)
			set, _ := s.checked.TypeEnv.GetByRef(ref).(*types.Set)
			if set == nil {
				continue
			}
			if err := findingShape(set.Of()); err != nil {
				at := s.checked.GetRules(ref)[0].Location
				errs = append(errs, fmt.Errorf("%s:%d: a member of %s: %w", at.File, at.Row, rule, err))
			}
		}
	}
	return errors.Join(append(errs, misnamed(s.checked.Modules)...)...)
}

func misnamed(modules map[string]*ast.Module) (errs []error) {
	var steps []string
	for _, kind := range StepKinds() {
		steps = append(steps, string(kind))
	}
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		ast.WalkTerms(modules[file], func(term *ast.Term) bool {
			o, ok := term.Value.(ast.Object)
			if !ok {
				return false
			}
			for key, kinds := range map[string][]string{"msg": findingKinds, "do": steps} {
				said := o.Get(ast.StringTerm("kind"))
				if said == nil || o.Get(ast.StringTerm(key)) == nil {
					continue
				}
				if word, literal := said.Value.(ast.String); literal && !slices.Contains(kinds, string(word)) {
					errs = append(errs, fmt.Errorf("%s:%d: kind %q: want one of %v%s", file, term.Location.Row, string(word), kinds, nearest.Hint(string(word), kinds)))
				}
			}
			return false
		})
	}
	return errs
}

func findingShape(t types.Type) error {
	switch t := t.(type) {
	case types.Any:
		for _, one := range t {
			if err := findingShape(one); err != nil {
				return err
			}
		}
	case *types.Object:
		return objectShape(t)
	case types.String, types.Number, types.Boolean, types.Null, *types.Array, *types.Set:
		return fmt.Errorf("want an object with msg, got %s: write {\"msg\": …}", name(t))
	}
	return nil
}

func objectShape(t *types.Object) error {
	said := t.DynamicProperties() != nil
	for _, property := range t.StaticProperties() {
		key, _ := property.Key.(string)
		want, ok := findingKeys[key]
		if !ok {
			hint := nearest.Hint(key, slices.Collect(maps.Keys(findingKeys)))
			if key == "message" { // other tools' name, and not a near one
				hint = `; did you mean "msg"?`
			}
			return fmt.Errorf("%s: unknown key%s", key, hint)
		}
		if !fits(property.Value, want) {
			return fmt.Errorf("%s: want %s, got %s", key, name(want), name(property.Value))
		}
		said = said || key == "msg"
	}
	if !said {
		return errors.New("msg is missing")
	}
	return nil
}

func fits(t, want types.Type) bool {
	switch t := t.(type) {
	case types.Any:
		return len(t) == 0 || slices.ContainsFunc(t, func(one types.Type) bool { return fits(one, want) })
	case *types.Set:
		array, list := want.(*types.Array)
		return list && (t.Of() == nil || fits(t.Of(), array.Dynamic()))
	case *types.Array:
		array, list := want.(*types.Array)
		if !list {
			return false
		}
		for i := range t.Len() {
			if !fits(t.Select(i), array.Dynamic()) {
				return false
			}
		}
		return t.Dynamic() == nil || fits(t.Dynamic(), array.Dynamic())
	case *types.Object:
		_, object := want.(*types.Object)
		return object
	case types.String, types.Number, types.Boolean, types.Null:
		return types.Compare(t, want) == 0
	}
	return true
}

func name(t types.Type) string {
	text := types.Sprint(t)
	word, _, _ := strings.Cut(text, "<")
	word, _, _ = strings.Cut(word, "[")
	if list, is := t.(*types.Array); is && list.Len() == 0 && list.Dynamic() != nil {
		_, element, _ := strings.Cut(name(list.Dynamic()), " ")
		return "a list of " + element + "s"
	}
	return map[bool]string{true: "an ", false: "a "}[strings.ContainsAny(word[:1], "aeiou")] + word
}
