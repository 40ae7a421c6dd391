package deletion

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/policies"
)

// State is the cluster as a run sees it before each step.
type State struct {
	// Targets are the objects to delete that still exist.
	Targets []check.Subject
	// Missing has an error for each of the others.
	Missing []error
	Verdict policies.Verdict
	// Because is the first line of the answer behind the verdict.
	Because string
	Plan    []check.Step
	// Symptoms reports that only the conditions of the targets say that they hang; these may be
	// older than the last step.
	Symptoms bool
	// Text writes the answer for a person.
	Text func(io.Writer) error
	// Ends returns the objects that are being deleted with the targets.
	Ends func(context.Context) (check.Terminating, error)

	unseen  []string // facts that the answer depends on and that could not be read
	refused []string // commands of the steps against an immediate refusal
	before  string   // the step to take first if the deletion may hang and termguard cannot take it
}

// Judge completes a view by the reports about the objects, and the types that could not be read
// for all of them. Hearsay says who named the objects if the user did not; steps outside of the
// targets are then advice.
func (v *State) Judge(reports []check.Report, unseen []string, hearsay string) {
	v.unseen = slices.Clone(unseen)
	for _, r := range reports {
		v.unseen = append(v.unseen, unexplained(r.Unseen, r.Findings)...)
		for _, f := range r.Findings {
			switch hang := f.Kind == policies.KindHang; {
			case hang && f.Severity != policies.Info && f.EstimateSeconds == nil && v.Verdict == policies.AtRisk && r.TerminatingSince == "" && len(v.Plan) > 0:
				v.before = v.Plan[0].Do
			case !hang && f.Certainty == policies.Will:
				for _, s := range f.Steps {
					v.refused = append(v.refused, s.Command)
				}
			}
		}
	}
	// The report keeps its own plan.
	v.Plan = slices.DeleteFunc(slices.Clone(v.Plan), func(s check.Step) bool { return s.Kind == check.Delete })
	for i := range v.Plan {
		if len(v.unseen) > 0 {
			v.Plan[i].Advice = cmp.Or(v.Plan[i].Advice, "not all that matters can be seen: "+v.unseen[0])
		} else if hearsay != "" {
			v.Plan[i].Hearsay = cmp.Or(v.Plan[i].Hearsay, hearsay)
		}
	}
}

// why returns the first line of the answer.
func (v *State) why() string { return string(v.Verdict) + v.Because }

// terminating reports whether all targets are being deleted.
func (v *State) terminating() bool {
	return !slices.ContainsFunc(v.Targets, func(s check.Subject) bool { return !s.Terminating() })
}

// hangs reports whether the targets are known to hang, at least once steps were taken: the
// controller of a namespace renews its conditions only after a while.
func (v *State) hangs(steps int) bool {
	return v.Verdict == policies.Hangs && (!v.Symptoms || steps == 0)
}

// unexplained returns the unseen types without those that a certain finding explains: resources of
// an APIService that does not answer, or of a definition whose objects cannot be converted.
func unexplained(unseen []string, findings []policies.Finding) []string {
	return slices.DeleteFunc(slices.Clone(unseen), func(item string) bool {
		resource, _, _ := strings.Cut(item, ": ")
		_, group, _ := strings.Cut(resource, ".")
		return slices.ContainsFunc(findings, func(f policies.Finding) bool {
			return f.Certainty == policies.Will && f.Kind == policies.KindHang && slices.ContainsFunc(f.Objects, func(o policies.Object) bool {
				_, served, _ := strings.Cut(o.Name, ".")
				return o.Resource == "apiservices.apiregistration.k8s.io" && group != "" && served == group ||
					o.Resource == "customresourcedefinitions.apiextensions.k8s.io" && o.Name == resource
			})
		})
	})
}
