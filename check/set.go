package check

import (
	"context"
	"maps"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// Set is the answer about objects that are deleted together, as by kubectl
// delete -f, apiVersion termguard.dev/v1, kind CheckSet.
type Set struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Verdict is the worst of all.
	Verdict policies.Verdict `json:"verdict"`
	Items   []Report         `json:"items"`
	// Missing says which objects do not exist: nothing is to be done about them.
	Missing []string `json:"missing"`
	// Plan is that of all together.
	Plan []Step `json:"plan"`
}

// AskAll asks about the deletion of all subjects together.
func AskAll(ctx context.Context, engine Evaluator, world *cluster.World, subjects []Subject, missing []error, options map[string]any) (Set, error) {
	set := Set{APIVersion: "termguard.dev/v1", Kind: "CheckSet", Verdict: policies.Completes, Items: []Report{}, Missing: []string{}}
	for _, err := range missing {
		set.Missing = append(set.Missing, err.Error())
	}
	facts := together{world, map[string]any{}}
	for _, s := range subjects {
		facts.add(s)
	}
	var findings []policies.Finding
	for _, s := range subjects {
		report, err := ask(ctx, engine, world, facts, s, options)
		if err != nil {
			return Set{}, err
		}
		set.Items = append(set.Items, report)
		findings = append(findings, report.Findings...)
		if worse(report.Verdict, set.Verdict) {
			set.Verdict = report.Verdict
		}
	}
	set.Plan = plan(findings)
	return set, nil
}

// worse tells whether one verdict is worse than another.
func worse(a, b policies.Verdict) bool {
	rank := map[policies.Verdict]int{policies.Completes: 0, policies.Unknown: 1, policies.AtRisk: 2, policies.Hangs: 3}
	return rank[a] > rank[b]
}

// together are facts about objects that are deleted together.
type together struct {
	policies.Facts
	set map[string]any // by resource, namespace and name
}

func (t together) add(s Subject) {
	within := t.set
	for _, key := range []string{s.Type.GroupResource().String(), s.Namespace} {
		next := child(within, key)
		if next == nil {
			next = map[string]any{}
			within[key] = next
		}
		within = next
	}
	within[s.Name] = true
}

// View shows the facts, and what is deleted together.
func (t together) View(f func(doc map[string]any)) {
	t.Facts.View(func(doc map[string]any) {
		doc = maps.Clone(doc)
		doc["set"] = t.set
		f(doc)
	})
}
