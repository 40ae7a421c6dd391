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

type assessment struct {
	rules       *Rules
	moment      cluster.Moment
	input       map[string]any
	result      policies.Result
	labels      map[string]string // of the request's namespace
	terminating bool
	inFacts     bool // not only the review
	partial     bool
	// withoutDeclarations is the result without declared owners of finalizers in the namespace; nil if there
	// are none.
	withoutDeclarations *policies.Result
	// namespaceDeclares says that objects in the namespace declare owners, not evaluated: nothing can be
	// refused.
	namespaceDeclares bool

	reason failure
	err    error // if set, only reason is, too
}

func unchecked(reason failure, err error) assessment { return assessment{reason: reason, err: err} }

func newAssessment(r *question.Request, rules *Rules, m cluster.Moment) assessment {
	c := assessment{rules: rules, moment: m, input: m.Input(), inFacts: m.Knows()}
	if r.GroupResource() == question.Namespaces {
		c.labels = (&unstructured.Unstructured{Object: r.Old()}).GetLabels()
		return c
	}
	namespace := m.Namespace(r.Within())
	c.labels, c.terminating = namespace.Labels, namespace.Terminating
	return c
}

func triggerOf(r *question.Request) policies.Trigger {
	if r.EditsFinalizers() {
		return policies.FinalizerEdit
	}
	return policies.Delete
}

// assess returns when ctx ends, whatever the policies do.
func (h *Handler) assess(ctx context.Context, r *question.Request, load *reservation) assessment {
	rules := h.rules.Load()
	var before assessment
	// Most requests concern no policy and no declaration: starting a goroutine would cost more.
	if load.pool == h.memory.small {
		quiet := false
		h.options.Facts.TryAsk(r, func(m cluster.Moment) {
			if m.Declared() || r.Annotation(cluster.OwnerAnnotation) != "" {
				return
			}
			before = newAssessment(r, rules, m)
			before.result, quiet = rules.Evaluator.Quiet(triggerOf(r), before.input, m)
		})
		if quiet {
			return before
		}
	}
	select {
	case h.slots <- struct{}{}:
	default:
		return unchecked(failureBusy, fmt.Errorf("%d reviews are under way", maxInFlight))
	}
	done := make(chan assessment, 1)
	load.retain()
	h.run(func() {
		defer load.release()
		defer func() { <-h.slots }()
		c := unchecked(failureEvaluation, errors.New("the evaluation ended without an answer"))
		defer func() {
			if p := recover(); p != nil {
				c = unchecked(failurePanic, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
			done <- c
		}()
		h.options.Facts.Ask(r, func(m cluster.Moment) { c = h.evaluate(ctx, r, rules, m, before) })
	})
	select {
	case c := <-done:
		return c
	case <-ctx.Done():
		return unchecked(failureDeadline, fmt.Errorf("no answer within %v", h.options.Deadline))
	}
}

// An idle goroutine's stack has grown already, and policies recurse deeply.
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

const idleTimeout = 10 * time.Second

// evaluate evaluates again without declarations if they may change the outcome. It continues before if the
// facts are the same.
func (h *Handler) evaluate(ctx context.Context, r *question.Request, rules *Rules, m cluster.Moment, before assessment) assessment {
	declares := r.Annotation(cluster.OwnerAnnotation) != "" && h.options.Trust.TrustsNamespace(r.Within())
	if !declares {
		m = m.Plain()
	}
	c := before
	if c.input == nil || !m.Is(c.moment) {
		c = newAssessment(r, rules, m)
	}
	var err error
	c.result, err = rules.Evaluator.Evaluate(ctx, triggerOf(r), c.input, m)
	plain := m.Plain()
	if err == nil && m.Declared() {
		// Evaluating a full namespace twice costs others time.
		switch {
		case !rules.Enforcement.Denies(c.labels):
			c.namespaceDeclares = true
		case len(judge(rules.Enforcement, c.result.Findings, c.labels).denials) == 0:
			plain, declares = m.Undeclared(), true
		}
	}
	if err == nil && declares {
		c.withoutDeclarations = new(policies.Result)
		*c.withoutDeclarations, err = rules.Evaluator.Evaluate(ctx, triggerOf(r), plain.Input(), plain)
	}
	switch {
	case ctx.Err() != nil:
		return unchecked(failureDeadline, ctx.Err())
	case err != nil:
		return unchecked(failureEvaluation, err)
	}
	return c
}
