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
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// MaxBody bounds an AdmissionReview, in bytes. A request body has at most 3 MiB
// (k8s.io/apiserver/pkg/server/config.go, MaxRequestBodyBytes); a review has the old and the new object in
// JSON, which may be larger than in etcd, and escapes.
const MaxBody = 12 << 20

// patience is how long the API server waits for an answer, as set in deploy/.
const patience = time.Second

// maxInFlight bounds concurrent evaluations, including those past their deadline.
const maxInFlight = 256

// Evaluator evaluates the policies about one request. *policies.Engine is one.
type Evaluator interface {
	// Quiet is Evaluate for a request that concerns no policy; ok is false for others.
	Quiet(policies.Trigger, map[string]any, policies.Facts) (result policies.Result, ok bool)
	Evaluate(context.Context, policies.Trigger, map[string]any, policies.Facts) (policies.Result, error)
}

// Facts are the facts about the cluster. *cluster.World has them.
type Facts interface {
	// Ask calls f with the facts, which do not change until f returns.
	Ask(r *question.Request, f func(cluster.Moment))
	// TryAsk is Ask without waiting; it returns false if it would have to.
	TryAsk(r *question.Request, f func(cluster.Moment)) bool
}

// Options configure a Handler. Evaluator and Facts are required.
type Options struct {
	Evaluator Evaluator
	Facts     Facts
	// Synced reports whether the facts are complete. Until then requests are allowed unchecked. Defaults to
	// always.
	Synced func() bool
	// Enforcement maps findings to outcomes. Defaults to warnings.
	Enforcement config.Enforcement
	// Trust says whose annotations count. Defaults to everyone's.
	Trust *config.Trust
	// Deadline bounds one review, from its first byte. Defaults to 300 ms: the API server waits for one
	// second.
	Deadline time.Duration
	// ShowObjectNames includes the names of other objects in the request's namespace in warnings. Defaults to
	// kind, count and finalizer only.
	ShowObjectNames bool
	// Authentic says that only the API server can send reviews, as with Server.VerifyConnection. Otherwise a
	// review may be forged, and is neither recorded nor learned from.
	Authentic bool
	// Recorder receives refusals, and requests that only users' annotations allowed. Defaults to none.
	Recorder Recorder
	// Learner receives requests that remove finalizers from Terminating objects. Defaults to none.
	Learner Learner
	// Grader receives predictions about deletions. Defaults to none.
	Grader *Grader
	// Status returns this replica's status, for users who may edit objects in Home, its namespace. Defaults
	// to none.
	Status func() Status
	Home   string
	// Registry receives the metrics. Defaults to one of its own.
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
		o.Trust = &config.Everybody
	}
	if o.Recorder == nil || !o.Authentic {
		o.Recorder = discard{}
	}
	if o.Learner == nil || !o.Authentic {
		o.Learner = unteachable{}
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// Handler answers reviews. It is an admission.Handler, for any server of controller-runtime, and an
// http.Handler with the limits that a webhook server needs (see ServeHTTP). It is safe for concurrent use.
type Handler struct {
	options Options
	hook    *admission.Webhook // calls Handle
	rules   atomic.Pointer[Rules]
	metrics metrics
	weights weights
	slots   chan struct{} // one per running evaluation
	work    chan func()   // to an idle goroutine
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
		weights: newWeights(),
		slots:   make(chan struct{}, maxInFlight),
		work:    make(chan func()),
	}
	h.hook = hookOf(h)
	h.Use(Rules{Evaluator: options.Evaluator, Enforcement: options.Enforcement})
	return h
}

// Rules are the policies and modes of reviews. They may be replaced at any time.
type Rules struct {
	// Evaluator and Enforcement are as in Options.
	Evaluator   Evaluator
	Enforcement config.Enforcement
	// IDs are the ids of the policies, to report labels for unknown ones. Defaults to unknown.
	IDs []string
}

// Use replaces the rules for reviews that begin from now on.
func (h *Handler) Use(rules Rules) { h.rules.Store(&rules) }

// Handle answers one review, whatever happens: controller-runtime would turn an error or a panic into a
// refusal, which no failurePolicy overrides.
func (h *Handler) Handle(ctx context.Context, sent admission.Request) (response admission.Response) {
	at := arrivalOf(ctx)
	on, how := question.OnOther, failedOpen
	defer func() { h.metrics.reviewed(on, how, time.Since(at.started)) }()
	defer func() {
		if p := recover(); p != nil {
			how, response = failedOpen, h.allowUnchecked(sent.UID, panicked, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	r, err := question.Review(sent)
	if on = r.Trigger(); !expected[on] {
		on = question.OnOther
	}
	switch {
	case err != nil:
		return h.allowUnchecked(r.UID, malformed, err)
	case on == question.OnOther:
		return h.allowUnchecked(r.UID, unexpected, errUnexpected)
	case h.asksForStatus(r):
		how = allowed
		return allow(h.options.Status().lines())
	case !h.options.Synced():
		return h.allowUnchecked(r.UID, unsynced, errors.New("the facts are not complete yet"))
	}
	// The request's own context ends with the connection, and may end with the server; the user still needs
	// an answer.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), at.started.Add(h.options.Deadline))
	defer cancel()
	c := h.assess(ctx, r, at.load)
	if c.err != nil {
		return h.allowUnchecked(r.UID, c.reason, c.err)
	}
	c.partial = at.partial
	answer := h.decide(r, c)
	if how = answer.how; how != denied {
		h.follow(r, c)
	}
	return answer.response(r)
}

// expected are the triggers that policies are evaluated on here.
var expected = map[question.Trigger]bool{question.OnDelete: true, question.OnEviction: true, question.OnFinalizerEdit: true, question.OnFinalize: true}

// errUnexpected is the error for a request that no policy concerns.
var errUnexpected = errors.New("no policy is about such a request; see the rules of the ValidatingWebhookConfiguration")

// triggerOf returns the trigger as policies name it.
func triggerOf(r *question.Request) policies.Trigger {
	if r.EditsFinalizers() {
		return policies.FinalizerEdit
	}
	return policies.Delete
}

// follow follows an allowed request, to learn from it and to grade the predictions.
func (h *Handler) follow(r *question.Request, c assessment) {
	removal, removes := removalOf(r)
	if removes {
		h.options.Learner.Saw(removal)
	}
	if h.options.Grader == nil {
		return
	}
	if h.options.Grader.Said(r, c); removes {
		h.options.Grader.Removed(removal)
	}
}

// allowUnchecked allows a request that could not be checked.
func (h *Handler) allowUnchecked(uid types.UID, reason failure, err error) admission.Response {
	h.metrics.failed(reason)
	h.options.Log.Warn("allowed a request unchecked", "uid", shown(uid), "reason", string(reason), "error", err)
	response := allow([]string{line("not checked, allowed: "+explain[reason], "")})
	response.AuditAnnotations = map[string]string{"decision": string(failedOpen), "error": string(reason)}
	return response
}

func allow(warnings []string) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}}
}

// shown returns the UID of a review, which connects log lines here to the API server's. It is cut: a forged
// review may have megabytes.
func shown(uid types.UID) string { return cut(printable.Line(string(uid)), maxLogged) }

// maxLogged bounds the name of a user or an object in a log, in characters.
const maxLogged = 256

// explain describes failures to users, without details for termguard's operators.
var explain = map[failure]string{
	malformed:  "parts of the admission request are missing",
	unexpected: "no policy is about such a request",
	unsynced:   "termguard is still reading the cluster",
	busy:       "termguard has too much to do",
	deadline:   "termguard did not answer in time",
	panicked:   "termguard failed (see its log)",
	evaluation: "termguard failed (see its log)",
}
