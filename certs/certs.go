// Package certs brings the certificate that the API server trusts: from an
// authority of termguard's own, or from files that somebody else renews, as
// cert-manager does.
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
	why         func() string // there is no certificate yet, or ""
	log         *slog.Logger
}

// restartPause is kept before a part that failed runs again.
const restartPause = 5 * time.Second

// Run keeps the certificate current until ctx ends. What fails is logged and
// tried again: the last certificate is better than none.
func (s *Source) Run(ctx context.Context) {
	ctx = logr.NewContext(ctx, logr.FromSlogHandler(atLeast{s.log.Handler(), slog.LevelWarn}))
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

// GetCertificate is for tls.Config.
func (s *Source) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.certificate.GetCertificate(hello)
}

// Ready returns an error while there is no certificate to serve.
func (s *Source) Ready() error {
	if _, err := s.certificate.GetCertificate(nil); err != nil {
		return notReadyError{why: s.why(), err: err}
	}
	return nil
}

type notReadyError struct {
	why string
	err error
}

func (e notReadyError) Error() string {
	if e.why == "" {
		return e.err.Error()
	}
	return e.err.Error() + ": " + e.why
}

func (e notReadyError) Unwrap() error { return e.err }

// Files is a certificate in files, which are read again every 10 s.
func Files(certificate, key string, log *slog.Logger) *Source {
	source := &cmtls.FileCertificateSource{
		CertPath:    certificate,
		KeyPath:     key,
		MaxFailures: math.MaxInt, // a rotation that takes long is no reason to stop serving
	}
	return &Source{
		certificate: source,
		start:       []func(context.Context) error{source.Start},
		why:         func() string { return "waiting for " + certificate + " and " + key },
		log:         log,
	}
}

// atLeast drops records below a level: cert-manager's packages tell much.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}
