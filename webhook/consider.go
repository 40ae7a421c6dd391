package webhook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// assessment is the policies' result, with the other inputs of the decision.
type assessment struct {
	rules       *Rules // that the result is from
	result      policies.Result
	labels      map[string]string // of the request's namespace
	terminating bool              // that namespace is Terminating
	partial     bool              // only the metadata of the object was read
	inFacts     bool              // the facts know the object, not only the review
	// withoutDeclarations is the result as if the object under review, and the objects in its namespace, did
	// not declare the owners of their finalizers; nil if none does.
	withoutDeclarations *policies.Result
	// namespaceDeclares says that objects in the namespace declare owners, but nothing can be refused: the
	// effect of the declarations was not evaluated.
	namespaceDeclares bool

	reason failure
	err    error // if set, the fields above are unset
}

// assess evaluates the policies, and returns when ctx ends, whatever they do.
func (h *Handler) assess(ctx context.Context, r *question.Request, load *reservation) assessment {
	rules := h.rules.Load()
	var cached *preview
	// Most requests concern no policy. Checking that is cheaper than starting a goroutine, which is for slow
	// cases: large objects, a wait for the facts, and policies.
	if load == nil || load.pool == h.memory.small {
		h.options.Facts.TryAsk(r, func(m cluster.Moment) { cached = previewQuietly(r, rules, m) })
		if cached != nil && cached.quiet {
			return cached.assessment
		}
	}
	select {
	case h.slots <- struct{}{}:
	default:
		return assessment{reason: failureBusy, err: fmt.Errorf("%d reviews are under way", maxInFlight)}
	}
	done := make(chan assessment, 1)
	load.retain()
	h.run(func() {
		defer load.release()
		defer func() { <-h.slots }()
		c := assessment{reason: failureEvaluation, err: errors.New("the evaluation ended without an answer")}
		defer func() {
			if p := recover(); p != nil {
				c = assessment{reason: failurePanic, err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
			}
			done <- c
		}()
		h.options.Facts.Ask(r, func(m cluster.Moment) { c = h.evaluate(ctx, r, rules, m, cached) })
	})
	select {
	case c := <-done:
		return c
	case <-ctx.Done():
		return assessment{reason: failureDeadline, err: fmt.Errorf("no answer within %v", h.options.Deadline)}
	}
}

// run runs a function in an idle goroutine if there is one: its stack has grown already, and policies recurse
// deeply.
func (h *Handler) run(f func()) {
	select {
	case h.work <- f:
		return
	default:
	}
	go func() {
		timer := time.NewTimer(idleTimeout)
		defer timer.Stop()
		for {
			f()
			f = nil // it holds a review
			timer.Reset(idleTimeout)
			select {
			case f = <-h.work:
			case <-timer.C:
				return
			}
		}
	}()
}

// idleTimeout is how long a goroutine stays idle before it ends.
const idleTimeout = 10 * time.Second

// preview is the state of a request before any policy is evaluated.
type preview struct {
	assessment
	moment cluster.Moment // of the state
	input  map[string]any
	quiet  bool // no policy needs to be evaluated
}

// previewQuietly looks at a request that no declaration affects; nil for others.
func previewQuietly(r *question.Request, rules *Rules, m cluster.Moment) *preview {
	if m.Declared() || r.Annotation(cluster.OwnerAnnotation) != "" {
		return nil
	}
	l := newPreview(r, rules, m)
	l.result, l.quiet = rules.Evaluator.Quiet(triggerOf(r), l.input, m)
	return l
}

// evaluate evaluates the policies, and again without declarations if they may change the outcome. It reuses
// known if that is still valid.
func (h *Handler) evaluate(ctx context.Context, r *question.Request, rules *Rules, m cluster.Moment, cached *preview) assessment {
	declares := r.Annotation(cluster.OwnerAnnotation) != "" && trustsObject(*h.options.Trust, r)
	if !declares {
		m = m.Plain()
	}
	if cached == nil || !m.Is(cached.moment) {
		cached = newPreview(r, rules, m)
	}
	c := cached.assessment
	result, err := rules.Evaluator.Evaluate(ctx, triggerOf(r), cached.input, m)
	if err == nil {
		plain := m.Plain()
		if m.Declared() {
			// Evaluating a full namespace twice costs others time: only if a refusal may depend on it.
			switch {
			case !rules.Enforcement.Denies(c.labels):
				c.namespaceDeclares = true
			case len(judge(rules.Enforcement, result.Findings, c.labels).denials) == 0:
				plain, declares = m.Undeclared(), true
			}
		}
		if declares {
			var undeclared policies.Result
			undeclared, err = rules.Evaluator.Evaluate(ctx, triggerOf(r), plain.Input(), plain)
			c.withoutDeclarations = &undeclared
		}
	}
	switch {
	case ctx.Err() != nil:
		return assessment{reason: failureDeadline, err: ctx.Err()}
	case err != nil:
		return assessment{reason: failureEvaluation, err: err}
	}
	c.result = result
	return c
}

// newPreview reads the facts that the request lacks.
func newPreview(r *question.Request, rules *Rules, m cluster.Moment) *preview {
	l := &preview{assessment: assessment{rules: rules, inFacts: m.Knows()}, moment: m, input: m.Input()}
	if r.GroupResource() == question.Namespaces {
		l.labels = (&unstructured.Unstructured{Object: r.Old()}).GetLabels()
		return l
	}
	namespace := m.Namespace(r.Within())
	l.labels, l.terminating = namespace.Labels, namespace.Terminating
	return l
}
