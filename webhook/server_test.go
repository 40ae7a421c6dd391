package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
)

// running is a Server that serves until its stop is called.
type running struct {
	*Server
	reviews, health string
	client          *http.Client
	stop            context.CancelFunc
	done            chan error
}

func run(t *testing.T, handler http.Handler, s *Server) running {
	t.Helper()
	borrowed := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(borrowed.Close)
	if s.GetCertificate == nil {
		s.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &borrowed.TLS.Certificates[0], nil }
	}
	s.Handler = handler
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
	r := run(t, NewHandler(Options{Log: quiet, Facts: facts{}, Evaluator: finds(), Registry: registry}), &Server{
		Metrics: registry,
		Drain:   time.Millisecond,
		Ready: []Check{{Name: "facts", Check: func() error {
			if !synced.Load() {
				return errors.New("not complete")
			}
			return nil
		}, Note: func() string { return "[!]a note\n" }}},
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

// memory is a listener without a network, whose connections synctest knows.
// They have no buffers: TLS takes up to 5 s to close one, since both sides wait
// for the other to read that it is closed.
type memory struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func newMemory() *memory {
	return &memory{connections: make(chan net.Conn), closed: make(chan struct{})}
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.connections:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (m *memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }

func (m *memory) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.connections <- theirs:
		return ours, nil
	case <-m.closed:
		return nil, syscall.ECONNREFUSED
	}
}

// drained is a Server in a synctest bubble that was just stopped, with a review in progress that
// ends when release is closed.
type drained struct {
	release         chan struct{}
	reviews, health *http.Client
	answered        chan *admissionv1.AdmissionReview // nil where none came
	done            chan error
}

func drain(t *testing.T, certificate tls.Certificate) drained {
	t.Helper()
	t.Cleanup(func() { time.Sleep(2 * idleTimeout) }) // for the goroutine that waits for more
	reviews, health := newMemory(), newMemory()
	d := drained{
		release:  make(chan struct{}),
		reviews:  &http.Client{Transport: &http.Transport{DialContext: reviews.dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
		health:   &http.Client{Transport: &http.Transport{DialContext: health.dial}},
		answered: make(chan *admissionv1.AdmissionReview, 1),
		done:     make(chan error, 1),
	}
	t.Cleanup(d.reviews.CloseIdleConnections)
	t.Cleanup(d.health.CloseIdleConnections)
	handler := NewHandler(Options{Log: quiet, Facts: facts{}, Evaluator: finds(maybe("p", "perhaps"))})
	server := &Server{
		Log:            quiet,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil },
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("slow") {
			<-d.release
		}
		handler.ServeHTTP(w, r)
	})
	server.setDefaults()
	ctx, stop := context.WithCancel(t.Context())
	go func() { d.done <- server.serve(ctx, reviews, health) }()
	synctest.Wait()
	if status, text := d.get(t, "/readyz"); status != http.StatusOK {
		t.Fatalf("readyz before: %d %q", status, text)
	}
	go func() {
		defer close(d.answered)
		if answer, err := d.post(t, "?slow"); err == nil {
			d.answered <- answer
		}
	}()
	synctest.Wait()
	stop()
	synctest.Wait()
	return d
}

// TestNotAlive checks that the process is restarted if the facts stay locked.
func TestNotAlive(t *testing.T) {
	for want, err := range map[int]error{http.StatusOK: nil, http.StatusServiceUnavailable: errors.New("held")} {
		s := Server{Log: quiet, Alive: func(ctx context.Context) error {
			if _, ends := ctx.Deadline(); !ends {
				t.Error("a health check that does not end")
			}
			return err
		}}
		got := httptest.NewRecorder()
		s.healthMux().ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		if got.Code != want {
			t.Errorf("healthz: %d %s, want %d", got.Code, got.Body, want)
		}
	}
}

func (d drained) get(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := d.health.Get("http://health" + path)
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

// post sends a review. It is an error if the connection stays open.
func (d drained) post(t *testing.T, query string) (*admissionv1.AdmissionReview, error) {
	response, err := d.reviews.Post("https://termguard"+Path+query, "application/json", bytes.NewReader(body(t, v1, deleteNamespace)))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil {
		return nil, err
	}
	if !response.Close {
		return nil, errors.New("the server does not say that this was the last review on the connection")
	}
	return &review, nil
}

// borrowCertificate returns the certificate of the tests of net/http.
func borrowCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return server.TLS.Certificates[0]
}

func TestDrain(t *testing.T) {
	certificate := borrowCertificate(t)
	synctest.Test(t, func(t *testing.T) {
		d := drain(t, certificate)
		if status, text := d.get(t, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "[-]shutdown") {
			t.Errorf("readyz while draining: %d %q", status, text)
		}
		if status, _ := d.get(t, "/healthz"); status != http.StatusOK {
			t.Errorf("healthz while draining: %d; want 200, or the kubelet kills it", status)
		}
		for _, pause := range []time.Duration{4990 * time.Millisecond, 20 * time.Millisecond} { // until just before, and just after 5 s
			if _, err := d.post(t, ""); err != nil {
				t.Errorf("a new review while draining: %v", err)
			}
			time.Sleep(pause)
		}
		if _, err := d.post(t, ""); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a new review after that: %v; want it refused", err)
		}
		select {
		case err := <-d.done:
			t.Errorf("ended with a review under way: %v", err)
		default:
		}
		close(d.release)
		if got := <-d.answered; got == nil || len(got.Response.Warnings) != 2 {
			t.Errorf("the review under way: %+v; want its warnings", got)
		}
		if err := <-d.done; err != nil {
			t.Error(err)
		}
	})
}

// A review that never ends does not keep the process for ever.
func TestDrainEnds(t *testing.T) {
	certificate := borrowCertificate(t)
	synctest.Test(t, func(t *testing.T) {
		d := drain(t, certificate)
		stopped := time.Now()
		err := <-d.done
		if took := time.Since(stopped); took != 15*time.Second || err == nil || !strings.Contains(err.Error(), "still under way") {
			t.Errorf("want an error after 5 s + 10 s; got %v after %v", err, took)
		}
		close(d.release)
		if got := <-d.answered; got != nil {
			t.Errorf("answered all the same: %+v", got)
		}
	})
}

func TestAddressTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = (&Server{Log: quiet, Listen: "127.0.0.1:0", HealthListen: taken.Addr().String()}).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--health-listen") {
		t.Errorf("want an error that names --health-listen, got %v", err)
	}
}
