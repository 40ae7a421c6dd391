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
	"k8s.io/client-go/util/flowcontrol"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/internal/background"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

const (
	// unassistedTime is the longest deletion without help: a person who sees one hang takes longer to find a
	// way out.
	unassistedTime = 45 * time.Second
	hangTimeout    = 10 * time.Minute
	maxGraded      = 1000
	gradeQPS       = 10
)

type ending string

const (
	endingCompleted ending = "completed" // without help
	endingCured     ending = "cured"     // a user may have helped
	endingHung      ending = "hung"      // remains after hangTimeout
	endingUnseen    ending = "unseen"
)

const noPolicy = "none"

func predictionOf(f policies.Finding) policies.Verdict {
	if f.Kind != policies.KindHang {
		return policies.Refused
	}
	if f.Certainty == policies.Will {
		return policies.Hangs
	}
	return policies.AtRisk
}

type deletion struct {
	resource        schema.GroupVersionResource
	namespace, name string
	uid             types.UID
	predictions     map[string]policies.Verdict
	start           time.Time
	assisted        bool // by a user, who removed a finalizer
	seen            bool // by termguard itself: a review alone proves nothing
}

// Grader compares predictions about deletions with outcomes. It is safe for concurrent use.
type Grader struct {
	objects  metadata.Interface
	facts    FinalizerChecker
	outcomes *prometheus.CounterVec
	log      *slog.Logger

	limiter  flowcontrol.RateLimiter
	recorded chan *deletion

	mu        sync.Mutex
	deletions map[types.UID]*deletion
}

// FinalizerChecker reports whether the watch has an object with exactly these finalizers, as *cluster.World
// does.
type FinalizerChecker interface {
	Shows(resource schema.GroupResource, key types.NamespacedName, uid types.UID, finalizers []string) bool
}

func NewGrader(objects metadata.Interface, facts FinalizerChecker, registry prometheus.Registerer, log *slog.Logger) *Grader {
	return &Grader{
		objects: objects, facts: facts, log: log,
		limiter: flowcontrol.NewTokenBucketRateLimiter(gradeQPS, gradeQPS), recorded: make(chan *deletion, maxGraded),
		outcomes: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
			Name: "termguard_outcomes_total",
			Help: "Allowed deletions, by a policy's prediction (\"none\" without findings) and the outcome.",
		}, []string{"policy", "predicted", "real"}),
		deletions: map[types.UID]*deletion{},
	}
}

// Record records the prediction about an allowed deletion, unless the watch lacks the review's finalizers: a
// review can be forged.
func (g *Grader) Record(r *question.Request, result policies.Result) {
	if r.Trigger() != question.OnDelete || r.Dry() {
		return
	}
	old := &unstructured.Unstructured{Object: r.Old()}
	uid := old.GetUID()
	if uid == "" || old.GetDeletionTimestamp() != nil {
		return
	}
	key := r.Key()
	spec := slices.DeleteFunc(r.SpecFinalizers(r.Old()), func(f string) bool { return f == "kubernetes" }) // removed last, by the namespace controller
	if !g.facts.Shows(r.GroupResource(), key, uid, slices.Concat(old.GetFinalizers(), spec)) {
		return
	}
	predictions := map[string]policies.Verdict{}
	for _, f := range result.Findings {
		if f.Severity != policies.Info && predictions[f.Policy] != policies.Hangs {
			predictions[f.Policy] = predictionOf(f)
		}
	}
	if len(predictions) == 0 {
		predictions[noPolicy] = result.Verdict()
	}
	d := &deletion{
		resource:  schema.GroupVersionResource(r.Resource),
		namespace: key.Namespace, name: key.Name, uid: uid, predictions: predictions, start: time.Now(),
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
		for _, real := range []ending{endingCompleted, endingCured, endingHung} {
			g.outcomes.WithLabelValues(policy, string(verdict), string(real))
		}
	}
	g.recorded <- d // has room for all
}

// RecordRemoval notes finalizers that a user removed: that deletion does not complete by itself.
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
	var wait sync.WaitGroup
	defer wait.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-g.recorded:
			wait.Go(func() { _ = background.Try(ctx, "grading", func() error { g.follow(ctx, d); return nil }) }) // already reported
		}
	}
}

// follow checks until the outcome is known; at once whether the deletion began, if it should not complete.
func (g *Grader) follow(ctx context.Context, d *deletion) {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.deletions, d.uid)
	}()
	pause := unassistedTime
	if d.predictions[noPolicy] == "" {
		pause = 0
	}
	for done := false; !done; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause, done = g.grade(ctx, d)
	}
}

func (g *Grader) grade(ctx context.Context, d *deletion) (pause time.Duration, done bool) {
	exists, terminating, err := g.find(ctx, d)
	age := time.Since(d.start)
	switch {
	case err != nil && age < hangTimeout:
		g.log.Debug("the outcome of a deletion is unseen", "resource", d.resource.String(), "error", err)
		return time.Minute, false
	case err != nil:
	case exists && age < unassistedTime: // the first check
		d.seen = true
		return unassistedTime - age, false
	case exists && !terminating: // another webhook refused it
	case !exists && !d.seen && d.predictions[noPolicy] == "":
		g.count(d, endingUnseen, false)
	case !exists:
		g.count(d, endingCompleted, age > 2*unassistedTime)
	case age < hangTimeout:
		return min(max(age, hangTimeout/3-age), hangTimeout-age), false
	default:
		g.count(d, endingHung, false)
	}
	return 0, true
}

// Help by a user matters only for a predicted hang.
func (g *Grader) count(d *deletion, real ending, helped bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	helped = helped || d.assisted
	for policy, verdict := range d.predictions {
		result := real
		expected := verdict == policies.Hangs || verdict == policies.AtRisk
		if real == endingCompleted && expected && helped {
			result = endingCured
		}
		g.outcomes.WithLabelValues(policy, string(verdict), string(result)).Inc()
		if verdict == policies.Hangs && result == endingCompleted {
			g.log.Warn("a policy was wrong: it said that a deletion would hang, which completed by itself", "policy", policy, "resource", d.resource.GroupResource().String(), "namespace", d.namespace, "name", d.name)
		}
	}
}

// find lists: termguard lacks the right to get.
func (g *Grader) find(ctx context.Context, d *deletion) (ok, terminating bool, err error) {
	const limit = 5 * time.Second
	if err := g.limiter.Wait(ctx); err != nil {
		return false, false, err
	}
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
