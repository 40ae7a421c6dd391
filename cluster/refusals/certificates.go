package refusals

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

const (
	// TrustInterval is the time between handshakes with a trusted backend, DistrustInterval with others.
	TrustInterval, DistrustInterval = 10 * time.Minute, 15 * time.Second
	dialTimeout                     = 2 * time.Second
)

// Dial opens a connection, as net.Dialer's DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Handshake is the result of the last handshake with an endpoint.
type Handshake struct {
	at  time.Time
	why string // its certificate is not trusted; "" also without an answer
	ok  bool
	// distrust is the part of why that the handshake said.
	distrust string
}

// Endpoint is a backend as the API server calls it.
type Endpoint struct {
	service  types.NamespacedName
	port     int32
	caBundle string
}

type called struct {
	Endpoint
	trusts authority
}

func calledAt(namespace, name string, port *int32, caBundle []byte) called {
	return called{Endpoint{types.NamespacedName{Namespace: namespace, Name: name}, facts.Or(port, 443), string(caBundle)}, readAuthority(caBundle)}
}

// distrusted returns why the API server cannot trust an endpoint, or "".
func (p *Part) distrusted(c called) string {
	if p.options.Manifests {
		return "" // a caBundle is filled in later
	}
	if why := c.trusts.unusable(p.options.Now()); why != "" {
		return why
	}
	return p.handshakes[c.Endpoint].why
}

type authority struct {
	given bool
	until time.Time // last expiry of its certificates; zero if it has none
}

func readAuthority(caBundle []byte) authority {
	a := authority{given: len(caBundle) > 0}
	for rest := caBundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return a
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" && c.NotAfter.After(a.until) {
			a.until = c.NotAfter
		}
	}
}

// unusable returns why a caBundle can verify no certificate. Without one, the API server uses its system's
// authorities.
func (a authority) unusable(now time.Time) string {
	switch {
	case !a.given:
		return ""
	case a.until.IsZero():
		return "caBundle holds no certificate"
	case a.until.Before(now):
		return "what caBundle trusts expired on " + a.until.UTC().Format(time.DateOnly)
	}
	return ""
}

// Due returns the endpoints to dial now, each with its address.
func (p *Part) Due() map[Endpoint]string {
	now := p.options.Now()
	wanted := map[Endpoint]string{}
	want := func(e Endpoint) {
		if s := p.services[e.service]; s.address != "" && p.backend(e.service).state == up {
			wanted[e] = net.JoinHostPort(s.address, strconv.Itoa(int(e.port)))
		}
	}
	for _, h := range p.hooks {
		want(h.backend.Endpoint)
	}
	for _, c := range p.converters {
		if c.called != nil {
			want(c.called.Endpoint)
		}
	}
	for e, t := range p.handshakes {
		_, still := wanted[e]
		switch {
		case !still:
			delete(p.handshakes, e)
			p.conversionsDirty = p.conversionsDirty || t.why != ""
		case t.ok && now.Sub(t.at) < TrustInterval, !t.ok && now.Sub(t.at) < DistrustInterval:
			delete(wanted, e)
		}
	}
	return wanted
}

// Distrust returns the error of a handshake with an untrusted backend.
func Distrust(why string) error { return &tls.CertificateVerificationError{Err: errors.New(why)} }

// Distrusted returns why the certificates of backends are not trusted, by address.
func (p *Part) Distrusted() map[string]string {
	found := map[string]string{}
	for e, t := range p.handshakes {
		if s := p.services[e.service]; t.distrust != "" {
			found[net.JoinHostPort(s.address, strconv.Itoa(int(e.port)))] = t.distrust
		}
	}
	return found
}

// ShookHands records the result of a handshake.
func (p *Part) ShookHands(e Endpoint, t Handshake) {
	p.conversionsDirty = p.conversionsDirty || p.handshakes[e].why != t.why
	p.handshakes[e] = t
}

// Try only makes a TLS handshake, as the API server would: a webhook with a certificate that caBundle does
// not verify refuses everything. Other errors say nothing about the API server's connection.
func (e Endpoint) Try(ctx context.Context, dial Dial, address string, now time.Time) Handshake {
	err := shakeHands(ctx, dial, e, address)
	t := Handshake{at: now, ok: err == nil}
	if untrusted := new(tls.CertificateVerificationError); errors.As(err, &untrusted) {
		t.distrust = untrusted.Err.Error()
		t.why = fmt.Sprintf("what answers at Service %s has a certificate that caBundle does not vouch for: %s", e.service, t.distrust)
	}
	return t
}

// shakeHands checks a certificate as the API server does (k8s.io/apiserver, pkg/util/webhook/client.go).
func shakeHands(ctx context.Context, dial Dial, e Endpoint, address string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	config := &tls.Config{ServerName: e.service.Name + "." + e.service.Namespace + ".svc", MinVersion: tls.VersionTLS12}
	if e.caBundle != "" {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM([]byte(e.caBundle))
	}
	return tls.Client(conn, config).HandshakeContext(ctx)
}
