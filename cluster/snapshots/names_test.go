package snapshots

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// TestBundle: a redacted CA bundle is as valid as before, and has no names.
func TestBundle(t *testing.T) {
	until := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "ca.acme.example"}, DNSNames: []string{"acme.example"}, NotAfter: until, IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, of, of, public, private)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	redacted, err := base64.StdEncoding.DecodeString(newRedactor().bundle(base64.StdEncoding.EncodeToString(append(text, text...))))
	if err != nil {
		t.Fatal(err)
	}
	first, rest := pem.Decode(redacted)
	if second, _ := pem.Decode(rest); first == nil || second == nil {
		t.Fatalf("want two certificates, got %q", redacted)
	}
	got, err := x509.ParseCertificate(first.Bytes)
	if err != nil || !got.NotAfter.Equal(until) || !got.IsCA || got.Subject.String() != "" || got.DNSNames != nil || strings.Contains(string(first.Bytes), "acme") {
		t.Errorf("got %+v, %v", got, err)
	}
	if got := newRedactor().bundle("${CA_BUNDLE}"); got != "" {
		t.Errorf("of a placeholder: %q", got)
	}
}

// TestNames: names that contain each other still do, and words of programs stay.
func TestNames(t *testing.T) {
	r := newRedactor()
	const id = "949563cb-6717-4455-a778-7fb16c906630"
	if got := r.name("pvc-" + id); got == "pvc-"+id || !strings.HasSuffix(got, "-"+r.name(id)) {
		t.Errorf("a name with a UUID: %q, not with %q", got, r.name(id))
	}
	for _, stays := range []string{"/opt/cni/bin", "/etc/cni/net.d", "/var/lib/kubelet/plugins_registry", "csi.alpha.kubernetes.io/node-id"} {
		if got := r.label(stays); got != stays {
			t.Errorf("%q became %q", stays, got)
		}
	}
	ordered := func(list ...any) bool {
		redacted, _ := r.value("values", list).([]any)
		return compare(redacted[0], redacted[1]) < 0
	}
	if !ordered("acme-a", "acme-b") || ordered("acme-b", "acme-a") {
		t.Error("the order of values changed")
	}
}
