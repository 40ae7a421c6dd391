package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// MaxBody bounds an AdmissionReview, in bytes: it has the old and the new object in JSON, with escapes; a
// request body has at most 3 MiB (k8s.io/apiserver/pkg/server/config.go, MaxRequestBodyBytes).
const MaxBody = 12 << 20

// apiServerTimeout is timeoutSeconds in deploy/.
const apiServerTimeout = time.Second

// maxInFlight includes evaluations past their deadline.
const maxInFlight = 256

// Evaluator is what *policies.Engine does.
type Evaluator interface {
	// Quiet answers requests that concern no policy; ok is false for others.
	Quiet(policies.Trigger, map[string]any, policies.Facts) (result policies.Result, ok bool)
	Evaluate(context.Context, policies.Trigger, map[string]any, policies.Facts) (policies.Result, error)
}

// Facts are *cluster.World's.
type Facts interface {
	// Ask calls f with facts that do not change until f returns.
	Ask(r *question.Request, f func(cluster.Moment))
	// TryAsk is Ask, but returns false if it would have to wait.
	TryAsk(r *question.Request, f func(cluster.Moment)) bool
}

// Options configure a Handler. Evaluator and Facts are required.
type Options struct {
	Evaluator Evaluator
	Facts     Facts
	// Synced reports whether the facts are complete; until then nothing is checked. Defaults to always.
	Synced func() bool
	// Enforcement defaults to warnings.
	Enforcement config.Enforcement
	// Trust says whose annotations count. Defaults to everyone's.
	Trust *config.Trust
	// Deadline bounds one review, from its first byte. Defaults to 300 ms.
	Deadline time.Duration
	// ShowObjectNames adds names of other objects in the request's namespace to warnings.
	ShowObjectNames bool
	// Authentic says that only the API server can send reviews, as with Server.VerifyConnection. Otherwise
	// they may be forged: none is recorded or learned from.
	Authentic bool
	// Recorder creates Events, without blocking, about refusals, and requests that only users' annotations
	// allowed. Optional.
	Recorder record.EventRecorder
	// Learner is optional.
	Learner Learner
	// Grader is optional.
	Grader *Grader
	// Status is for users who may edit objects in Home, this replica's namespace. Optional.
	Status func() Status
	Home   string
	// Registry defaults to one of its own.
	Registry prometheus.Registerer
	// Log defaults to slog.Default().
	Log *slog.Logger
}

func (o *Options) setDefaults() {
	if o.Synced == nil {
		o.Synced = func() bool { return true }
	}
	if o.Deadline <= 0 {
		o.Deadline = 300 * time.Millisecond
	}
	if o.Trust == nil {
		o.Trust = &config.TrustAll
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// Handler answers reviews, for any server of controller-runtime or, with the limits of ServeHTTP, as an
// http.Handler. It is safe for concurrent use.
type Handler struct {
	options Options
	rules   atomic.Pointer[Rules]
	metrics metrics
	memory  memoryLimits
	slots   chan struct{}
	work    chan func()
}

var (
	_ admission.Handler = (*Handler)(nil)
	_ http.Handler      = (*Handler)(nil)
)

func NewHandler(options Options) *Handler {
	options.setDefaults()
	h := &Handler{
		options: options,
		metrics: newMetrics(options.Registry),
		memory:  newWeights(),
		slots:   make(chan struct{}, maxInFlight),
		work:    make(chan func()),
	}
	h.Use(Rules{Evaluator: options.Evaluator, Enforcement: options.Enforcement})
	return h
}

// Rules are the policies and modes of reviews.
type Rules struct {
	Evaluator   Evaluator
	Enforcement config.Enforcement
	// IDs are the policies', to report labels for unknown ones; nil if unknown.
	IDs []string
}

// Use is for reviews that begin from now on.
func (h *Handler) Use(rules Rules) { h.rules.Store(&rules) }

// Handle answers a review from another server, whose body has no reservation.
func (h *Handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	return h.answer(ctx, request, arrival{started: time.Now(), reservation: h.memory.newReservation(0)})
}

// answer always answers: controller-runtime would turn an error or a panic into a refusal, which no failurePolicy
// overrides.
func (h *Handler) answer(ctx context.Context, request admission.Request, at arrival) (response admission.Response) {
	o := &outcome{uid: request.UID, trigger: question.OnOther}
	defer func() { h.metrics.observe(o, time.Since(at.started)) }()
	defer func() {
		if p := recover(); p != nil {
			*o = outcome{uid: o.uid, trigger: o.trigger, assessment: unchecked(failurePanic, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))}
			response = o.response(false)
			h.report(o)
		}
	}()
	h.review(ctx, request, at, o)
	response = o.response(h.options.ShowObjectNames)
	h.report(o)
	return response
}

func (h *Handler) review(ctx context.Context, request admission.Request, at arrival, o *outcome) {
	r, err := question.Review(request)
	if trigger := r.Trigger(); supportedTriggers[trigger] {
		o.trigger = trigger
	}
	switch {
	case err != nil:
		o.assessment = unchecked(failureMalformed, err)
	case o.trigger == question.OnOther:
		o.assessment = unchecked(failureUnexpected, errUnsupported)
	case h.isStatusRequest(r):
		o.decision, o.status = decisionAllow, h.options.Status().lines()
	case !h.options.Synced():
		o.assessment = unchecked(failureUnsynced, errors.New("the facts are not complete yet"))
	default:
		// The request's context ends with the connection; the user still needs an answer.
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), at.started.Add(h.options.Deadline))
		defer cancel()
		if o.assessment = h.assess(ctx, r, at.reservation); o.err == nil {
			o.partial = at.partial
			o.decide(r, *h.options.Trust)
		}
	}
}

var supportedTriggers = map[question.Trigger]bool{question.OnDelete: true, question.OnEviction: true, question.OnFinalizerEdit: true, question.OnFinalize: true}

var errUnsupported = errors.New("no policy applies to such a request; see the rules of the ValidatingWebhookConfiguration")

var explanations = map[failure]string{
	failureMalformed:  "parts of the admission request are missing",
	failureUnexpected: "no policy applies to such a request",
	failureUnsynced:   "termguard is still reading the cluster",
	failureBusy:       "termguard is overloaded",
	failureDeadline:   "termguard did not answer in time",
	failurePanic:      "termguard failed (see its log)",
	failureEvaluation: "termguard failed (see its log)",
}
