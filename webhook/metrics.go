package webhook

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

type decision string

const (
	decisionAllow      decision = "allow"
	decisionWarn       decision = "warn"   // findings, shown
	decisionDryRun     decision = "dryrun" // findings, only recorded
	decisionDeny       decision = "deny"
	decisionBreakGlass decision = "break-glass"
	decisionError      decision = "error" // not fully checked, but allowed
)

type failure string

const (
	failureNotReview  failure = "not-a-review" // answered with 400
	failureTooLarge   failure = "too-large"    // answered with 413
	failurePartial    failure = "partial"
	failureMalformed  failure = "malformed"
	failureUnexpected failure = "unexpected"
	failureUnsynced   failure = "unsynced"
	failureBusy       failure = "busy" // answered with 503 if nothing was read
	failureDeadline   failure = "deadline"
	failurePanic      failure = "panic"
	failureEvaluation failure = "evaluation"
	failurePolicy     failure = "policy"
)

// Labels are the values above, and ids of policies: never names of objects.
type metrics struct {
	reviews  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	findings *prometheus.CounterVec
	errors   *prometheus.CounterVec
	failures *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) metrics {
	factory := promauto.With(registry)
	m := metrics{
		reviews: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "termguard_reviews_total",
			Help: "Admission reviews, by trigger and decision.",
		}, []string{"trigger", "decision"}),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "termguard_review_duration_seconds",
			Help:    "Time from the first byte of a review to its answer.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
		}, []string{"trigger"}),
		findings: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "termguard_findings_total",
			Help: "Findings of policies, by policy and certainty (will or may).",
		}, []string{"policy", "certainty"}),
		errors: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "termguard_errors_total",
			Help: "Requests that could not be checked, and were allowed, or rejected as no review.",
		}, []string{"reason"}),
		failures: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "termguard_policy_failures_total",
			Help: "Reviews in which a policy failed, exceeded its time, or returned malformed findings; the others were evaluated.",
		}, []string{"policy"}),
	}
	// Rates need a zero to start from.
	for _, reason := range []failure{failureNotReview, failureTooLarge, failurePartial, failureMalformed, failureUnexpected, failureUnsynced, failureBusy, failureDeadline, failurePanic, failureEvaluation, failurePolicy} {
		m.errors.WithLabelValues(string(reason))
	}
	for _, on := range []question.Trigger{question.OnDelete, question.OnEviction, question.OnFinalizerEdit, question.OnFinalize} {
		for _, how := range []decision{decisionAllow, decisionWarn, decisionDryRun, decisionDeny, decisionBreakGlass, decisionError} {
			m.reviews.WithLabelValues(string(on), string(how))
		}
	}
	return m
}

func (m metrics) countError(reason failure) { m.errors.WithLabelValues(string(reason)).Inc() }

func (m metrics) observe(o *outcome, took time.Duration) {
	how := o.decision
	if o.err != nil {
		how = decisionError
		m.countError(o.reason)
	}
	m.reviews.WithLabelValues(string(o.trigger), string(how)).Inc()
	m.duration.WithLabelValues(string(o.trigger)).Observe(took.Seconds())
	for _, f := range o.records {
		m.findings.WithLabelValues(f.Policy, string(f.Certainty)).Inc()
	}
	for _, reason := range o.failures {
		m.countError(reason)
	}
	counted := map[string]bool{}
	for _, err := range o.result.Errors {
		var policyErr policies.PolicyError
		if errors.As(err, &policyErr) && !counted[policyErr.Policy] {
			counted[policyErr.Policy] = true
			m.failures.WithLabelValues(policyErr.Policy).Inc()
		}
	}
}
