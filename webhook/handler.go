package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
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
	// View calls f with the facts, which stand still until f returns.
	View(f func(doc map[string]any))
	// Free tells whether nobody changes the facts right now, so that to look at them
	// takes no wait.
	Free() bool
	// Ownership tells who removes the finalizers of an object, by finalizer.
	Ownership(obj metav1.Object, resource schema.GroupResource, specFinalizers []string) map[string]any
	// Undeclared views the facts as they would be if no object in a namespace
	// declared who removes its finalizers; it is nil where none does.
	Undeclared(namespace string) (view func(f func(doc map[string]any)))
	// Refusals are what else refuses a request that others let pass so far.
	Refusals(request map[string]any, admitted bool) []any
	// Carries tells whether just that object is there, and has a finalizer.
	Carries(resource schema.GroupResource, key types.NamespacedName, uid types.UID, finalizer string) bool
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
	// Recorder tells the world of what was refused, and of what was let through
	// only for what people wrote. Defaults to nobody.
	Recorder Recorder
	// Learner is told of requests that take finalizers from objects that are
	// being deleted. Defaults to nobody.
	Learner Learner
	// Grader is told what is said of deletions. Defaults to nobody.
	Grader *Grader
	// Wrong tells whether a policy is known to raise false alarms on this
	// cluster: then it refuses nothing, and warns instead. Defaults to never.
	Wrong func(policy string) bool
	// Status is what this replica says of itself to those who may edit objects in
	// Home, the namespace that it runs in. Defaults to nothing.
	Status func() Status
	Home   string
	// Registry takes the metrics. Defaults to one of its own.
	Registry prometheus.Registerer
	// Tracer starts a span for each review. Defaults to none.
	Tracer trace.Tracer
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
	if o.Recorder == nil {
		o.Recorder = discard{}
	}
	if o.Learner == nil {
		o.Learner = unteachable{}
	}
	if o.Wrong == nil {
		o.Wrong = func(string) bool { return false }
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// Handler answers AdmissionReviews, of v1 and v1beta1. It is safe for concurrent
// use.
//
// It is not controller-runtime's: that one turns an error or a panic into a
// refusal, which no failurePolicy undoes, and answers a body that it cannot
// read with 200 and no uid.
type Handler struct {
	options Options
	rules   atomic.Pointer[Rules]
	metrics metrics
	weights weights
	slots   chan struct{} // one for each evaluation under way
	work    chan func()   // to a goroutine that waits
}

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

// ServeHTTP answers one AdmissionReview. Only what is none gets a status of 4xx.
func (h *Handler) ServeHTTP(w http.ResponseWriter, httpRequest *http.Request) {
	started := time.Now()
	ctx, span := h.begin(httpRequest)
	defer span.End()
	// The API server waits no longer, and what comes later holds memory.
	http.NewResponseController(w).SetReadDeadline(started.Add(patience)) // without one, the server's own limit holds
	load := h.weights.load(httpRequest.ContentLength)
	defer load.drop()
	until := started.Add(h.options.Deadline)
	body, err := load.read(http.MaxBytesReader(w, httpRequest.Body, MaxBody), httpRequest.ContentLength, until)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		h.turnAway(w, http.StatusRequestEntityTooLarge, tooLarge, fmt.Errorf("the body is larger than %d bytes", large.Limit))
		return
	case errors.Is(err, errNoRoom):
		h.turnAway(w, http.StatusServiceUnavailable, busy, err)
		return
	case err != nil:
		h.turnAway(w, http.StatusBadRequest, notReview, fmt.Errorf("read the body: %w", err))
		return
	}
	weight, decode := decodedWeight(body), decodeReview
	if weight > maxDecoded {
		weight, decode = maxDecoded, decodePart
	}
	if err := load.add(weight, until); err != nil {
		h.turnAway(w, http.StatusServiceUnavailable, busy, err)
		return
	}
	decoding := h.step(ctx, "decode")
	review, err := decode(body)
	decoding.End()
	switch {
	case errors.Is(err, errTooLarge):
		h.turnAway(w, http.StatusRequestEntityTooLarge, tooLarge, err)
		return
	case err != nil:
		h.turnAway(w, http.StatusBadRequest, notReview, err)
		return
	}
	review.load = load
	answer := h.review(ctx, review, started)
	answer.UID = review.uid
	w.Header().Set("Content-Type", "application/json")
	err = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: review.apiVersion, Kind: "AdmissionReview"},
		Response: answer,
	})
	if err != nil {
		h.options.Log.Debug("the answer could not be sent", "error", err)
	}
}

// turnAway answers what is no review, and keeps no connection for it.
func (h *Handler) turnAway(w http.ResponseWriter, status int, reason failure, err error) {
	w.Header().Set("Connection", "close")
	h.metrics.failed(reason)
	h.options.Log.Debug("turned a request away", "status", status, "error", err)
	http.Error(w, "termguard: "+err.Error(), status)
}

// review answers one review, whatever happens.
func (h *Handler) review(ctx context.Context, rv review, started time.Time) (answer *admissionv1.AdmissionResponse) {
	on, how := onOther, failedOpen
	defer func() { h.metrics.reviewed(on, how, time.Since(started)) }()
	defer func() {
		if p := recover(); p != nil {
			how, answer = failedOpen, h.allowUnchecked(rv.request, panicked, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	r, err := parseRequest(rv.request)
	on = r.occasion
	var c considered
	defer func() { h.tell(ctx, r, how, len(c.result.Findings)) }()
	switch {
	case errors.Is(err, errUnexpected):
		return h.allowUnchecked(rv.request, unexpected, err)
	case err != nil:
		return h.allowUnchecked(rv.request, malformed, err)
	case h.asksForStatus(r):
		how = allowed
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: h.options.Status().lines()}
	case !h.options.Synced():
		return h.allowUnchecked(rv.request, unsynced, errors.New("the facts are not complete yet"))
	}
	// The request's own context ends with the connection, and may end with
	// the server: neither is a reason to leave a person without an answer.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), started.Add(h.options.Deadline))
	defer cancel()
	asking := h.step(ctx, "ask policies")
	c = h.consider(ctx, r, rv.load)
	asking.End()
	if c.err != nil {
		return h.allowUnchecked(rv.request, c.reason, c.err)
	}
	c.partial = rv.partial
	answer, how = h.decide(r, c)
	if answer.Allowed {
		h.follow(r, c, how)
	}
	return answer
}

// follow has what is let through followed: to learn from it, and to see whether
// what was said of it comes true.
func (h *Handler) follow(r request, c considered, how decision) {
	removal, removes := removalOf(r)
	if removes {
		h.options.Learner.Saw(removal)
	}
	if h.options.Grader == nil {
		return
	}
	if h.options.Grader.Said(r, c, how); removes {
		h.options.Grader.Removed(removal)
	}
}

// allowUnchecked lets a request through that could not be checked.
func (h *Handler) allowUnchecked(request map[string]any, reason failure, err error) *admissionv1.AdmissionResponse {
	h.metrics.failed(reason)
	h.options.Log.Warn("allowed a request unchecked", "uid", uidOf(request), "reason", string(reason), "error", err)
	return &admissionv1.AdmissionResponse{
		Allowed:          true,
		Warnings:         []string{line("not checked, allowed: "+explain[reason], "")},
		AuditAnnotations: map[string]string{"decision": string(failedOpen), "error": string(reason)},
	}
}

// uidOf is the UID of a review's request, by which the API server's log of a failing
// webhook and the lines here belong together. It is cut: a forged review may bring
// megabytes.
func uidOf(request map[string]any) string { return cut(printable.Line(str(request, "uid")), maxLogged) }

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

// considered is what the policies say, and what the decision needs besides.
type considered struct {
	rules       *Rules // that it was asked by
	result      policies.Result
	labels      map[string]string // of the namespace that the request is about
	terminating bool              // that namespace is being deleted
	partial     bool              // of the object, only the metadata was read
	declared    bool              // what is said rests on what people wrote on objects
	known       bool              // the facts know the object, not only the review
	// undeclared is what the policies would say if the object under review, and
	// those in its namespace, did not declare who removes their finalizers; nil
	// where none does.
	undeclared *policies.Result
	// inside says that objects in the namespace declare who removes their
	// finalizers, where nothing is refused: what that changes was not looked at.
	inside bool
	// holds says that the request is about a namespace in which objects have
	// finalizers.
	holds bool

	reason failure
	err    error // none of the above is known
}

// consider asks the policies, and gives up when ctx ends, whatever they do.
func (h *Handler) consider(ctx context.Context, r request, load *load) considered {
	// Most requests concern no policy. To see that takes less than another goroutine, which
	// is for what may take long: large objects, a wait for the facts, and policies.
	var q *question
	if (load == nil || load.in == h.weights.small) && h.options.Facts.Free() {
		q = h.question(r)
		if c, ok := h.quiet(r, q); ok {
			return c
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
		if q == nil {
			q = h.question(r)
		}
		c = h.ask(ctx, r, q)
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

// question is what is known of a request before any policy is asked.
type question struct {
	considered
	// ownership tells who removes the finalizers of the objects; plain is the same
	// without what the objects declare, and differs false where they declare nothing.
	ownership, plain map[string]any
	differs          bool
	refusals         []any
	undeclared       view // Facts.Undeclared of the namespace
}

func (h *Handler) question(r request) *question {
	q := &question{considered: considered{rules: h.rules.Load()}}
	objects := []map[string]any{r.old, r.object}
	if evicted := h.look(r, &q.considered); r.occasion == onEviction {
		objects = []map[string]any{evicted}
	}
	q.ownership, q.plain, q.differs = h.ownership(r, objects)
	if q.differs && !trustsObject(*h.options.Trust, r) {
		q.ownership, q.differs = q.plain, false
	}
	q.refusals = h.options.Facts.Refusals(r.raw, true)
	q.undeclared = h.options.Facts.Undeclared(r.within())
	return q
}

// quiet answers where nobody needs to be asked; ok is false elsewhere.
func (h *Handler) quiet(r request, q *question) (c considered, ok bool) {
	if q.differs || q.undeclared != nil {
		return c, false
	}
	c = q.considered
	c.result, ok = c.rules.Evaluator.Quiet(r.trigger, input(r, q.ownership, q.refusals), h.options.Facts)
	c.declared = declared(r, nil)
	return c, ok
}

func (h *Handler) ask(ctx context.Context, r request, q *question) considered {
	c := q.considered
	result, err := c.rules.Evaluator.Evaluate(ctx, r.trigger, input(r, q.ownership, q.refusals), h.options.Facts)
	var facts policies.Facts = h.options.Facts
	differs := q.differs
	if q.undeclared != nil && err == nil {
		// To ask twice about a full namespace costs others time: it is done where
		// a refusal may be at stake.
		switch {
		case !c.rules.Enforcement.Denies(c.labels):
			c.inside = true
		case len(judge(c.rules.Enforcement, result.Findings, c.labels).refuse) == 0:
			facts, differs = q.undeclared, true
		}
	}
	if err == nil && differs {
		var undeclared policies.Result
		undeclared, err = c.rules.Evaluator.Evaluate(ctx, r.trigger, input(r, q.plain, q.refusals), facts)
		c.undeclared = &undeclared
	}
	switch {
	case ctx.Err() != nil:
		return considered{reason: deadline, err: ctx.Err()}
	case err != nil:
		return considered{reason: evaluation, err: err}
	}
	c.result = result
	c.declared = declared(r, result.Findings)
	return c
}

// input is what policies are asked.
func input(r request, ownership map[string]any, refusals []any) map[string]any {
	in := map[string]any{"request": r.raw, "ownership": ownership}
	if len(refusals) > 0 {
		in["refusals"] = refusals
	}
	return in
}

// view is a way to look at facts, as policies.Facts.
type view func(f func(doc map[string]any))

func (v view) View(f func(doc map[string]any)) { v(f) }

// ownership tells who removes the finalizers of objects: as the objects declare
// it, and plainly. differs is false where both are the same.
func (h *Handler) ownership(r request, objects []map[string]any) (declared, plain map[string]any, differs bool) {
	declared = map[string]any{}
	for _, object := range objects {
		if object != nil {
			maps.Copy(declared, h.options.Facts.Ownership(&unstructured.Unstructured{Object: object}, r.resource, specFinalizers(r.resource, object)))
		}
	}
	if r.annotation(cluster.OwnerAnnotation) == "" {
		return declared, declared, false
	}
	plain = map[string]any{}
	for _, object := range objects {
		if object == nil {
			continue
		}
		without := &unstructured.Unstructured{Object: maps.Clone(object)}
		without.Object["metadata"] = maps.Clone(child(object, "metadata"))
		annotations := without.GetAnnotations()
		delete(annotations, cluster.OwnerAnnotation)
		without.SetAnnotations(annotations)
		maps.Copy(plain, h.options.Facts.Ownership(without, r.resource, specFinalizers(r.resource, object)))
	}
	return declared, plain, true
}

// declared tells whether what is found may rest on an annotation: of the object
// itself, or, as evidence of ownership says, of those that it takes along.
func declared(r request, findings []policies.Finding) bool {
	if r.annotation(cluster.OwnerAnnotation) != "" {
		return true
	}
	for _, f := range findings {
		if slices.ContainsFunc(f.Evidence, func(e string) bool { return strings.Contains(e, "declared") }) {
			return true
		}
	}
	return false
}

// look reads from the facts what the request does not carry: the labels of the
// namespace, and, for an eviction, the pod as far as it is known.
func (h *Handler) look(r request, c *considered) (evicted map[string]any) {
	h.options.Facts.View(func(doc map[string]any) {
		if r.resource == namespaces {
			c.labels, c.known = labelsOf(r.old), child(doc, "namespaces")[r.name] != nil
			c.holds = len(child(child(doc, "finalized"), r.name)) > 0
			return
		}
		c.known = r.resource == pods && policies.At(doc, "pods", r.namespace, r.name) != nil ||
			r.resource == nodes && child(doc, "nodes")[r.name] != nil
		namespace := child(child(doc, "namespaces"), r.namespace)
		c.labels = stringMap(child(namespace, "labels"))
		c.terminating = str(namespace, "deletionTimestamp") != ""
		if r.occasion == onEviction {
			finalizers, _ := policies.At(doc, "pods", r.namespace, r.name, "finalizers").([]any)
			evicted = map[string]any{"metadata": map[string]any{"namespace": r.namespace, "name": r.name, "finalizers": slices.Clone(finalizers)}}
		}
	})
	for _, finalizer := range finalizersOf(r.old) {
		key, uid := types.NamespacedName{Namespace: r.namespace, Name: r.name}, types.UID(str(child(r.old, "metadata"), "uid"))
		c.known = c.known || h.options.Facts.Carries(r.resource, key, uid, finalizer)
	}
	return evicted
}

// decide turns what the policies say into the answer.
func (h *Handler) decide(r request, c considered) (*admissionv1.AdmissionResponse, decision) {
	judge := func(findings []policies.Finding, labels map[string]string) judgement {
		j := judge(c.rules.Enforcement, findings, labels)
		j.refuse = slices.DeleteFunc(j.refuse, func(f policies.Finding) bool { return h.options.Wrong(f.Policy) })
		return j
	}
	j := judge(c.result.Findings, c.labels)
	h.metrics.found(j.record)
	answer := &admissionv1.AdmissionResponse{Allowed: true, AuditAnnotations: map[string]string{}}
	how := allowed
	switch {
	case len(j.say) > 0:
		how = warned
	case len(j.record) > 0:
		how = recorded
	}
	notices := config.Misspelt(c.labels, c.rules.IDs)
	if len(c.result.Errors) > 0 {
		h.metrics.policiesFailed(c.result.Errors)
		h.options.Log.Warn("policies failed; a request is judged by the others", "uid", uidOf(r.raw), "whole", c.result.Whole(), "error", errors.Join(c.result.Errors...))
		notices = append(notices, "not checked in full: a policy failed (see termguard's log)")
	}
	if !c.result.Whole() {
		how = failedOpen
		h.metrics.failed(policy)
		answer.AuditAnnotations["error"] = string(policy)
	}
	if c.partial {
		how = failedOpen
		h.metrics.failed(partial)
		answer.AuditAnnotations["error"] = string(partial)
		notices = append(notices, "not checked in full: the object is so large that only its metadata was read")
	}
	if r.trigger == policies.Delete && c.rules.Enforcement.Speaks(c.labels) {
		if note := unseenNote(j.record, c.result.Unseen); note != "" {
			notices = append(notices, note)
		}
	}
	whole := r.occasion != onEviction && c.result.Whole() && !c.partial
	// changed tells the world that what people wrote leads to another outcome.
	changed := func(without judgement, key, by string) {
		if !j.differs(without) {
			return
		}
		answer.AuditAnnotations[key] = cut(printable.Line(by), maxReason)
		if whole && len(without.refuse) > 0 && len(j.refuse) == 0 {
			h.decided(r, c, without.refuse, by)
		}
	}
	if labels := config.EnforceLabels(c.labels); labels != "" {
		changed(judge(c.result.Findings, nil), "enforce-label", "label "+labels+" of its namespace")
	}
	by := "annotation " + cluster.OwnerAnnotation
	if declares := r.annotation(cluster.OwnerAnnotation); declares != "" {
		by += ": " + declares
	} else {
		by += " of objects in the namespace"
	}
	switch {
	case c.undeclared != nil:
		changed(judge(c.undeclared.Findings, c.labels), "declared-owner", by)
	case c.inside:
		answer.AuditAnnotations["declared-owner"] = by
	}
	// The API server evicts whatever it is told of the delete, and an answer
	// that is not whole refuses nothing.
	if len(j.refuse) > 0 && whole {
		reason := printable.Line(strings.TrimSpace(r.annotation(AllowAnnotation)))
		heeded := trustsObject(*h.options.Trust, r) || trustsPerson(*h.options.Trust, r)
		if reason != "" && !heeded {
			notices = append(notices, "annotation "+AllowAnnotation+" counts neither in this namespace nor from you")
		}
		if reason != "" && heeded {
			how = brokeGlass
			reason = cut(reason, maxReason)
			notices = append([]string{fmt.Sprintf("let through all the same: annotation %s says %q", AllowAnnotation, cut(reason, 100))}, notices...)
			answer.AuditAnnotations["break-glass"] = reason
			h.decided(r, c, j.refuse, "annotation "+AllowAnnotation+": "+reason)
		} else {
			how = denied
			answer.Allowed = false
			answer.Result = &metav1.Status{
				Status:  metav1.StatusFailure,
				Code:    http.StatusForbidden,
				Reason:  metav1.StatusReasonForbidden,
				Message: refusal(r, j.refuse, heeded),
			}
			h.decided(r, c, j.refuse, "")
		}
	}
	omitted := c.result.Omitted
	if len(j.say) == 0 {
		omitted = 0 // where nothing is said, nothing is left out
	}
	answer.Warnings = warnings(r, j.say, omitted, notices, h.options.ShowObjectNames)
	if len(j.record) > 0 {
		answer.AuditAnnotations["policies"] = audit(j.record)
	}
	if len(answer.AuditAnnotations) > 0 || how != allowed {
		answer.AuditAnnotations["decision"] = string(how)
	}
	return answer, how
}

// decided tells the world that something was refused, or let through by what
// people wrote. Dry runs are nobody's business. An Event bears the text of whoever
// asks: there is none about what only the review itself says to exist.
func (h *Handler) decided(r request, c considered, why []policies.Finding, by string) {
	if r.dryRun {
		return
	}
	var ids []string
	for _, f := range why {
		if !slices.Contains(ids, f.Policy) {
			ids = append(ids, f.Policy)
		}
	}
	user := cut(printable.Line(str(child(r.raw, "userInfo"), "username")), maxLogged)
	about := []any{"uid", uidOf(r.raw), "user", user, "on", string(r.occasion), "resource", cut(r.resource.String(), maxLogged), "namespace", cut(r.namespace, maxLogged),
		"name", cut(r.name, maxLogged), "policies", ids, "known", c.known}
	if by == "" {
		h.options.Log.Info("refused", append(about, "why", why[0].Message)...)
	} else {
		h.options.Log.Info("let through what would be refused", append(about, "by", cut(by, maxReason))...)
	}
	if !c.known {
		return
	}
	h.options.Recorder.Decided(Decision{
		Resource: r.resource, APIVersion: apiVersion(r.raw), Kind: r.kind,
		Namespace: r.namespace, Name: r.name, Terminating: c.terminating, Edit: r.trigger == policies.FinalizerEdit,
		User: user, By: by, Why: why[0].Message, Policies: ids,
	})
}

// apiVersion of the object in a request.
func apiVersion(raw map[string]any) string {
	kind := child(raw, "kind")
	return schema.GroupVersion{Group: str(kind, "group"), Version: str(kind, "version")}.String()
}

// unseenNote tells what kept the policies from finding anything: silence would
// pass for "it completes". Beside a finding that it may hang it would be noise.
func unseenNote(findings []policies.Finding, unseen []string) string {
	const incomplete = "not checked in full: termguard cannot see "
	verdict := policies.Result{Findings: findings, Unseen: unseen}.Verdict()
	switch {
	case verdict != policies.Unknown:
		return ""
	case len(unseen) == 1:
		return incomplete + unseen[0]
	default:
		return fmt.Sprintf("%s%s (and %d more)", incomplete, cut(unseen[0], 180), len(unseen)-1)
	}
}

// audit is what the audit log keeps: each policy with its gravest certainty.
func audit(findings []policies.Finding) string {
	gravest := map[string]policies.Certainty{}
	for _, f := range findings {
		if gravest[f.Policy] != policies.Will {
			gravest[f.Policy] = f.Certainty
		}
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(gravest)) {
		parts = append(parts, id+"="+string(gravest[id]))
	}
	return strings.Join(parts, ",")
}
