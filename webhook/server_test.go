package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// running is a Server that serves until its stop is called.
type running struct {
	*Server
	reviews, health string
	client          *http.Client
	stop            context.CancelFunc
	done            chan error
}

func run(t *testing.T, s *Server) running {
	t.Helper()
	borrowed := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(borrowed.Close)
	if s.GetCertificate == nil {
		s.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &borrowed.TLS.Certificates[0], nil }
	}
	if s.Handler == nil {
		s.Handler = NewHandler(Options{Log: quiet, Facts: facts{}, Evaluator: finds()})
	}
	s.Log = quiet
	s.setDefaults()
	reviews, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	health, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := running{Server: s, reviews: "https://" + reviews.Addr().String(), health: "http://" + health.Addr().String(), client: borrowed.Client(), stop: stop, done: make(chan error, 1)}
	go func() { r.done <- s.serve(ctx, reviews, health) }()
	t.Cleanup(stop)
	return r
}

func (r running) get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := r.client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestServer(t *testing.T) {
	var synced atomic.Bool
	registry := prometheus.NewRegistry()
	r := run(t, &Server{
		Handler: NewHandler(Options{Log: quiet, Facts: facts{}, Evaluator: finds(), Registry: registry}),
		Metrics: registry,
		Drain:   time.Millisecond,
		Ready: []Check{{"facts", func() error {
			if !synced.Load() {
				return errors.New("not complete")
			}
			return nil
		}}},
	})
	if status, _ := post(t, r.client, r.reviews+Path, body(t, v1, deleteNamespace)); status != http.StatusOK {
		t.Errorf("review: status %d", status)
	}
	if status, text := r.get(t, r.health+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "[-]facts: not complete\n[+]shutdown ok\n") {
		t.Errorf("readyz before: %d %q", status, text)
	}
	synced.Store(true)
	if status, text := r.get(t, r.health+"/readyz"); status != http.StatusOK {
		t.Errorf("readyz after: %d %q", status, text)
	}
	if status, _ := r.get(t, r.health+"/healthz"); status != http.StatusOK {
		t.Errorf("healthz: %d", status)
	}
	if _, text := r.get(t, r.health+"/metrics"); !strings.Contains(text, `termguard_reviews_total{decision="allow",trigger="delete"} 1`) {
		t.Errorf("metrics:\n%s", text)
	}
	if status, _ := r.get(t, r.health+"/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("pprof: %d, want it off", status)
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

// A review that is under way when the server is told to stop, and one that
// comes while readiness is off already, are both answered.
func TestDrain(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	handler := NewHandler(Options{Log: quiet, Facts: facts{}, Evaluator: finds(maybe("p", "perhaps"))})
	var first atomic.Bool
	first.Store(true)
	r := run(t, &Server{
		Drain: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if first.Swap(false) {
				close(entered)
				<-release
			}
			handler.ServeHTTP(w, q)
		}),
	})
	answered := make(chan []string, 1)
	go func() {
		_, got := post(t, r.client, r.reviews+Path, body(t, v1, deleteNamespace))
		answered <- got.Response.Warnings
	}()
	<-entered
	r.stop()
	for !r.draining.Load() {
		time.Sleep(time.Millisecond) // until the other goroutine has seen the end of ctx
	}
	if status, text := r.get(t, r.health+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "[-]shutdown") {
		t.Errorf("readyz while draining: %d %q", status, text)
	}
	response, err := r.client.Post(r.reviews+Path, "application/json", strings.NewReader(string(body(t, v1, deleteNamespace))))
	if err != nil {
		t.Fatalf("a review while draining: %v", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK || !response.Close {
		t.Errorf("a review while draining: status %d, connection closed %v; want 200, true", response.StatusCode, response.Close)
	}
	close(release)
	if got := <-answered; len(got) != 2 {
		t.Errorf("the review under way: warnings %q", got)
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

func TestAddressTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = (&Server{Log: quiet, Listen: "127.0.0.1:0", HealthListen: taken.Addr().String()}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--health-listen") {
		t.Errorf("want an error that names --health-listen, got %v", err)
	}
}
