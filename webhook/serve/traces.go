package serve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// traces sends spans by OTLP over HTTP to the collector that the environment names; where
// it names none, it is nil. The variables are those of OpenTelemetry's specification:
// OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, and the others of
// the exporter and the SDK, such as OTEL_TRACES_SAMPLER. A collector that does not answer
// costs spans, and reviews nothing: those wait in a queue that is bounded.
func traces(ctx context.Context, version string, log *slog.Logger) (*sdktrace.TracerProvider, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are lost", "error", err) }))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach the collector of traces: %w", err)
	}
	who, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "termguard"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe termguard to the collector of traces: %w", err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(who)), nil
}

// flushTime bounds what the end of the process waits for the collector.
const flushTime = 2 * time.Second

// tracer is nil where no collector is named.
func (s *parts) tracer() trace.Tracer {
	if s.traces == nil {
		return nil
	}
	return s.traces.Tracer("github.com/termguard/termguard/webhook")
}

// flush sends the last spans.
func (s *parts) flush() {
	if s.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := s.traces.Shutdown(ctx); err != nil {
		s.log.Warn("the last traces are lost", "error", err)
	}
}
