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
// (k8s.io/apiserver/pkg/server/config.go, MaxRequestBodyBytes); a review holds
// the object twice, as it was and as it will be, in JSON, which may be larger
// than what etcd stores, and escapes.
const MaxBody = 12 << 20

// patience is how long the API server waits for an answer, as deploy/ has it.
const patience = time.Second

// maxInFlight bounds the evaluations that run at the same time, those included
// that went on after their deadline.
const maxInFlight = 256

// Evaluator asks the policies about one request. *policies.Engine is one.
type Evaluator interface {
	// Quiet is Evaluate for a request that concerns no policy; ok is false for others.
	Quiet(policies.Trigger, map[string]any, policies.Facts) (result policies.Result, ok bool)
	Evaluate(context.Context, policies.Trigger, map[string]any, policies.Facts) (policies.Result, error)
}

// Facts are what is known about the cluster. *cluster.World has them.
type Facts interface {
	// Ask calls f with the facts of one moment, which stand still until f returns.
	Ask(r *question.Request, f func(cluster.Moment))
	// TryAsk is Ask where it takes no wait; elsewhere it returns false.
	TryAsk(r *question.Request, f func(cluster.Moment)) bool
}

// Options configure a Handler. Evaluator and Facts are required.
type Options struct {
	Evaluator Evaluator
	Facts     Facts
	// Synced tells whether the facts are complete. Until then nothing is
	// checked. Defaults to always.
	Synced func() bool
	// Enforcement says what follows from findings. Defaults to warnings.
	Enforcement config.Enforcement
	// Trust says whose annotations count. Defaults to everybody's.
	Trust *config.Trust
	// Deadline bounds one review, from its first byte. Defaults to 300 ms: the
	// API server waits for one second.
	Deadline time.Duration
	// ShowObjectNames shows the names of other objects in the namespace that a
	// request is about to whoever may make that request. Defaults to kind,
	// count and finalizer only.
	ShowObjectNames bool
	// Authentic says that only the API server can ask, as Server.VerifyConnection has it. Where
	// anybody can, a review may be made up: nothing is recorded or learned on the word of one.
	Authentic bool
	// Recorder tells the world of what was refused, and of what was let through
	// only for what people wrote. Defaults to nobody.
	Recorder Recorder
	// Learner is told of requests that take finalizers from objects that are
	// being deleted. Defaults to nobody.
	Learner Learner
	// Grader is told what is said of deletions. Defaults to nobody.
	Grader *Grader
	// Status is what this replica says of itself to those who may edit objects in
	// Home, the namespace that it runs in. Defaults to nothing.
	Status func() Status
	Home   string
	// Registry takes the metrics. Defaults to one of its own.
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

// Handler answers reviews. It is an admission.Handler, for any server of
// controller-runtime, and an http.Handler of its own, which holds what a server in front of
// the API server has to (see ServeHTTP). It is safe for concurrent use.
type Handler struct {
	options Options
	hook    *admission.Webhook // that asks Handle
	rules   atomic.Pointer[Rules]
	metrics metrics
	weights weights
	slots   chan struct{} // one for each evaluation under way
	work    chan func()   // to a goroutine that waits
}

var (
	_ admission.Handler = (*Handler)(nil)
	_ http.Handler      = (*Handler)(nil)
)

// NewHandler returns a Handler.
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

// Rules are what reviews go by, and may be exchanged while they are answered.
type Rules struct {
	// Evaluator and Enforcement are as in Options.
	Evaluator   Evaluator
	Enforcement config.Enforcement
	// IDs are those of the policies, for labels that name none of them. Defaults
	// to not known.
	IDs []string
}

// Use has reviews that begin from now on go by other rules. Those under way end
// with the ones that they began with.
func (h *Handler) Use(rules Rules) { h.rules.Store(&rules) }

// Handle answers one review, whatever happens: controller-runtime would turn an error or
// a panic into a refusal, which no failurePolicy undoes.
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
	// The request's own context ends with the connection, and may end with
	// the server: neither is a reason to leave a person without an answer.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), at.started.Add(h.options.Deadline))
	defer cancel()
	c := h.consider(ctx, r, at.load)
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

// expected are the triggers of requests that policies are asked about here.
var expected = map[question.Trigger]bool{question.OnDelete: true, question.OnEviction: true, question.OnFinalizerEdit: true, question.OnFinalize: true}

// errUnexpected is for a request that this webhook has nothing to say about.
var errUnexpected = errors.New("no policy is about such a request; see the rules of the ValidatingWebhookConfiguration")

// triggerOf is the trigger as policies name it.
func triggerOf(r *question.Request) policies.Trigger {
	if r.EditsFinalizers() {
		return policies.FinalizerEdit
	}
	return policies.Delete
}

// follow has what is let through followed: to learn from it, and to see whether
// what was said of it comes true.
func (h *Handler) follow(r *question.Request, c considered) {
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

// allowUnchecked lets a request through that could not be checked.
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

// shown is the UID of a review, by which the API server's log of a failing webhook and the
// lines here belong together. It is cut: a forged review may bring megabytes.
func shown(uid types.UID) string { return cut(printable.Line(string(uid)), maxLogged) }

// maxLogged is how long, in characters, the name of a user or an object can be in a log.
const maxLogged = 256

// explain tells a person what went wrong, without what only operators of
// termguard may see or can use.
var explain = map[failure]string{
	malformed:  "parts of the admission request are missing",
	unexpected: "no policy is about such a request",
	unsynced:   "termguard is still reading the cluster",
	busy:       "termguard has too much to do",
	deadline:   "termguard did not answer in time",
	panicked:   "termguard failed (see its log)",
	evaluation: "termguard failed (see its log)",
}
