package refusals

import (
	"cmp"
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
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// Handshake is the result of a handshake, or of a comparison instead of one.
type Handshake struct {
	OK       bool
	Distrust string // why its certificate is not trusted
	// May says that Distrust is about the authority that belongs into caBundle.
	May    bool
	Unseen string // why nothing is known of its certificate

	at time.Time
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
	injected     []Source
}

func calledAt(namespace, name string, port *int32, caBundle []byte, injected []Source) called {
	at := Endpoint{types.NamespacedName{Namespace: namespace, Name: name}, facts.Or(port, 443), string(caBundle)}
	return called{at, lastExpiry(caBundle), injected}
}

// Source is an object with a certificate: a Secret, a ConfigMap, or a Certificate, which names a Secret.
type Source struct {
	schema.GroupVersionResource
	types.NamespacedName
	// Why is a clause: the reason to look there.
	Why string
	// Authority says that it has the authority for a caBundle, too.
	Authority bool
}

var (
	secretsResource      = corev1.SchemeGroupVersion.WithResource("secrets")
	configMapsResource   = corev1.SchemeGroupVersion.WithResource("configmaps")
	certificatesResource = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
)

// injectedFrom returns the source of a caBundle (https://cert-manager.io/docs/concepts/ca-injector).
func injectedFrom(annotations map[string]string) (sources []Source) {
	add := func(annotation string, resource schema.GroupVersionResource, namespace, name string) {
		sources = append(sources, Source{resource, types.NamespacedName{Namespace: namespace, Name: name}, "the source for " + annotation, true})
	}
	const certificate, secret, apiServer = "cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca"
	if namespace, name, named := strings.Cut(annotations[certificate], "/"); named {
		add(certificate, certificatesResource, namespace, name)
	}
	if namespace, name, named := strings.Cut(annotations[secret], "/"); named {
		add(secret, secretsResource, namespace, name)
	}
	if annotations[apiServer] == "true" {
		add(apiServer, configMapsResource, metav1.NamespaceSystem, "kube-root-ca.crt")
	}
	return sources
}

// Secret returns the Secret that a Certificate names.
func (s Source) Secret(name string) Source {
	s.GroupVersionResource, s.Name = secretsResource, name
	return s
}

func (s Source) String() string {
	kind := "Secret"
	if s.GroupVersionResource == configMapsResource {
		kind = "ConfigMap"
	}
	return kind + " " + s.NamespacedName.String()
}

// distrusted returns why the API server cannot trust an endpoint.
func (p *Part) distrusted(c called) (why string, sure certainty) {
	t := p.handshakes[c.Endpoint]
	switch {
	case p.options.Manifests: // a caBundle is filled in later
	case c.caBundle != "" && c.trustedUntil.Before(p.options.Now()): // without one, the API server uses its system's authorities
		if c.trustedUntil.IsZero() {
			return "caBundle holds no certificate", will
		}
		return "the authority in caBundle expired on " + c.trustedUntil.UTC().Format(time.DateOnly), will
	case t.May:
		return fmt.Sprintf("caBundle for Service %s does not have the authority that belongs there: %s", c.service, t.Distrust), may
	case t.Distrust != "":
		return fmt.Sprintf("the certificate of Service %s is not trusted by caBundle: %s", c.service, t.Distrust), will
	}
	return "", no
}

func lastExpiry(caBundle []byte) (last time.Time) {
	for block, rest := pem.Decode(caBundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" && c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	return last
}

// Backend is a Service with endpoints that the API server calls.
type Backend struct {
	called
	By      string // the first webhook that calls it, as CONFIGURATION/NAME, or definition
	Address string
	// Sources may have its certificate.
	Sources []Source
}

// Backends returns the backends of webhooks that fail closed and see a request of these deletions; for nil all,
// and those of conversions.
func (p *Part) Backends(cluster Cluster, requests []*question.Request) (backends []Backend) {
	added := map[Endpoint]bool{}
	add := func(by string, c called) {
		s, b := p.services[c.service], p.backend(c.service)
		if s.address == "" || b.state != up || added[c.Endpoint] {
			return
		}
		added[c.Endpoint] = true
		backend := Backend{called: c, By: by, Address: net.JoinHostPort(s.address, strconv.Itoa(int(c.port)))}
		secrets, _ := b.facts["secrets"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(secrets)) {
			backend.Sources = append(backend.Sources, Source{secretsResource, types.NamespacedName{Namespace: c.service.Namespace, Name: name}, "which its pods mount", false})
		}
		backend.Sources = append(backend.Sources, c.injected...)
		backends = append(backends, backend)
	}
	var concerned []func(*hook) bool
	for _, r := range requests {
		concerned = append(concerned, p.concernedBy(cluster, r))
	}
	for _, key := range slices.Sorted(maps.Keys(p.hooks)) {
		h := p.hooks[key]
		if requests == nil || slices.ContainsFunc(concerned, func(by func(*hook) bool) bool { return by(h) }) {
			_, by, _ := strings.Cut(key, "/")
			add(by, h.backend)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.converters)) {
		if c := p.converters[name]; requests == nil && c.called != nil {
			add(name, *c.called)
		}
	}
	return backends
}

// concernedBy returns which webhooks see a request or, if it deletes a namespace, one for its content.
func (p *Part) concernedBy(cluster Cluster, request *question.Request) func(*hook) bool {
	in := input{attributes: attributesOf(request, p.options.Manifests), callerKnown: request.UserInfo.Username != ""}
	if rules.IsExemptAdmissionConfigurationResource(in.attributes) {
		return func(*hook) bool { return false }
	}
	sees := func(h *hook) bool {
		sure, _ := h.seesAs(in, p.namespace(in.attributes.GetNamespace()).labels)
		return sure != no
	}
	if in.attributes.GetResource() != namespacesResource {
		return sees
	}
	at := p.place(cluster, in.attributes.GetName(), nil)
	return func(h *hook) bool {
		broken := refusingHook{h, refusal{sure: will, cause: "untrusted"}, p.reading}
		return sees(h) || len(p.blockedBy(broken.refuses, at, namespaceController)) > 0
	}
}

// Due returns the backends to try now.
func (p *Part) Due(cluster Cluster, requests []*question.Request) []Backend {
	all, now := p.Backends(cluster, requests), p.options.Now()
	if requests == nil {
		for e, t := range p.handshakes {
			if !slices.ContainsFunc(all, func(b Backend) bool { return b.Endpoint == e }) {
				delete(p.handshakes, e)
				p.conversionsDirty = p.conversionsDirty || t.Distrust != ""
			}
		}
	}
	return slices.DeleteFunc(all, func(b Backend) bool {
		t, tried := p.handshakes[b.Endpoint]
		return tried && (t.OK && now.Sub(t.at) < TrustInterval || !t.OK && now.Sub(t.at) < DistrustInterval)
	})
}

// Handshakes returns the results by address: the worst of several webhooks.
func (p *Part) Handshakes() map[string]Handshake {
	results := map[string]Handshake{}
	for _, b := range p.Backends(nil, nil) {
		if t := p.handshakes[b.Endpoint]; t.Distrust != "" || t.OK && results[b.Address].Distrust == "" {
			results[b.Address] = t
		}
	}
	return results
}

func (p *Part) Unverified(cluster Cluster, requests []*question.Request) (unseen []string) {
	for _, b := range p.Backends(cluster, requests) {
		t := p.handshakes[b.Endpoint]
		if _, sure := p.distrusted(b.called); sure == no && !t.OK {
			unseen = append(unseen, fmt.Sprintf("certificate of webhook %s: %s", b.By, cmp.Or(t.Unseen, fmt.Sprintf("the pods of Service %s mount no Secret", b.service))))
		}
	}
	return unseen
}

func (p *Part) ShookHands(b Backend, t Handshake) {
	t.at = p.options.Now()
	p.conversionsDirty = p.conversionsDirty || p.handshakes[b.Endpoint].Distrust != t.Distrust
	p.handshakes[b.Endpoint] = t
}

// Try verifies the certificate of a backend.
type Try func(ctx context.Context, b Backend) Handshake

// Dial is net.Dialer's DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Dialing returns a Try by a TLS handshake only: a webhook with a certificate that caBundle does not verify
// refuses everything. Other errors say nothing about the API server's connection.
func Dialing(dial Dial) Try {
	return func(ctx context.Context, b Backend) Handshake {
		err := shakeHands(ctx, dial, b)
		untrusted := new(tls.CertificateVerificationError)
		switch {
		case err == nil:
			return Handshake{OK: true}
		case errors.As(err, &untrusted):
			return Handshake{Distrust: untrusted.Err.Error()}
		}
		return Handshake{Unseen: err.Error()}
	}
}

// Compare is a Try with the content of a source: a certificate for the Service, else the authority that belongs
// into caBundle.
func (e Endpoint) Compare(s Source, certificate, authority []byte, now time.Time) Handshake {
	chain, err := cert.ParseCertsPEM(certificate)
	if err == nil {
		err = chain[0].VerifyHostname(e.host())
	}
	other := err != nil
	if other && s.Authority {
		chain, err = cert.ParseCertsPEM(authority)
	}
	if err != nil {
		return Handshake{Unseen: fmt.Sprintf("%s has no tls.crt for Service %s", s, e.service)}
	}
	options := x509.VerifyOptions{Intermediates: x509.NewCertPool(), CurrentTime: now, Roots: e.roots()}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := chain[0].Verify(options); err != nil {
		return Handshake{Distrust: fmt.Sprintf("%s, %s: %s", s, s.Why, err), May: other}
	}
	return Handshake{OK: true}
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
func shakeHands(ctx context.Context, dial Dial, b Backend) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := dial(ctx, "tcp", b.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	return tls.Client(conn, &tls.Config{ServerName: b.host(), MinVersion: tls.VersionTLS12, RootCAs: b.roots()}).HandshakeContext(ctx)
}
