package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// client returns a certificate signed by the authority.
func (r root) client(t *testing.T, name string, usage x509.ExtKeyUsage, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, r.certificate, key.Public(), r.key)
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key}
}

func (r root) write(t *testing.T, file string, at time.Time) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.certificate.Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestClients(t *testing.T) {
	now := time.Now()
	ours, theirs := newRoot(t, "clients", now.Add(-time.Hour)), newRoot(t, "clients", now.Add(-time.Hour))
	file := filepath.Join(t.TempDir(), "ca.crt")
	ours.write(t, file, now)
	clients, err := NewClientVerifier(file, []string{"apiserver"}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, VerifyConnection: clients.VerifyConnection}
	server.StartTLS()
	defer server.Close()
	connects := func(certificates ...tls.Certificate) error {
		transport := server.Client().Transport.(*http.Transport).Clone()
		transport.TLSClientConfig.Certificates = certificates
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get(server.URL)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	later := now.Add(time.Hour)
	apiserver := ours.client(t, "apiserver", x509.ExtKeyUsageClientAuth, later)
	cases := map[string]struct {
		reason string
		with   []tls.Certificate
		want   bool
	}{
		"the API server": {"The client is the API server.", []tls.Certificate{apiserver}, true},
		"nobody":         {"Anybody in the cluster can connect.", nil, false},
		"another name":   {"The authority may have signed for others, kubelets for instance.", []tls.Certificate{ours.client(t, "kubelet", x509.ExtKeyUsageClientAuth, later)}, false},
		"another root":   {"An authority of the same name is another one.", []tls.Certificate{theirs.client(t, "apiserver", x509.ExtKeyUsageClientAuth, later)}, false},
		"of a server":    {"A serving certificate is no proof of a client.", []tls.Certificate{ours.client(t, "apiserver", x509.ExtKeyUsageServerAuth, later)}, false},
		"expired":        {"It may have been stolen since.", []tls.Certificate{ours.client(t, "apiserver", x509.ExtKeyUsageClientAuth, now.Add(-time.Hour))}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := connects(tc.with...); (err == nil) != tc.want {
				t.Errorf("%s Connected: %v", tc.reason, err)
			}
		})
	}
	// The file changes, breaks, and is removed.
	theirs.write(t, file, now.Add(time.Second))
	if connects(apiserver) == nil || connects(theirs.client(t, "apiserver", x509.ExtKeyUsageClientAuth, later)) != nil {
		t.Error("a new authority is not read")
	}
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if connects(apiserver) == nil || connects(theirs.client(t, "apiserver", x509.ExtKeyUsageClientAuth, later)) != nil {
		t.Error("where the file is broken, the last authority does not stay")
	}
	if _, err := NewClientVerifier(file, nil, quiet); err == nil {
		t.Error("want an error for a file without a certificate")
	}
	if _, err := NewClientVerifier(file+".missing", nil, quiet); err == nil {
		t.Error("want an error for a file that is not there")
	}
}
