package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync"
	"time"

	cmtls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Options configure an embedded authority. Namespace, Secret, Service and Configuration are required.
type Options struct {
	// Namespace contains the Secret and the Service.
	Namespace string
	// Secret stores the authority; all replicas share it.
	Secret string
	// Service is the Service that the API server calls.
	Service string
	// Configuration is the ValidatingWebhookConfiguration. In its webhooks that call Service, the caBundle is
	// kept up to date.
	Configuration string
	// CADuration and LeafDuration are the validity of the authority and of the certificates it signs. Both
	// are renewed after two thirds of it. They default to 365 days and 7 days.
	CADuration, LeafDuration time.Duration
	// Log defaults to slog.Default().
	Log *slog.Logger
}

// backdate is how long before its signature a certificate becomes valid, so that API servers whose clocks are
// behind accept it at once. It is short for short-lived certificates, which would otherwise be renewed
// constantly.
func backdate(duration time.Duration) time.Duration { return min(time.Hour, duration/10) }

// commonName is the authority's name: certificates with other names are removed from the caBundle.
const commonName = "termguard-webhook-ca"

func (o *Options) setDefaults() {
	if o.CADuration <= 0 {
		o.CADuration = 365 * 24 * time.Hour
	}
	if o.LeafDuration <= 0 {
		o.LeafDuration = 7 * 24 * time.Hour
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// Embedded returns a source with its own authority: the authority's key is in a Secret, serving certificates
// only in memory. It adds the authority to the webhook configuration before it serves certificates signed by
// it.
func Embedded(config *rest.Config, options Options) (*Source, error) {
	options.setDefaults()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for certificates: %w", err)
	}
	return newEmbedded(client, nil, options), nil
}

// newEmbedded returns a source that signs with authority, or with the authority in the Secret if that is nil.
func newEmbedded(client kubernetes.Interface, authority cmtls.Authority, options Options) *Source {
	bundle := newBundle(client, options)
	if authority == nil {
		authority = newKeeper(client, options, bundle.secrets)
	}
	gate := &trustGate{Authority: authority, trustedSince: bundle.trustedSince}
	source := &cmtls.DynamicSource{
		DNSNames:      []string{serverName(options)},
		Authority:     gate,
		RetryInterval: 250 * time.Millisecond,
	}
	return &Source{
		certificate: source,
		start:       []func(context.Context) error{source.Start, bundle.run},
		reason:      gate.reason,
		log:         options.Log,
	}
}

// serverName is the host name by which the API server calls a Service
// (k8s.io/apiserver/pkg/util/webhook/client.go).
func serverName(o Options) string { return o.Service + "." + o.Namespace + ".svc" }

// propagationDelay is how long a new authority must have been in the configuration before certificates signed
// by it are served: each API server learns of the change by its own watch.
const propagationDelay = 5 * time.Second

// trustGate signs only once the API server trusts the authority. While the authority changes, the previous
// certificate is served, so that no review is lost.
type trustGate struct {
	cmtls.Authority
	// trustedSince returns since when the webhook configuration trusts a certificate, or an error that says why
	// it does not.
	trustedSince func(leaf *x509.Certificate) (since time.Time, err error)

	mu     sync.Mutex
	signed bool
	err    error // why the last certificate was withheld
}

// Sign implements cmtls.Authority. If the certificate is not trusted yet it returns
// ErrCertificateNotAvailable, so that the source keeps the previous one and retries.
func (g *trustGate) Sign(template *x509.Certificate) (*x509.Certificate, error) {
	leaf, err := g.Authority.Sign(template)
	if err != nil {
		return nil, err
	}
	trustedSince, err := g.trustedSince(leaf)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err = err; err != nil {
		return nil, fmt.Errorf("%w: %w", authority.ErrCertificateNotAvailable, err)
	}
	if g.signed && time.Since(trustedSince) < propagationDelay {
		return nil, fmt.Errorf("%w: API servers are learning of the new authority", authority.ErrCertificateNotAvailable)
	}
	g.signed = true
	return leaf, nil
}

func (g *trustGate) reason() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return g.err.Error()
	}
	return "waiting for the authority"
}
