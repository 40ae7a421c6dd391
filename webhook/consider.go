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

// considered is what the policies say, and what the decision needs besides.
type considered struct {
	rules       *Rules // that it was asked by
	result      policies.Result
	labels      map[string]string // of the namespace that the request is about
	terminating bool              // that namespace is being deleted
	partial     bool              // of the object, only the metadata was read
	known       bool              // the facts know the object, not only the review
	// undeclared is what the policies would say if the object under review, and
	// those in its namespace, did not declare who removes their finalizers; nil
	// where none does.
	undeclared *policies.Result
	// inside says that objects in the namespace declare who removes their
	// finalizers, where nothing is refused: what that changes was not looked at.
	inside bool

	reason failure
	err    error // none of the above is known
}

// consider asks the policies, and gives up when ctx ends, whatever they do.
func (h *Handler) consider(ctx context.Context, r *question.Request, load *load) considered {
	rules := h.rules.Load()
	var known *looked
	// Most requests concern no policy. To see that takes less than another goroutine, which
	// is for what may take long: large objects, a wait for the facts, and policies.
	if load == nil || load.in == h.weights.small {
		h.options.Facts.TryAsk(r, func(m cluster.Moment) { known = lookQuietly(r, rules, m) })
		if known != nil && known.quiet {
			return known.considered
		}
	}
	select {
	case h.slots <- struct{}{}:
	default:
		return considered{reason: busy, err: fmt.Errorf("%d reviews are under way", maxInFlight)}
	}
	done := make(chan considered, 1)
	load.hold()
	h.run(func() {
		defer load.drop()
		defer func() { <-h.slots }()
		c := considered{reason: evaluation, err: errors.New("the evaluation ended without an answer")}
		defer func() {
			if p := recover(); p != nil {
				c = considered{reason: panicked, err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
			}
			done <- c
		}()
		h.options.Facts.Ask(r, func(m cluster.Moment) { c = h.ask(ctx, r, rules, m, known) })
	})
	select {
	case c := <-done:
		return c
	case <-ctx.Done():
		return considered{reason: deadline, err: fmt.Errorf("no answer within %v", h.options.Deadline)}
	}
}

// run runs a function in a goroutine that has run one before, where one waits: its stack
// has grown already, and policies go deep.
func (h *Handler) run(f func()) {
	select {
	case h.work <- f:
		return
	default:
	}
	go func() {
		timer := time.NewTimer(rest)
		defer timer.Stop()
		for {
			f()
			f = nil // it holds a review
			timer.Reset(rest)
			select {
			case f = <-h.work:
			case <-timer.C:
				return
			}
		}
	}()
}

// rest is how long a goroutine waits for the next review before it ends.
const rest = 10 * time.Second

// looked is what is known of a request before any policy is asked.
type looked struct {
	considered
	moment cluster.Moment // when it was so
	input  map[string]any
	quiet  bool // nobody needs to be asked
}

// lookQuietly looks at a request that nothing declared matters to; it is nil for others.
func lookQuietly(r *question.Request, rules *Rules, m cluster.Moment) *looked {
	if m.Declared() || r.Annotation(cluster.OwnerAnnotation) != "" {
		return nil
	}
	l := look(r, rules, m)
	l.result, l.quiet = rules.Evaluator.Quiet(triggerOf(r), l.input, m)
	return l
}

// ask asks the policies, and once more, as if nothing was declared, where another outcome
// may follow from that. What was known before is not looked at again, if it still holds.
func (h *Handler) ask(ctx context.Context, r *question.Request, rules *Rules, m cluster.Moment, known *looked) considered {
	declares := r.Annotation(cluster.OwnerAnnotation) != "" && trustsObject(*h.options.Trust, r)
	if !declares {
		m = m.Plain()
	}
	if known == nil || !m.Is(known.moment) {
		known = look(r, rules, m)
	}
	c := known.considered
	result, err := rules.Evaluator.Evaluate(ctx, triggerOf(r), known.input, m)
	if err == nil {
		plain := m.Plain()
		if m.Declared() {
			// To ask twice about a full namespace costs others time: it is done where
			// a refusal may be at stake.
			switch {
			case !rules.Enforcement.Denies(c.labels):
				c.inside = true
			case len(judge(rules.Enforcement, result.Findings, c.labels).refuse) == 0:
				plain, declares = m.Undeclared(), true
			}
		}
		if declares {
			var undeclared policies.Result
			undeclared, err = rules.Evaluator.Evaluate(ctx, triggerOf(r), plain.Input(), plain)
			c.undeclared = &undeclared
		}
	}
	switch {
	case ctx.Err() != nil:
		return considered{reason: deadline, err: ctx.Err()}
	case err != nil:
		return considered{reason: evaluation, err: err}
	}
	c.result = result
	return c
}

// look reads from the facts what the request does not carry.
func look(r *question.Request, rules *Rules, m cluster.Moment) *looked {
	l := &looked{considered: considered{rules: rules, known: m.Knows()}, moment: m, input: m.Input()}
	if r.GroupResource() == question.Namespaces {
		l.labels = (&unstructured.Unstructured{Object: r.Old()}).GetLabels()
		return l
	}
	namespace := m.Namespace(r.Within())
	l.labels, l.terminating = namespace.Labels, namespace.Terminating
	return l
}
