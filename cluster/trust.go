package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// trustInterval is how often a backend is dialled again whose certificate
	// fits, and distrustInterval one whose does not, or that did not answer.
	trustInterval, distrustInterval = 10 * time.Minute, 15 * time.Second
	// dialTimeout bounds one handshake.
	dialTimeout = 2 * time.Second
	// dials bounds how many handshakes are under way at once.
	dials = 4
)

// Dial opens a connection, as net.Dialer's DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// trial is what became of the last handshake with an endpoint.
type trial struct {
	at  time.Time
	why string // its certificate is not trusted; "" also where it did not answer
	ok  bool
}

// distrusted tells why the API server cannot trust what answers at an endpoint;
// "" where nothing is known against it. A handshake tells more than caBundle
// alone, which is looked at in any case.
func (w *World) distrusted(e endpoint) string {
	if w.options.manifests {
		return "" // a caBundle is filled in later
	}
	if why := unusable(e.caBundle, w.now()); why != "" {
		return why
	}
	return w.trials[e].why
}

// unusable tells why nothing can be trusted by a caBundle. Without one, the
// authorities of the API server's own system count.
func unusable(caBundle string, now time.Time) string {
	if caBundle == "" {
		return ""
	}
	var last time.Time
	for rest := []byte(caBundle); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" && c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	switch {
	case last.IsZero():
		return "caBundle holds no certificate"
	case last.Before(now):
		return "what caBundle trusts expired on " + last.UTC().Format(time.DateOnly)
	}
	return ""
}

// due are the endpoints to dial now, each with its address.
func (w *World) due() map[endpoint]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Now()
	wanted := map[endpoint]string{}
	want := func(e endpoint) {
		if s := w.services[e.service]; s.address != "" && w.backend(e.service)["state"] == "up" {
			wanted[e] = net.JoinHostPort(s.address, strconv.Itoa(int(e.port)))
		}
	}
	for _, h := range w.hooks {
		want(h.backend)
	}
	for _, e := range w.converters {
		want(e)
	}
	for e, t := range w.trials {
		_, still := wanted[e]
		switch {
		case !still:
			delete(w.trials, e)
			w.trustChanged(t.why != "")
		case t.ok && now.Sub(t.at) < trustInterval, !t.ok && now.Sub(t.at) < distrustInterval:
			delete(wanted, e)
		}
	}
	return wanted
}

func (w *World) trustChanged(changed bool) {
	w.hooksDirty = w.hooksDirty || changed
	w.conversionsDirty = w.conversionsDirty || changed
}

// tryCertificates shakes hands with the backends of webhooks that fail closed or convert,
// as the API server would, and goes no further: a certificate that caBundle does
// not vouch for is a webhook that refuses everything. Whatever else goes wrong
// says nothing about what the API server would find.
func (w *World) tryCertificates(ctx context.Context, dial Dial) {
	var trying sync.WaitGroup
	places := make(chan struct{}, dials)
	for e, address := range w.due() {
		trying.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			err := shakeHands(ctx, dial, e, address)
			t := trial{at: w.options.Now(), ok: err == nil}
			if untrusted := new(tls.CertificateVerificationError); errors.As(err, &untrusted) {
				t.why = fmt.Sprintf("what answers at Service %s has a certificate that caBundle does not vouch for: %v", e.service, untrusted.Err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.trustChanged(w.trials[e].why != t.why)
			w.trials[e] = t
		})
	}
	trying.Wait()
}

// shakeHands checks a certificate as the API server does (k8s.io/apiserver,
// pkg/util/webhook/client.go).
func shakeHands(ctx context.Context, dial Dial, e endpoint, address string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	namespace, name, _ := strings.Cut(e.service, "/")
	config := &tls.Config{ServerName: name + "." + namespace + ".svc", MinVersion: tls.VersionTLS12}
	if e.caBundle != "" {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM([]byte(e.caBundle))
	}
	return tls.Client(conn, config).HandshakeContext(ctx)
}
