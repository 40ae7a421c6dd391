package refusals

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/client-go/util/cert"

	"github.com/termguard/termguard/cluster/facts"
	"github.com/termguard/termguard/question"
)

const (
	// TrustInterval is the time between handshakes with a trusted backend, DistrustInterval with others.
	TrustInterval, DistrustInterval = 10 * time.Minute, 15 * time.Second
	dialTimeout                     = 2 * time.Second
)

// Dial is net.Dialer's DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Handshake is the result of a handshake.
type Handshake struct {
	at       time.Time
	ok       bool
	distrust string // why its certificate is not trusted; "" also without an answer
}

// Endpoint is a backend as the API server calls it.
type Endpoint struct {
	service  types.NamespacedName
	port     int32
	caBundle string
}

type called struct {
	Endpoint
	trustedUntil time.Time // the last expiry of the certificates in caBundle, zero if it has none
}

func calledAt(namespace, name string, port *int32, caBundle []byte) called {
	at := Endpoint{types.NamespacedName{Namespace: namespace, Name: name}, facts.Or(port, 443), string(caBundle)}
	return called{at, lastExpiry(caBundle)}
}

// distrusted returns why the API server cannot trust an endpoint.
func (p *Part) distrusted(c called) string {
	distrust := p.handshakes[c.Endpoint].distrust
	switch {
	case p.options.Manifests: // a caBundle is filled in later
	case c.caBundle != "" && c.trustedUntil.Before(p.options.Now()): // without one, the API server uses its system's authorities
		if c.trustedUntil.IsZero() {
			return "caBundle holds no certificate"
		}
		return "what caBundle trusts expired on " + c.trustedUntil.UTC().Format(time.DateOnly)
	case distrust != "":
		return fmt.Sprintf("what answers at Service %s has a certificate that caBundle does not vouch for: %s", c.service, distrust)
	}
	return ""
}

func lastExpiry(caBundle []byte) (last time.Time) {
	for block, rest := pem.Decode(caBundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" && c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	return last
}

// Due returns the addresses of the endpoints to dial now.
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
			p.conversionsDirty = p.conversionsDirty || t.distrust != ""
		case t.ok && now.Sub(t.at) < TrustInterval, !t.ok && now.Sub(t.at) < DistrustInterval:
			delete(wanted, e)
		}
	}
	return wanted
}

// Distrust returns the error of a handshake with an untrusted backend.
func Distrust(why string) error { return &tls.CertificateVerificationError{Err: errors.New(why)} }

// Distrusted returns why backends are not trusted, by address.
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
	p.conversionsDirty = p.conversionsDirty || p.handshakes[e].distrust != t.distrust
	p.handshakes[e] = t
}

// Try makes a TLS handshake only: a webhook with a certificate that caBundle does not verify refuses
// everything. Other errors say nothing about the API server's connection.
func (e Endpoint) Try(ctx context.Context, dial Dial, address string, now time.Time) Handshake {
	err := shakeHands(ctx, dial, e, address)
	t := Handshake{at: now, ok: err == nil}
	if untrusted := new(tls.CertificateVerificationError); errors.As(err, &untrusted) {
		t.distrust = untrusted.Err.Error()
	}
	return t
}

// Untried is the Service of a webhook whose certificate no handshake showed.
type Untried struct {
	Endpoint
	Webhook string   // TYPE/CONFIGURATION/NAME, the first that calls it
	Secrets []string // that the pods of the Service do not start without
}

// Service returns the name of the Service.
func (e Endpoint) Service() types.NamespacedName { return e.service }

// Untried returns the Services of webhooks that fail closed and see a request.
func (p *Part) Untried(request *question.Request) (found []Untried) {
	in := input{attributes: attributesOf(request, p.options.Manifests), callerKnown: request.UserInfo.Username != ""}
	if rules.IsExemptAdmissionConfigurationResource(in.attributes) {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(p.hooks)) {
		h := p.hooks[key]
		e := h.backend.Endpoint
		if e.service.Name == "" || !h.reach.up || h.reach.sure != no || p.handshakes[e].ok || slices.ContainsFunc(found, func(u Untried) bool { return u.Endpoint == e }) {
			continue
		}
		if sees, _ := h.seesAs(in, p.namespace(in.attributes.GetNamespace()).labels); sees != no {
			_, secrets := p.behind(e.service)
			found = append(found, Untried{e, key, slices.Sorted(maps.Keys(secrets))})
		}
	}
	return found
}

// Stored is Try with the certificate that the pods of the Service mount; false if it is for another name.
func (e Endpoint) Stored(secret string, certificate []byte, now time.Time) (t Handshake, is bool) {
	chain, err := cert.ParseCertsPEM(certificate)
	if err != nil || chain[0].VerifyHostname(e.host()) != nil {
		return t, false
	}
	options := x509.VerifyOptions{Intermediates: x509.NewCertPool(), CurrentTime: now, Roots: e.roots()}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := chain[0].Verify(options); err != nil {
		return Handshake{at: now, distrust: fmt.Sprintf("Secret %s, which its pods mount: %s", secret, err)}, true
	}
	return Handshake{at: now, ok: true}, true
}

func (e Endpoint) host() string { return e.service.Name + "." + e.service.Namespace + ".svc" }

// roots are the system's (nil) without a caBundle.
func (e Endpoint) roots() *x509.CertPool {
	if e.caBundle == "" {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(e.caBundle))
	return roots
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
	return tls.Client(conn, &tls.Config{ServerName: e.host(), MinVersion: tls.VersionTLS12, RootCAs: e.roots()}).HandshakeContext(ctx)
}
