// Package answer says whether a deletion will finish: it evaluates the policies as the webhook does.
package answer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Item is the answer about one object.
type Item struct {
	// Kind is for scans.
	Kind string `json:"kind,omitempty"`
	// Target is the object that would be deleted.
	Target policies.Object `json:"target"`
	// TerminatingSince is the deletionTimestamp: when it would have been deleted without finalizers.
	TerminatingSince string           `json:"terminatingSince,omitempty"`
	Verdict          policies.Verdict `json:"verdict"`
	// EstimateSeconds is the longest duration, and UsualSeconds the usual one here, if known.
	EstimateSeconds *int `json:"estimateSeconds,omitempty"`
	// UsualSeconds is the usual duration, if observed here.
	UsualSeconds *int `json:"usualSeconds,omitempty"`
	// Findings are nil in a scan, which has HeldBy.
	Findings []policies.Finding `json:"findings,omitzero"`
	// WaitsFor are the finalizers that a live owner has to remove first.
	WaitsFor []Wait `json:"waitsFor,omitzero"`
	// HeldBy are the causes of a scan, and Parts the objects of a release whose deletion does not complete.
	HeldBy []Hold `json:"heldBy,omitzero"`
	Parts  []Item `json:"parts,omitempty"`
	// Guard is nil without termguard's webhook, and for a snapshot.
	Guard *Guard `json:"guard,omitempty"`
	// Omitted counts findings beyond a policy's limit.
	Omitted int `json:"omitted,omitempty"`
	// Unseen lists the unreadable facts that matter, and failed policies.
	Unseen []policies.Unseen `json:"unseen,omitzero"`
	// Failed are the errors of policies, and Unasked the ids of those that read the user, who is unknown.
	Failed  []error  `json:"-"`
	Unasked []string `json:"-"`

	terminating string                    // for how long, in words
	drained     bool                      // rather than deleted
	asker       authenticationv1.UserInfo // without a name if unknown
}

// Hold is a cause that blocks one object.
type Hold struct {
	Cause     string             `json:"cause"` // its id
	Certainty policies.Certainty `json:"certainty"`
	Says      string             `json:"says"`
	// Objects are the first few blockers other than the object.
	Objects []policies.Object `json:"objects,omitempty"`
}

// Evaluator evaluates policies, as *policies.Engine does.
type Evaluator interface {
	Evaluate(context.Context, policies.Trigger, map[string]any, policies.Facts) (policies.Result, error)
}

// Deletion returns the request to delete it.
func (s Subject) Deletion(options map[string]any) *question.Request {
	return s.target().Delete(options)
}

func evaluate(ctx context.Context, engine Evaluator, world *cluster.World, set *question.Set, s Subject, request *question.Request) (item Item, err error) {
	world.Ask(request, func(m cluster.Moment) {
		if set != nil {
			m = m.Together(set)
		}
		item, err = itemOf(ctx, engine, m, s, request)
	})
	return item, err
}

func itemOf(ctx context.Context, engine Evaluator, m cluster.Moment, s Subject, request *question.Request) (Item, error) {
	owners, trigger := m.Ownership(), policies.Delete
	switch {
	case request.EditsFinalizers():
		trigger = policies.FinalizerEdit
	case request.Trigger() == question.OnApply:
		trigger = policies.Apply
	}
	result, err := engine.Evaluate(ctx, trigger, request.Input(owners, m.Refusals()), m)
	if err != nil {
		return Item{}, fmt.Errorf("ask the policies about %s: %w", s, err)
	}
	var unasked []string
	if s.Stub != "" {
		result = result.WithoutObject(s.Stub)
	}
	if s.User.Username == "" {
		unasked, result = result.UserReaders, result.WithoutUser()
	}
	result.Unseen = slices.Concat(s.Unseen, s.unowned(m.Facts, request), result.Unseen)
	for _, err := range result.Errors {
		result.Unseen = append(result.Unseen, unseenBy(err))
	}
	item := Item{
		Target:   s.ID(),
		Verdict:  result.Verdict(),
		Findings: append([]policies.Finding{}, result.Findings...),
		Omitted:  result.Omitted,
		Unseen:   append([]policies.Unseen{}, result.Unseen...),
		Failed:   result.Errors,
		Unasked:  unasked,
		asker:    s.User,
	}
	if trigger == policies.Apply { // nothing is waited for
		return item, nil
	}
	item.WaitsFor = waitsFor(m.Facts, s, owners, request.With())
	if finishes(item.Verdict) {
		item.EstimateSeconds = longest(result.Findings)
	}
	item.quote(s)
	item.since(s, m.Now())
	item.estimate(stopsOf(m.Facts, s))
	return item, nil
}

func unseenBy(err error) policies.Unseen {
	if failed := (policies.PolicyError{}); errors.As(err, &failed) {
		return policies.Unseen{What: "policy " + failed.Policy, Reason: failed.Err.Error()}
	}
	return policies.Unseen{Reason: err.Error()}
}

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

func (r *Item) since(s Subject, now time.Time) {
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

// Since returns when the target became Terminating; zero if unknown.
func (r Item) Since() time.Time {
	since, _ := time.Parse(time.RFC3339, r.TerminatingSince) // as an API server writes it
	return since
}
