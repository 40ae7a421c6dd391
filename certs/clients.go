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
)

// Clients verifies client certificates against an authority in a file, which it rereads when the file
// changes.
type Clients struct {
	file  string
	names []string
	log   *slog.Logger

	mu      sync.Mutex
	modTime time.Time
	pool    *x509.CertPool
}

// NewClients returns Clients that accept certificates with one of the common names, or with any if names is
// empty. The file is in PEM.
func NewClients(file string, names []string, log *slog.Logger) (*Clients, error) {
	c := &Clients{file: file, names: names, log: log}
	return c, c.read()
}

// read rereads the file if it changed. On failure the last authority stays.
func (c *Clients) read() error {
	info, err := os.Stat(c.file)
	if err != nil {
		return fmt.Errorf("read the authority of clients: %w", err)
	}
	if info.ModTime().Equal(c.modTime) {
		return nil
	}
	text, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("read the authority of clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("the authority of clients, %s, holds no certificate; want PEM", c.file)
	}
	c.pool, c.modTime = pool, info.ModTime()
	return nil
}

func (c *Clients) authority() *x509.CertPool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.read(); err != nil {
		c.log.Warn("the last authority of clients stays in use", "error", err)
	}
	return c.pool
}

// VerifyConnection is a tls.Config.VerifyConnection, to be used with tls.RequireAnyClientCert.
func (c *Clients) VerifyConnection(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the client has no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	client := state.PeerCertificates[0]
	_, err := client.Verify(x509.VerifyOptions{
		Roots: c.authority(), Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	switch {
	case err != nil:
		return fmt.Errorf("the client's certificate: %w", err)
	case len(c.names) > 0 && !slices.Contains(c.names, client.Subject.CommonName):
		return fmt.Errorf("the client's certificate is for %q, which is not in --client-cn", client.Subject.CommonName)
	}
	return nil
}
