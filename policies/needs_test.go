package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/policies"
)

// TestNeedsAreNeeded deletes one condition of a policy's needs at a time, for all policies: a
// fixture must fail, since a policy without one of its documents is silent where it should report
// something, or is evaluated needlessly. A needed parameter is tested with a policy that has it.
func TestNeedsAreNeeded(t *testing.T) {
	race.Skip(t)
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	engine := func(set *policies.Set, params map[string]any) *policies.Engine {
		engine, err := policies.NewEngine(t.Context(), set, policies.EngineOptions{Deadline: time.Minute, Lazy: true, Params: params})
		if err != nil {
			t.Fatal(err)
		}
		return engine
	}
	asks := func(engine *policies.Engine, p prepared, id string) bool {
		return slices.ContainsFunc(engine.Relevant(p.Trigger(), p.Input, p.World), func(p policies.Policy) bool { return p.ID == id })
	}
	whole := engine(set, nil)
	var all []prepared
	finds := map[string][]prepared{} // by the policy that finds something in it
	for _, f := range fixtures(t) {
		p := f.prepare(t)
		all = append(all, p)
		counted := map[string]bool{}
		for _, finding := range p.evaluate(t, whole).Findings {
			if !counted[finding.Policy] {
				counted[finding.Policy] = true
				finds[finding.Policy] = append(finds[finding.Policy], p)
			}
		}
	}
	for _, p := range set.Policies() {
		for i, need := range p.Needs {
			if len(p.Needs) > 1 {
				var params map[string]any
				cases := finds[p.ID]
				if rest, is := strings.CutPrefix(need, "data.params."+p.ID+"."); is {
					params = map[string]any{p.ID: map[string]any{rest: 1}}
					strict := engine(set, params)
					cases = slices.DeleteFunc(slices.Clone(all), func(f prepared) bool {
						return !slices.ContainsFunc(f.evaluate(t, strict).Findings, func(finding policies.Finding) bool { return finding.Policy == p.ID })
					})
				}
				changed := engine(policies.WithNeeds(set, p.ID, slices.Delete(slices.Clone(p.Needs), i, i+1)), params)
				if !slices.ContainsFunc(cases, func(f prepared) bool { return !asks(changed, f, p.ID) }) {
					t.Errorf("%s finds all that its fixtures want without %q: add one that nothing else makes it see, or delete the condition", p.ID, need)
				}
			}
			for what, wider := range widened(need) {
				if strings.HasPrefix(what, "unasked in ") {
					continue // the state of an owner where there is no cluster: of fixtures, there is one
				}
				changed := engine(policies.WithNeeds(set, p.ID, slices.Concat(p.Needs[:i], []string{wider}, p.Needs[i+1:])), nil)
				if !slices.ContainsFunc(all, func(f prepared) bool { return asks(changed, f, p.ID) && !asks(whole, f, p.ID) }) {
					t.Errorf("%s is evaluated for no more fixtures without %q in %q: add one that it spares, or delete it", p.ID, what, need)
				}
			}
		}
	}
}

// widened returns the need without one of its conditions, by that condition.
func widened(need string) map[string]string {
	variants := map[string]string{}
	rest, resource, of := strings.Cut(need, " for ")
	if of {
		variants["for "+resource] = rest
		resource = " for " + resource
	}
	documents := strings.Split(rest, " and ")
	for i, document := range documents {
		with := func(other ...string) string {
			return strings.Join(slices.Concat(documents[:i], other, documents[i+1:]), " and ") + resource
		}
		if len(documents) > 1 {
			variants[document] = with()
		}
		for _, word := range []string{"unless", "is", "with", "over"} {
			if path, values, ok := strings.Cut(document, " "+word+" "); ok {
				variants[word+" "+values] = with(path)
				if each := strings.Split(values, " or "); word == "unless" && len(each) > 1 {
					for j, value := range each {
						variants[fmt.Sprintf("%s in %s", value, document)] = with(path + " unless " + strings.Join(slices.Delete(slices.Clone(each), j, j+1), " or "))
					}
				}
			}
		}
	}
	return variants
}
