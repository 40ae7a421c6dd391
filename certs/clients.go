package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/cert"
)

// ClientVerifier verifies client certificates against an authority in a file, which it rereads on changes.
type ClientVerifier struct {
	file  string
	names []string
	log   *slog.Logger

	mu      sync.Mutex
	modTime time.Time
	pool    *x509.CertPool
}

// NewClientVerifier accepts certificates by the authority in a PEM file, with one of the common names, or any if names
// is empty.
func NewClientVerifier(file string, names []string, log *slog.Logger) (*ClientVerifier, error) {
	c := &ClientVerifier{file: file, names: names, log: log}
	if _, err := c.authority(); err != nil {
		return nil, fmt.Errorf("read the authority of clients: %w", err)
	}
	return c, nil
}

// authority returns the authority in the file; with an error, the last one.
func (c *ClientVerifier) authority() (*x509.CertPool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.file)
	if err != nil || info.ModTime().Equal(c.modTime) {
		return c.pool, err
	}
	pool, err := cert.NewPool(c.file)
	if err == nil {
		c.pool, c.modTime = pool, info.ModTime()
	}
	return c.pool, err
}

// VerifyConnection is for tls.Config, with tls.RequireAnyClientCert.
func (c *ClientVerifier) VerifyConnection(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the client has no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	roots, err := c.authority()
	if err != nil {
		c.log.Warn("the last authority of clients stays in use", "error", err)
	}
	client := state.PeerCertificates[0]
	_, err = client.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	switch {
	case err != nil:
		return fmt.Errorf("the client's certificate: %w", err)
	case len(c.names) > 0 && !slices.Contains(c.names, client.Subject.CommonName):
		return fmt.Errorf("the client's certificate is for %q, which is not in --client-cn", client.Subject.CommonName)
	}
	return nil
}
