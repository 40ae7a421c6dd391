package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Path is the URL path of the Handler.
const Path = "/validate"

// Check is a condition of readiness.
type Check struct {
	Name  string
	Check func() error
	// Note is optional, on a met condition.
	Note func() string
}

// Server serves a Handler to the API server, and health and metrics to others. It is a manager.Runnable, to
// run beside a manager's own server, whose missing limits are in test/serving.
type Server struct {
	Handler        http.Handler
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// VerifyConnection decides who may send reviews, with a certificate. Defaults to anyone.
	VerifyConnection func(tls.ConnectionState) error
	// Listen and HealthListen are HOST:PORT. Default to ":9443" and ":8081".
	Listen, HealthListen string
	Ready                []Check
	// Alive reports before ctx ends whether this process can continue, by default always; an error restarts
	// it.
	Alive func(ctx context.Context) error
	// Metrics are optional, at /metrics.
	Metrics prometheus.Gatherer
	// Profile serves /debug/pprof/ beside the metrics.
	Profile bool
	// Drain is how long reviews are answered after readiness ends, until every API server knows. Defaults to
	// 5 s.
	Drain time.Duration
	// Grace is how long running reviews may then take, by default 10 s; with Drain below the pod's grace
	// period.
	Grace time.Duration
	// MaxConnections defaults to 1000: an API server keeps 25 idle ones (k8s.io/client-go/transport,
	// idleConnsPerHost), and sends at most one review per mutating request, 200 at a time by default.
	MaxConnections int
	// Log defaults to slog.Default().
	Log *slog.Logger

	draining atomic.Bool
}

func (s *Server) setDefaults() {
	if s.Listen == "" {
		s.Listen = ":9443"
	}
	if s.HealthListen == "" {
		s.HealthListen = ":8081"
	}
	if s.Drain <= 0 {
		s.Drain = 5 * time.Second
	}
	if s.Grace <= 0 {
		s.Grace = 10 * time.Second
	}
	if s.MaxConnections <= 0 {
		s.MaxConnections = 1000
	}
	if s.Log == nil {
		s.Log = slog.Default()
	}
}

// Start serves until ctx ends, and drains. An error means that it could not serve.
func (s *Server) Start(ctx context.Context) error {
	s.setDefaults()
	reviews, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return fmt.Errorf("listen for reviews: %w (choose another address with --listen)", err)
	}
	health, err := net.Listen("tcp", s.HealthListen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for health checks: %w (choose another address with --health-listen)", err), reviews.Close())
	}
	return s.serve(ctx, reviews, health)
}

const maxHealthConnections = 100

func (s *Server) serve(ctx context.Context, reviews, health net.Listener) error {
	s.Log.Info("serving", "reviews", reviews.Addr().String(), "health", health.Addr().String())
	errorLog := slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug) // failed handshakes, mostly
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.GetCertificate, VerifyConnection: s.VerifyConnection}
	if s.VerifyConnection != nil {
		config.ClientAuth = tls.RequireAnyClientCert
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	reviewServer := &http.Server{
		Handler:           s.reviewMux(),
		TLSConfig:         config,
		Protocols:         protocols,
		ReadHeaderTimeout: 5 * time.Second,
		// For the whole request: the API server waits for one second.
		ReadTimeout:  5 * time.Second,
		WriteTimeout: 20 * time.Second,
		// Above the 90 s for which a client keeps an idle connection (k8s.io/apimachinery/pkg/util/net,
		// SetTransportDefaults): if the server closes it first, a review may be lost.
		IdleTimeout: 3 * time.Minute,
		// The API server sends about 500 bytes.
		MaxHeaderBytes: 8 << 10,
		ConnState:      newConnections(s.MaxConnections).track,
		ErrorLog:       errorLog,
	}
	healthServer := &http.Server{
		Handler:           s.healthMux(),
		ReadHeaderTimeout: 5 * time.Second,
		// Above the usual intervals of probes and scrapes.
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 8 << 10,
		ConnState:      newConnections(maxHealthConnections).track,
		ErrorLog:       errorLog,
	}
	errs := make(chan error, 2)
	go func() { errs <- reviewServer.ServeTLS(reviews, "", "") }()
	go func() { errs <- healthServer.Serve(health) }()
	defer healthServer.Close()
	select {
	case err := <-errs:
		return errors.Join(err, reviewServer.Close())
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.Log.Info("no longer ready; draining", "for", s.Drain.String())
	select {
	case err := <-errs:
		return errors.Join(err, reviewServer.Close())
	case <-time.After(s.Drain):
	}
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Grace)
	defer cancel()
	if err := reviewServer.Shutdown(shutdownCtx); err != nil {
		return errors.Join(fmt.Errorf("reviews were still under way: %w", err), reviewServer.Close())
	}
	return nil
}

// reviewMux makes the API server review elsewhere during the drain. Closing connections could lose a review.
func (s *Server) reviewMux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		s.Handler.ServeHTTP(w, r)
	})
	return mux
}

func (s *Server) healthMux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	if s.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}))
	}
	if s.Profile {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// aliveTimeout is below timeoutSeconds of the livenessProbe.
const aliveTimeout = 3 * time.Second

func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), aliveTimeout)
	defer cancel()
	if s.Alive != nil {
		if err := s.Alive(ctx); err != nil {
			s.Log.Error("this process cannot continue", "error", err)
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	fmt.Fprintln(w, "ok")
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	checks := append(slices.Clone(s.Ready), Check{Name: "shutdown", Check: func() error {
		if s.draining.Load() {
			return errors.New("this replica is shutting down")
		}
		return nil
	}})
	status, report := http.StatusOK, ""
	for _, c := range checks {
		if err := c.Check(); err != nil {
			status = http.StatusServiceUnavailable
			report += fmt.Sprintf("[-]%s: %v\n", c.Name, err)
		} else {
			report += fmt.Sprintf("[+]%s ok\n", c.Name)
			if c.Note != nil {
				report += c.Note()
			}
		}
	}
	w.WriteHeader(status)
	fmt.Fprint(w, report)
}
