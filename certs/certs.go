// Package certs provides the webhook's serving certificate, from an embedded authority or from files.
package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/termguard/termguard/internal/background"
)

const (
	retryPause = 5 * time.Second // after a failure
	rereadFile = 10 * time.Second
)

// Source is a serving certificate that is renewed in time.
type Source struct {
	log *slog.Logger
	// refresh returns when to call it again without changes.
	refresh func(context.Context) (next time.Duration, err error)
	// informers read the input of refresh, and send to changes.
	informers []cache.SharedIndexInformer
	changes   chan struct{}

	mu          sync.Mutex
	certificate *tls.Certificate // nil before the first
	missing     error            // why there is no certificate, or no new one
}

// Run keeps the certificate up to date until ctx ends. After failures it retries: the last certificate is
// better than none.
func (s *Source) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, informer := range s.informers {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	for _, informer := range s.informers {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return
		}
	}
	for {
		var next time.Duration
		err := background.Try(ctx, "certificate", func() (err error) {
			next, err = s.refresh(ctx)
			return err
		})
		if err != nil && ctx.Err() == nil {
			s.log.Warn("the serving certificate cannot be renewed, trying again", "error", err)
			s.miss(err)
			next = retryPause
		}
		select {
		case <-ctx.Done():
			return
		case <-s.changes:
		case <-time.After(next):
		}
	}
}

// GetCertificate is for tls.Config.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.certificate == nil {
		return nil, fmt.Errorf("no serving certificate yet: %w", s.missing)
	}
	return s.certificate, nil
}

// Ready returns an error without a certificate.
func (s *Source) Ready() error {
	_, err := s.GetCertificate(nil)
	return err
}

func (s *Source) serve(certificate *tls.Certificate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certificate, s.missing = certificate, nil
}

func (s *Source) miss(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing = why
}

// FromFiles returns a source that rereads files every 10 s.
func FromFiles(certificate, key string, log *slog.Logger) *Source {
	s := &Source{log: log, missing: errors.New("waiting for " + certificate + " and " + key)}
	s.refresh = func(context.Context) (time.Duration, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return 0, fmt.Errorf("waiting for %s and %s: %w", certificate, key, err)
		}
		s.serve(&pair)
		return rereadFile, nil
	}
	return s
}
