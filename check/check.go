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

// Report is the answer, apiVersion termguard.dev/v1, kind Check, or Drain for a node.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Target is the object that would be deleted.
	Target policies.Object `json:"target"`
	// TerminatingSince is the deletionTimestamp of a Terminating target: when it would have been deleted
	// without finalizers.
	TerminatingSince string           `json:"terminatingSince,omitempty"`
	Verdict          policies.Verdict `json:"verdict"`
	// EstimateSeconds is the longest duration of the deletion, if it is known and does not hang.
	EstimateSeconds *int `json:"estimateSeconds,omitempty"`
	// UsualSeconds is the usual duration, if it was observed here.
	UsualSeconds *int `json:"usualSeconds,omitempty"`
	// Findings are blockers, and information.
	Findings []policies.Finding `json:"findings"`
	// WaitsFor are the finalizers that a live owner has to remove first.
	WaitsFor []Wait `json:"waitsFor"`
	// Guard is the answer of termguard's webhook in the cluster; nil if there is none, and for a snapshot.
	Guard *Guard `json:"guard,omitempty"`
	// Notes say what happens to the volumes of the target.
	Notes []string `json:"notes,omitempty"`
	// Omitted counts findings beyond the limit of a policy.
	Omitted int `json:"omitted,omitempty"`
	// Plan is the next steps, in this order.
	Plan []Step `json:"plan"`
	// Unseen lists the facts that the answer depends on and that could not be read, each with the reason, and
	// the policies that failed.
	Unseen []string `json:"unseen"`

	terminating string                    // for how long, in words
	asker       authenticationv1.UserInfo // the user, without a name if unknown
}

// Evaluator evaluates the policies about one request. *policies.Engine is one.
type Evaluator interface {
	Evaluate(context.Context, policies.Trigger, map[string]any, policies.Facts) (policies.Result, error)
}

// Ask evaluates the policies about the deletion of a subject with the given DeleteOptions.
func Ask(ctx context.Context, engine Evaluator, world *cluster.World, s Subject, options map[string]any) (Report, error) {
	return evaluate(ctx, engine, world, nil, s, s.Deletion(options))
}

// Deletion returns the request for it, with the given DeleteOptions.
func (s Subject) Deletion(options map[string]any) *question.Request {
	return s.target().Delete(options)
}

// evaluate evaluates the policies about a request for a subject, in a set or, if that is nil, alone.
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

// finishes reports whether a deletion with this verdict has a duration.
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

// Immortal reports whether the API server never deletes an object.
func Immortal(o policies.Object) bool {
	return o.Resource == namespaces.Resource && question.Immortal(o.Name)
}

// plan makes the plan: the findings' steps, and then the deletion unless it has begun.
func (r *Report) plan() {
	r.Plan = plan(r.Findings)
	if r.TerminatingSince == "" && !Immortal(r.Target) {
		r.Plan = finish(r.Plan, "Then delete "+shown(policies.Object{Resource: r.Target.Resource, Name: r.Target.Name}, ""), deletionOf(r.Target).Command())
	}
}

// since sets how long the target has been Terminating.
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
