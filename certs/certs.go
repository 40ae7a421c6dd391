// Package certs provides the webhook's serving certificate, from an embedded authority or from files that
// something else, such as cert-manager, renews.
package certs

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math"
	"time"

	cmtls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"github.com/go-logr/logr"

	"github.com/termguard/termguard/internal/background"
)

// Source is a serving certificate that is renewed in time.
type Source struct {
	certificate cmtls.CertificateSource
	start       []func(context.Context) error
	reason      func() string // why there is no certificate yet, or ""
	log         *slog.Logger
}

// restartPause is the pause before a failed part restarts.
const restartPause = 5 * time.Second

// Run keeps the certificate up to date until ctx ends. It logs failures and retries, because the last
// certificate is better than none.
func (s *Source) Run(ctx context.Context) {
	ctx = logr.NewContext(ctx, logr.FromSlogHandler(levelHandler{s.log.Handler(), slog.LevelWarn}))
	done := make(chan struct{})
	for _, start := range s.start {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				err := background.Try(ctx, "certificate", func() error { return start(ctx) })
				if err != nil && ctx.Err() == nil {
					s.log.Warn("certificates: failed, trying again", "error", err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(restartPause):
				}
			}
		}()
	}
	for range s.start {
		<-done
	}
}

// GetCertificate is a tls.Config.GetCertificate.
func (s *Source) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.certificate.GetCertificate(hello)
}

// Ready returns an error while there is no certificate to serve.
func (s *Source) Ready() error {
	if _, err := s.certificate.GetCertificate(nil); err != nil {
		return notReadyError{reason: s.reason(), err: err}
	}
	return nil
}

type notReadyError struct {
	reason string
	err    error
}

func (e notReadyError) Error() string {
	if e.reason == "" {
		return e.err.Error()
	}
	return e.err.Error() + ": " + e.reason
}

func (e notReadyError) Unwrap() error { return e.err }

// Files returns a source that rereads a certificate from files every 10 s.
func Files(certificate, key string, log *slog.Logger) *Source {
	source := &cmtls.FileCertificateSource{
		CertPath:    certificate,
		KeyPath:     key,
		MaxFailures: math.MaxInt, // keep serving during a slow rotation
	}
	return &Source{
		certificate: source,
		start:       []func(context.Context) error{source.Start},
		reason:      func() string { return "waiting for " + certificate + " and " + key },
		log:         log,
	}
}

// levelHandler drops records below a level: cert-manager's packages are verbose.
type levelHandler struct {
	slog.Handler
	level slog.Level
}

func (h levelHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

func (h levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(attrs), h.level}
}

func (h levelHandler) WithGroup(name string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(name), h.level}
}
