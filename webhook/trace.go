package webhook

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/termguard/termguard/question"
)

// unrecorded is the span of who has no Tracer.
var unrecorded = trace.SpanFromContext(context.Background())

// begin starts the span of a review, below that of the API server where the request
// names one (W3C Trace Context). Without a Tracer nothing is done.
func (h *Handler) begin(r *http.Request) (context.Context, trace.Span) {
	ctx := r.Context()
	if h.options.Tracer == nil {
		return ctx, unrecorded
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	return h.options.Tracer.Start(ctx, "review", trace.WithSpanKind(trace.SpanKindServer))
}

// step starts a span for a part of a review.
func (h *Handler) step(ctx context.Context, name string) trace.Span {
	if h.options.Tracer == nil {
		return unrecorded
	}
	_, span := h.options.Tracer.Start(ctx, name)
	return span
}

// tell describes a review on its span. Names of objects stay out: others read what a
// collector holds than may read the objects.
func (h *Handler) tell(ctx context.Context, r *question.Request, on question.Trigger, how decision, findings int) {
	if h.options.Tracer == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(
		attribute.String("k8s.admission.uid", shown(r.UID)),
		attribute.String("k8s.admission.operation", cut(string(r.Operation), maxLogged)),
		attribute.String("k8s.admission.resource", cut(r.GroupResource().String(), maxLogged)),
		attribute.String("termguard.trigger", string(on)),
		attribute.String("termguard.decision", string(how)),
		attribute.Int("termguard.findings", findings),
	)
	if how == failedOpen {
		span.SetStatus(codes.Error, "allowed unchecked")
	}
}
