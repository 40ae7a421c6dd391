package check

import (
	"context"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
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
	var all question.Set
	for _, s := range subjects {
		all.Add(s.id())
	}
	var items []Report
	for _, s := range subjects {
		report, err := ask(ctx, engine, world, all.Over(world), s, options)
		if err != nil {
			return Set{}, err
		}
		items = append(items, report)
	}
	return newSet(items, missing), nil
}

func newSet(items []Report, missing []error) Set {
	set := Set{APIVersion: "termguard.dev/v1", Kind: "CheckSet", Verdict: policies.Completes, Items: append([]Report{}, items...), Missing: []string{}}
	for _, err := range missing {
		set.Missing = append(set.Missing, err.Error())
	}
	var findings []policies.Finding
	for _, report := range items {
		findings = append(findings, report.Findings...)
		if worse(report.Verdict, set.Verdict) {
			set.Verdict = report.Verdict
		}
	}
	set.Plan = plan(findings)
	return set
}

// worse tells whether one verdict is worse than another.
func worse(a, b policies.Verdict) bool {
	rank := map[policies.Verdict]int{policies.Completes: 0, policies.Unknown: 1, policies.AtRisk: 2, policies.Hangs: 3, policies.Refused: 4}
	return rank[a] > rank[b]
}
