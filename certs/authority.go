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

// Options configure an embedded authority. Namespace, Secret, Service and
// Configuration are required.
type Options struct {
	// Namespace holds the Secret and the Service.
	Namespace string
	// Secret keeps the authority; all replicas share it.
	Secret string
	// Service is the name that the API server calls.
	Service string
	// Configuration is the ValidatingWebhookConfiguration whose caBundle is
	// kept current, in the webhooks that call Service.
	Configuration string
	// CADuration and LeafDuration bound the validity of the authority and of
	// the certificates it signs. Both are renewed after two thirds of it.
	// Default to 365 days and 7 days.
	CADuration, LeafDuration time.Duration
	// Log defaults to slog.Default().
	Log *slog.Logger
}

// early is how long before its signature a certificate is valid, so that API servers
// whose clocks are behind ours take it at once. It is short for one that does not live
// long, or it would be renewed all the time.
func early(duration time.Duration) time.Duration { return min(time.Hour, duration/10) }

// commonName is that of the authority: the caBundle keeps certificates of this
// name only.
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

// Embedded is an authority of termguard's own: its key in a Secret, serving
// certificates in memory only. It puts the authority's certificate into the
// webhook configuration, and only then serves certificates that it signed.
func Embedded(config *rest.Config, options Options) (*Source, error) {
	options.setDefaults()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect for certificates: %w", err)
	}
	return embedded(client, nil, options), nil
}

// embedded signs by an authority, by default by the one in the Secret.
func embedded(client kubernetes.Interface, authority cmtls.Authority, options Options) *Source {
	bundle := newBundle(client, options)
	if authority == nil {
		authority = newKeeper(client, options, bundle.secrets)
	}
	gate := &gate{Authority: authority, trusts: bundle.trusts}
	source := &cmtls.DynamicSource{
		DNSNames:      []string{serverName(options)},
		Authority:     gate,
		RetryInterval: 250 * time.Millisecond,
	}
	return &Source{
		certificate: source,
		start:       []func(context.Context) error{source.Start, bundle.run},
		why:         gate.why,
		log:         options.Log,
	}
}

// serverName is how the API server calls a Service
// (k8s.io/apiserver/pkg/util/webhook/client.go).
func serverName(o Options) string { return o.Service + "." + o.Namespace + ".svc" }

// settle is how long a bundle must have stood in the configuration before a
// certificate changes to an authority that is new in it: API servers learn of
// both by watches of their own.
const settle = 5 * time.Second

// gate signs only what the API server trusts. When the authority changes, the
// certificate of the previous one is served until the new one stands in the
// webhook configuration, so that no review is lost in between.
type gate struct {
	cmtls.Authority
	// trusts tells since when the webhook configuration trusts a certificate;
	// an error says why it does not.
	trusts func(leaf *x509.Certificate) (since time.Time, err error)

	mu     sync.Mutex
	signed bool
	err    error // why the last certificate was held back
}

// Sign implements cmtls.Authority. It returns ErrCertificateNotAvailable for
// "not yet": the source asks again, and serves what it has until then.
func (g *gate) Sign(template *x509.Certificate) (*x509.Certificate, error) {
	leaf, err := g.Authority.Sign(template)
	if err != nil {
		return nil, err
	}
	since, err := g.trusts(leaf)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err = err; err != nil {
		return nil, fmt.Errorf("%w: %w", authority.ErrCertificateNotAvailable, err)
	}
	if g.signed && time.Since(since) < settle {
		return nil, fmt.Errorf("%w: API servers are learning of the new authority", authority.ErrCertificateNotAvailable)
	}
	g.signed = true
	return leaf, nil
}

func (g *gate) why() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return g.err.Error()
	}
	return "waiting for the authority"
}
