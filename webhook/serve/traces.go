package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
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
	c := &collector{endpoint: endpoint, header: http.Header{"Content-Type": {"application/json"}}}
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
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(c), sdktrace.WithResource(who)), nil
}

// collector is sent spans by OTLP over HTTP, in JSON. OpenTelemetry's own exporters bring
// gRPC, and with it html/template, through which the linker keeps every method of every
// type.
type collector struct {
	endpoint string
	header   http.Header
}

// The messages of opentelemetry-proto (trace/v1, collector/trace/v1), as far as they are
// filled, in the JSON of its specification: IDs in hexadecimal digits.
type (
	otlpRequest struct {
		ResourceSpans []otlpResource `json:"resourceSpans"`
	}
	otlpResource struct {
		Resource   otlpAttributes `json:"resource"`
		ScopeSpans []otlpScope    `json:"scopeSpans"`
	}
	otlpScope struct {
		Scope otlpName   `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpName struct {
		Name string `json:"name"`
	}
	otlpAttributes struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpSpan struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
		Parent  string `json:"parentSpanId,omitempty"`
		Flags   uint32 `json:"flags"`
		Name    string `json:"name"`
		Kind    int    `json:"kind"`
		Start   string `json:"startTimeUnixNano"`
		End     string `json:"endTimeUnixNano"`
		otlpAttributes
		Status otlpStatus `json:"status"`
	}
	otlpStatus struct {
		Code    int    `json:"code,omitempty"` // 0: unset, 1: ok, 2: error
		Message string `json:"message,omitempty"`
	}
	otlpAttribute struct {
		Key   string            `json:"key"`
		Value map[string]string `json:"value"`
	}
)

func attributes(list []attribute.KeyValue) (out otlpAttributes) {
	for _, a := range list {
		kind := "stringValue"
		if a.Value.Type() == attribute.INT64 {
			kind = "intValue" // as text, as all 64-bit numbers
		}
		out.Attributes = append(out.Attributes, otlpAttribute{string(a.Key), map[string]string{kind: a.Value.String()}})
	}
	return out
}

func nanoseconds(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

// ExportSpans implements sdktrace.SpanExporter. All spans are of one resource and one
// tracer.
func (c *collector) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	scope := otlpScope{Scope: otlpName{spans[0].InstrumentationScope().Name}}
	for _, s := range spans {
		out := otlpSpan{
			TraceID: s.SpanContext().TraceID().String(), SpanID: s.SpanContext().SpanID().String(), Flags: uint32(s.SpanContext().TraceFlags()),
			Name: s.Name(), Kind: int(s.SpanKind()), // which the two number alike
			Start: nanoseconds(s.StartTime()), End: nanoseconds(s.EndTime()), otlpAttributes: attributes(s.Attributes()),
		}
		if s.Parent().HasSpanID() {
			out.Parent = s.Parent().SpanID().String()
		}
		if s.Status().Code == codes.Error {
			out.Status = otlpStatus{2, s.Status().Description}
		}
		scope.Spans = append(scope.Spans, out)
	}
	body, err := json.Marshal(otlpRequest{[]otlpResource{{attributes(spans[0].Resource().Attributes()), []otlpScope{scope}}}})
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
		return fmt.Errorf("send %d spans: %w", len(spans), err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("send %d spans: the collector answers %s: %q", len(spans), response.Status, cmp.Or(string(said), "nothing"))
	}
	return err
}

// Shutdown implements sdktrace.SpanExporter: what was sent is sent.
func (c *collector) Shutdown(context.Context) error { return nil }

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
