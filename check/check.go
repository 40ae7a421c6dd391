package check

import (
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Report is the answer, apiVersion termguard.dev/v1, kind Check, or Drain of a node.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Target is the object that would be deleted.
	Target policies.Object `json:"target"`
	// TerminatingSince is the deletionTimestamp of a target that is being deleted already:
	// when it should have been gone, if it has no finalizers.
	TerminatingSince string `json:"terminatingSince,omitempty"`
	// Verdict is completes, at-risk, hangs, refused or unknown.
	Verdict policies.Verdict `json:"verdict"`
	// EstimateSeconds is how long the deletion takes at most, where somebody
	// can tell and it does not hang.
	EstimateSeconds *int `json:"estimateSeconds,omitempty"`
	// UsualSeconds is how long it usually takes, where that was seen here.
	UsualSeconds *int `json:"usualSeconds,omitempty"`
	// Findings are what stands in the way, and what is good to know.
	Findings []policies.Finding `json:"findings"`
	// WaitsFor are the finalizers that a live owner has to remove first.
	WaitsFor []Wait `json:"waitsFor"`
	// Guard is what termguard's webhook in the cluster says to it; nil where there is none, and
	// of a snapshot.
	Guard *Guard `json:"guard,omitempty"`
	// Notes tell what becomes of the volumes behind the target.
	Notes []string `json:"notes,omitempty"`
	// Omitted counts findings beyond what one policy may say.
	Omitted int `json:"omitted,omitempty"`
	// Plan is what to do, in this order.
	Plan []Step `json:"plan"`
	// Unseen is what the answer depends on and could not be seen, each with
	// the reason; policies that failed are among it.
	Unseen []string `json:"unseen"`

	terminating string                    // for how long, in words
	asker       authenticationv1.UserInfo // who asks, without a name where that is not known
}

// Evaluator asks the policies about one request. *policies.Engine is one.
type Evaluator interface {
	Evaluate(context.Context, policies.Trigger, map[string]any, policies.Facts) (policies.Result, error)
}

// Ask asks the policies about the deletion of a subject with the given
// DeleteOptions.
func Ask(ctx context.Context, engine Evaluator, world *cluster.World, s Subject, options map[string]any) (Report, error) {
	return evaluate(ctx, engine, world, nil, s, s.Deletion(options))
}

// Deletion is the request for it, with the given DeleteOptions.
func (s Subject) Deletion(options map[string]any) *question.Request {
	return s.target().Delete(options)
}

// evaluate asks the policies about a request that a subject is the object of: one of a set,
// or, where that is nil, alone.
func evaluate(ctx context.Context, engine Evaluator, world *cluster.World, set *question.Set, s Subject, request *question.Request) (report Report, err error) {
	world.Ask(request, func(m cluster.Moment) {
		if set != nil {
			m = m.Together(set)
		}
		report, err = reportOf(ctx, engine, m, s, request)
	})
	return report, err
}

func reportOf(ctx context.Context, engine Evaluator, m cluster.Moment, s Subject, request *question.Request) (Report, error) {
	owners, trigger := m.Ownership(), policies.Delete
	if request.EditsFinalizers() {
		trigger = policies.FinalizerEdit
	}
	result, err := engine.Evaluate(ctx, trigger, request.Input(owners, m.Refusals()), m)
	if err != nil {
		return Report{}, fmt.Errorf("ask the policies about %s: %w", s, err)
	}
	if s.Stub != "" {
		result = result.OfStub(s.Stub)
	}
	if s.User.Username == "" {
		result = result.OfNobody()
	}
	result.Unseen = slices.Concat(s.Unseen, s.unowned(m.Facts, request), result.Unseen)
	for _, err := range result.Errors {
		result.Unseen = append(result.Unseen, err.Error())
	}
	report := Report{
		APIVersion: "termguard.dev/v1", Kind: "Check",
		Target:   s.id(),
		Verdict:  result.Verdict(),
		Findings: append([]policies.Finding{}, result.Findings...),
		WaitsFor: waitsFor(m.Facts, s, owners, request.With()),
		Omitted:  result.Omitted,
		Unseen:   append([]string{}, result.Unseen...),
		asker:    s.User,
	}
	if finishes(report.Verdict) {
		report.EstimateSeconds = longest(result.Findings)
	}
	report.quote(s)
	report.since(s, m.Now())
	report.estimate(stopsOf(m.Facts, s))
	report.plan()
	return report, nil
}

// finishes tells whether a deletion of this verdict has a time that it takes.
func finishes(v policies.Verdict) bool { return v != policies.Hangs && v != policies.Refused }

func longest(findings []policies.Finding) *int {
	var longest *int
	for _, f := range findings {
		if f.EstimateSeconds != nil && (longest == nil || *f.EstimateSeconds > *longest) {
			longest = f.EstimateSeconds
		}
	}
	return longest
}

// Immortal tells whether the API server never deletes an object.
func Immortal(o policies.Object) bool {
	return o.Resource == namespaces.Resource && question.Immortal(o.Name)
}

// plan tells what to do about the findings, and then to delete what is not deleted yet.
func (r *Report) plan() {
	r.Plan = plan(r.Findings)
	if r.TerminatingSince == "" && !Immortal(r.Target) {
		r.Plan = finish(r.Plan, "Then delete "+shown(policies.Object{Resource: r.Target.Resource, Name: r.Target.Name}, ""), deletionOf(r.Target).Command())
	}
}

// since tells for how long the target has been Terminating.
func (r *Report) since(s Subject, now time.Time) {
	deleted, _ := child(s.Object, "metadata")["deletionTimestamp"].(string)
	since, err := time.Parse(time.RFC3339, deleted)
	if err != nil {
		return
	}
	r.TerminatingSince, r.terminating = deleted, "Terminating"
	if now.After(since) {
		r.terminating = "Terminating for " + seconds(int(now.Sub(since).Seconds()))
	}
}
