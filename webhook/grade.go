package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

const (
	// unassistedTime is the longest time in which an object is deleted without help: a person who sees a
	// deletion hang takes longer to find a way out.
	unassistedTime = 45 * time.Second
	// hangTimeout is when a remaining object counts as hung.
	hangTimeout = 10 * time.Minute
	// maxGraded bounds the deletions that are followed; further ones are not graded.
	maxGraded = 1000
	// gradeInterval is how often due deletions are checked, gradePause the shortest pause, and gradeBatch
	// their number per check: ten requests a second at most.
	gradeInterval, gradePause, gradeBatch = 5 * time.Second, time.Second, 10
)

// outcome is the end of a deletion, as a label of metrics.
type outcome string

const (
	outcomeCompleted outcome = "completed" // deleted without help
	outcomeCured     outcome = "cured"     // deleted, but a user may have helped
	outcomeHung      outcome = "hung"      // not deleted after ten minutes
	outcomeUnseen    outcome = "unseen"    // the object of the review was not found
)

// noPolicy replaces the policy if there are no findings.
const noPolicy = "none"

// predictionOf returns the prediction of a finding, as a label of metrics: a policies.Verdict.
func predictionOf(f policies.Finding) policies.Verdict {
	if f.Kind != policies.KindHang {
		return policies.Refused
	}
	if f.Certainty == policies.Will {
		return policies.Hangs
	}
	return policies.AtRisk
}

// deletion is a deletion that was allowed.
type deletion struct {
	resource        schema.GroupVersionResource
	namespace, name string
	uid             types.UID
	predictions     map[string]policies.Verdict // by policy
	start, due      time.Time
	assisted        bool // a user removed a finalizer by hand
	seen            bool // by termguard itself: a review alone proves nothing
}

// Grader compares predictions about deletions with their outcomes. It is safe for concurrent use.
type Grader struct {
	objects  metadata.Interface
	facts    FinalizerChecker
	outcomes *prometheus.CounterVec
	log      *slog.Logger
	now      func() time.Time

	wake chan struct{} // signals a deletion to check now

	mu        sync.Mutex
	deletions map[types.UID]*deletion
}

// FinalizerChecker reports whether the watch has an object with exactly the finalizers in a review.
// *cluster.World is one.
type FinalizerChecker interface {
	Shows(resource schema.GroupResource, key types.NamespacedName, uid types.UID, finalizers []string) bool
}

func NewGrader(objects metadata.Interface, facts FinalizerChecker, registry prometheus.Registerer, log *slog.Logger) *Grader {
	return &Grader{
		objects: objects, facts: facts, log: log, now: time.Now, wake: make(chan struct{}, 1),
		outcomes: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
			Name: "termguard_outcomes_total",
			Help: "Deletions that were let through, by what a policy said of them (\"none\" where none found anything) and what became of them.",
		}, []string{"policy", "predicted", "real"}),
		deletions: map[types.UID]*deletion{},
	}
}

// Record records the prediction about an allowed deletion, unless the watch does not have the review's
// finalizers: a review can be forged. It never blocks for long.
func (g *Grader) Record(r *question.Request, c assessment) {
	if r.Trigger() != question.OnDelete || r.Dry() {
		return
	}
	old := &unstructured.Unstructured{Object: r.Old()}
	uid := old.GetUID()
	if uid == "" || old.GetDeletionTimestamp() != nil {
		return
	}
	key := r.Key()
	spec := slices.DeleteFunc(r.SpecFinalizers(r.Old()), func(f string) bool { return f == "kubernetes" }) // which the namespace controller removes last
	if !g.facts.Shows(r.GroupResource(), key, uid, slices.Concat(old.GetFinalizers(), spec)) {
		return
	}
	predictions := map[string]policies.Verdict{}
	for _, f := range c.result.Findings {
		if f.Severity != policies.Info && predictions[f.Policy] != policies.Hangs {
			predictions[f.Policy] = predictionOf(f)
		}
	}
	if len(predictions) == 0 {
		predictions[noPolicy] = c.result.Verdict()
	}
	now := g.now()
	d := &deletion{
		resource:  schema.GroupVersionResource(r.Resource),
		namespace: key.Namespace, name: key.Name, uid: uid, predictions: predictions, start: now, due: now.Add(unassistedTime),
	}
	if d.predictions[noPolicy] == "" {
		d.due = now // to check that it exists
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.deletions) >= maxGraded {
		return
	}
	if _, ok := g.deletions[uid]; ok {
		return // the first prediction counts
	}
	g.deletions[uid] = d
	for policy, verdict := range predictions { // rates need a zero to start from
		for _, real := range []outcome{outcomeCompleted, outcomeCured, outcomeHung} {
			g.outcomes.WithLabelValues(policy, string(verdict), string(real))
		}
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// RecordRemoval records removed finalizers: an object is not deleted by itself after a user removed one by
// hand.
func (g *Grader) RecordRemoval(r cluster.Removal) {
	if !r.ByHand() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, d := range g.deletions {
		inNamespace := d.resource.GroupResource() == question.Namespaces && d.name == r.Namespace
		d.assisted = d.assisted || uid == r.UID || inNamespace
	}
}

// Run follows deletions until ctx ends.
func (g *Grader) Run(ctx context.Context) {
	ticker := time.NewTicker(gradeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-g.wake:
		}
		for _, d := range g.dueDeletions() {
			g.grade(ctx, d)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gradePause):
		}
	}
}

func (g *Grader) dueDeletions() []*deletion {
	g.mu.Lock()
	defer g.mu.Unlock()
	var due []*deletion
	for _, d := range g.deletions {
		if len(due) < gradeBatch && !g.now().Before(d.due) {
			due = append(due, d)
		}
	}
	return due
}

// grade checks the outcome of a deletion.
func (g *Grader) grade(ctx context.Context, d *deletion) {
	found, terminating, err := g.find(ctx, d)
	g.mu.Lock()
	defer g.mu.Unlock()
	age := g.now().Sub(d.start)
	switch {
	case err != nil && age < hangTimeout:
		g.log.Debug("what became of a deletion cannot be seen", "resource", d.resource.String(), "error", err)
		d.due = g.now().Add(time.Minute)
		return
	case err != nil: // the outcome remains unknown
	case found && age < unassistedTime: // the first check
		d.seen, d.due = true, d.start.Add(unassistedTime)
		return
	case found && !terminating: // another webhook refused it
	case !found && !d.seen && d.predictions[noPolicy] == "":
		g.count(d, outcomeUnseen, false)
	case !found:
		g.count(d, outcomeCompleted, d.assisted || age > 2*unassistedTime)
	case age < hangTimeout:
		d.due = d.start.Add(max(2*age, hangTimeout/3))
		if d.due.After(d.start.Add(hangTimeout)) {
			d.due = d.start.Add(hangTimeout)
		}
		return
	default:
		g.count(d, outcomeHung, false)
	}
	delete(g.deletions, d.uid)
}

// count counts an outcome for each policy. For a predicted hang, it matters whether a user may have helped.
func (g *Grader) count(d *deletion, real outcome, helped bool) {
	for policy, verdict := range d.predictions {
		result := real
		expected := verdict == policies.Hangs || verdict == policies.AtRisk
		if real == outcomeCompleted && expected && helped {
			result = outcomeCured
		}
		g.outcomes.WithLabelValues(policy, string(verdict), string(result)).Inc()
		if verdict == policies.Hangs && result == outcomeCompleted {
			g.log.Warn("a policy was wrong: it said that a deletion would hang, which completed by itself", "policy", policy, "resource", d.resource.GroupResource().String(), "namespace", d.namespace, "name", d.name)
		}
	}
}

// find reports whether an object exists, and is Terminating. It lists, since termguard lacks the right to
// get.
func (g *Grader) find(ctx context.Context, d *deletion) (found, terminating bool, err error) {
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var objects metadata.ResourceInterface = g.objects.Resource(d.resource)
	if d.namespace != "" {
		objects = g.objects.Resource(d.resource).Namespace(d.namespace)
	}
	list, err := objects.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, d.name).String()})
	if err != nil {
		return false, false, fmt.Errorf("list %s: %w", d.resource, err)
	}
	for _, item := range list.Items {
		if item.UID == d.uid {
			return true, item.DeletionTimestamp != nil, nil
		}
	}
	return false, false, nil
}
