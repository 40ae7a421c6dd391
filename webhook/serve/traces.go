package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traces sends spans to the collector that the environment names; where it names none,
// it is nil. The variables are those of OpenTelemetry's specification:
// OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT;
// OTEL_EXPORTER_OTLP_HEADERS; and those of the SDK, such as OTEL_TRACES_SAMPLER. A
// collector that does not answer costs spans, and reviews nothing: those wait in a queue
// that is bounded.
func traces(ctx context.Context, version string, log *slog.Logger) (*sdktrace.TracerProvider, error) {
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint == "" && base != "" {
		endpoint = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if endpoint == "" {
		return nil, nil
	}
	c := &collector{endpoint: endpoint, header: http.Header{"Content-Type": {"application/x-protobuf"}}}
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the collector of traces, %q: want a URL, such as http://collector:4318", endpoint)
	}
	for pair := range strings.SplitSeq(os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"), ",") {
		name, value, found := strings.Cut(pair, "=")
		text, err := url.PathUnescape(strings.TrimSpace(value))
		switch {
		case strings.TrimSpace(pair) == "":
		case !found || err != nil:
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS: want name=value, with commas between, and %2C for a comma") // not what it holds: that is a secret, most often
		default:
			c.header.Set(strings.TrimSpace(name), text)
		}
	}
	who, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "termguard"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe termguard to the collector of traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are lost", "error", err) }))
	exporter, err := otlptrace.New(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("begin to send traces: %w", err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(who)), nil
}

// collector is sent spans by OTLP over HTTP. OpenTelemetry's own client (otlptracehttp)
// brings gRPC, and with it html/template, through which the linker keeps every method of
// every type: termguard would be 95 MB in place of 64.
type collector struct {
	endpoint string
	header   http.Header
}

// UploadTraces implements otlptrace.Client.
func (c *collector) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans}) // on the wire it is an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, exportTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = c.header.Clone()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answers %s: %q", response.Status, cmp.Or(string(said), "nothing"))
	}
	return err
}

// Start implements otlptrace.Client, and Stop does: a request is all there is.
func (c *collector) Start(context.Context) error { return nil }

// Stop does nothing, as Start.
func (c *collector) Stop(context.Context) error { return nil }

// exportTime bounds one request to a collector, as OpenTelemetry has it, and flushTime
// what the end of the process waits for it.
const (
	exportTime = 10 * time.Second
	flushTime  = 2 * time.Second
)

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
