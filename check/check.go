package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// Report is the answer, apiVersion termguard.dev/v1, kind Check.
type Report struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Target     policies.Object  `json:"target"`
	Verdict    policies.Verdict `json:"verdict"`
	// EstimateSeconds is how long the deletion takes at most, where somebody
	// can tell and it does not hang.
	EstimateSeconds *int               `json:"estimateSeconds,omitempty"`
	Findings        []policies.Finding `json:"findings"`
	// Omitted counts findings beyond what one policy may say.
	Omitted int    `json:"omitted,omitempty"`
	Plan    []Step `json:"plan"`
	// Unseen is what the answer depends on and could not be seen, each with
	// the reason; policies that failed are among it.
	Unseen []string `json:"unseen"`
}

// Step is one thing to do, in the order that is safe.
type Step struct {
	Do      string `json:"do"`
	Why     string `json:"why"`
	Command string `json:"command,omitempty"`
}

// Evaluator asks the policies about one request. *policies.Engine is one.
type Evaluator interface {
	Evaluate(context.Context, policies.Trigger, map[string]any, policies.Facts) (policies.Result, error)
}

// Ask asks the policies about the deletion of a subject with the given
// DeleteOptions.
func Ask(ctx context.Context, engine Evaluator, world *cluster.World, s Subject, options map[string]any) (Report, error) {
	resource := s.Type.GroupResource()
	var spec []string
	if resource == namespaces {
		spec, _, _ = unstructured.NestedStringSlice(s.Object, "spec", "finalizers")
	}
	result, err := engine.Evaluate(ctx, policies.Delete, map[string]any{
		"request":   s.request(options),
		"ownership": world.Ownership(&unstructured.Unstructured{Object: s.Object}, resource, spec),
	}, world)
	if err != nil {
		return Report{}, fmt.Errorf("ask the policies about %s: %w", s, err)
	}
	result.Unseen = append(slices.Clone(s.Unseen), result.Unseen...)
	for _, err := range result.Errors {
		result.Unseen = append(result.Unseen, err.Error())
	}
	report := Report{
		APIVersion: "termguard.dev/v1", Kind: "Check",
		Target:   policies.Object{Resource: resource.String(), Namespace: s.Namespace, Name: s.Name},
		Verdict:  result.Verdict(),
		Findings: append([]policies.Finding{}, result.Findings...),
		Omitted:  result.Omitted,
		Plan:     plan(result.Findings),
		Unseen:   append([]string{}, result.Unseen...),
	}
	if report.Verdict != policies.Hangs {
		report.EstimateSeconds = longest(result.Findings)
	}
	return report, nil
}

func longest(findings []policies.Finding) *int {
	var longest *int
	for _, f := range findings {
		if f.EstimateSeconds != nil && (longest == nil || *f.EstimateSeconds > *longest) {
			longest = f.EstimateSeconds
		}
	}
	return longest
}

// lastResorts are what the part of a remedy begins with that gives something
// up: what remedies say is ordered, mending first.
var lastResorts = []string{"Last, ", "If it is gone for good", "If its software is gone for good"}

// plan lists every distinct remedy once, in the order of the findings; what
// gives something up comes after all that mends.
func plan(findings []policies.Finding) []Step {
	mend, force := []Step{}, []Step{}
	add := func(steps *[]Step, do, why string) {
		do = strings.TrimSpace(do)
		if do != "" && !slices.ContainsFunc(*steps, func(s Step) bool { return s.Do == do }) {
			*steps = append(*steps, Step{Do: do, Why: why})
		}
	}
	for _, f := range findings {
		cut := len(f.Remedy)
		for _, words := range lastResorts {
			if at := strings.Index(f.Remedy, words); at >= 0 {
				cut = min(cut, at)
			}
		}
		add(&mend, f.Remedy[:cut], f.Message)
		add(&force, f.Remedy[cut:], f.Message)
	}
	return append(mend, force...)
}
