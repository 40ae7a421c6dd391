package serve

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

// TestTraces: a collector that the environment names is sent a span for a review, below
// that of the API server, and one for each part of it.
func TestTraces(t *testing.T) {
	got := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Api-Key") != "a b" {
			t.Errorf("%s: %v, %v", r.URL, r.Header, err)
		}
		got <- body
		io.WriteString(w, "{}")
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
	var sent otlpRequest
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	about := map[string]string{}
	tells := func(list otlpAttributes) {
		for _, a := range list.Attributes {
			for kind, value := range a.Value {
				about[a.Key] = kind + " " + value
			}
		}
	}
	tells(sent.ResourceSpans[0].Resource)
	var names []string
	spans := sent.ResourceSpans[0].ScopeSpans[0].Spans
	for _, span := range spans {
		names = append(names, span.Name)
		if span.TraceID != "0af7651916cd43dd8448eb211c80319c" || span.Start > span.End {
			t.Errorf("not of the API server's trace, or ending before its start: %+v", span)
		}
		tells(span.otlpAttributes)
	}
	if diff := cmp.Diff([]string{"decode", "review"}, names); diff != "" {
		t.Fatalf("spans: -want +got\n%s", diff)
	}
	decode, review := spans[0], spans[1]
	if review.Parent != "b7ad6b7169203331" || decode.Parent != review.SpanID || review.Kind != 2 || review.Status.Code != 2 {
		t.Errorf("want a server's span below the API server's, in error, with the other below it: %+v", spans)
	}
	want := map[string]string{
		"service.name": "stringValue termguard", "service.version": "stringValue v1",
		"k8s.admission.uid": "stringValue 705ab4f5", "k8s.admission.operation": "stringValue CREATE", "k8s.admission.resource": "stringValue pods",
		"termguard.occasion": "stringValue other", "termguard.decision": "stringValue error", "termguard.findings": "intValue 0",
	}
	if diff := cmp.Diff(want, about); diff != "" {
		t.Errorf("attributes: -want +got\n%s", diff)
	}
}

// TestTracesRefuse: what cannot be a collector stops the start, and no secret is told.
func TestTracesRefuse(t *testing.T) {
	for _, tt := range []struct{ endpoint, headers, want string }{
		{"collector:4318", "", "want a URL"},
		{"http://collector:4318", "topsecret", "want name=value"},
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", tt.endpoint)
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", tt.headers)
		if _, err := traces(t.Context(), "v1", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s, %q: want %q, got %v", tt.endpoint, tt.headers, tt.want, err)
		}
	}
}
