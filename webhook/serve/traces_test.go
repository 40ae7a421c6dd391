package serve

import (
	"bytes"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

// TestTraces: a collector that the environment names is sent a span for a review, below
// that of the API server, and one for each part of it.
func TestTraces(t *testing.T) {
	got := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("Api-Key") != "a b" {
			t.Errorf("%s: %v, %v", r.URL, r.Header, err)
		}
		got <- body
	}))
	defer server.Close()
	log := slog.New(slog.DiscardHandler)
	if none, err := traces(t.Context(), "v1", log); none != nil || err != nil {
		t.Fatalf("without a collector: %v, %v", none, err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b")
	provider, err := traces(t.Context(), "v1", log)
	if err != nil {
		t.Fatal(err)
	}
	s := &parts{traces: provider, log: log}
	handler := webhook.NewHandler(webhook.Options{Evaluator: (*policies.Engine)(nil), Tracer: s.tracer(), Log: log})
	request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": {"uid": "705ab4f5", "operation": "CREATE", "resource": {"version": "v1", "resource": "pods"}, "name": "secret-name"}}`))
	request.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	handler.ServeHTTP(httptest.NewRecorder(), request)
	s.flush()

	body := <-got
	if strings.Contains(string(body), "secret-name") {
		t.Error("the name of an object is sent to the collector")
	}
	var sent tracev1.TracesData
	if err := proto.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	about := map[string]any{}
	tells := func(list []*common.KeyValue) {
		for _, a := range list {
			if about[a.Key] = a.Value.GetIntValue(); a.Value.GetStringValue() != "" {
				about[a.Key] = a.Value.GetStringValue()
			}
		}
	}
	tells(sent.ResourceSpans[0].Resource.Attributes)
	var names []string
	spans := sent.ResourceSpans[0].ScopeSpans[0].Spans
	for _, span := range spans {
		names = append(names, span.Name)
		if hex.EncodeToString(span.TraceId) != "0af7651916cd43dd8448eb211c80319c" || span.StartTimeUnixNano > span.EndTimeUnixNano {
			t.Errorf("not of the API server's trace, or ending before its start: %+v", span)
		}
		tells(span.Attributes)
	}
	if diff := cmp.Diff([]string{"decode", "review"}, names); diff != "" {
		t.Fatalf("spans: -want +got\n%s", diff)
	}
	decode, review := spans[0], spans[1]
	if hex.EncodeToString(review.ParentSpanId) != "b7ad6b7169203331" || !bytes.Equal(decode.ParentSpanId, review.SpanId) || review.Kind != tracev1.Span_SPAN_KIND_SERVER || review.Status.Code != tracev1.Status_STATUS_CODE_ERROR {
		t.Errorf("want a server's span below the API server's, in error, with the other below it: %+v", spans)
	}
	want := map[string]any{
		"service.name": "termguard", "service.version": "v1",
		"k8s.admission.uid": "705ab4f5", "k8s.admission.operation": "CREATE", "k8s.admission.resource": "pods",
		"termguard.trigger": "other", "termguard.decision": "error", "termguard.findings": int64(0),
	}
	if diff := cmp.Diff(want, about); diff != "" {
		t.Errorf("attributes: -want +got\n%s", diff)
	}
}
