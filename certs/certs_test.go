package certs

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/keyutil"
)

var quiet = slog.New(slog.DiscardHandler)

// root is a self-signed authority.
type root struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func newRoot(t *testing.T, name string, notBefore time.Time) root {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(notBefore.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: notBefore, NotAfter: notBefore.Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return root{sign(t, template, template, key.Public(), key), key}
}

func sign(t *testing.T, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r root) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.certificate.Raw})
}

var options = Options{Namespace: "guard", Secret: "ca", Service: "guard", Configuration: "guard", Log: quiet}

func configuration() *admissionv1.ValidatingWebhookConfiguration {
	call := func(service string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "guard", Name: service}}
	}
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Webhooks: []admissionv1.ValidatingWebhook{
			{Name: "delete.guard", ClientConfig: call("guard")},
			{Name: "finalize.guard", ClientConfig: call("guard")},
			{Name: "other.guard", ClientConfig: call("other")},
		},
	}
}

func secret(t *testing.T, r root) *corev1.Secret {
	t.Helper()
	key, err := keyutil.MarshalPrivateKeyToPEM(r.key)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{caKey: r.pem(), corev1.TLSCertKey: r.pem(), corev1.TLSPrivateKeyKey: key}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "guard", Name: "ca"}, Data: data}
}

// servedSigner fails the test unless the webhook configuration trusts the served certificate, and returns the
// name of its signer.
func servedSigner(t *testing.T, client *fake.Clientset, source *Source, roots map[string]root) string {
	t.Helper()
	c, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "guard", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	served, err := source.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(served.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range c.Webhooks[:2] {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(w.ClientConfig.CABundle)
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "guard.guard.svc", CurrentTime: time.Now()}); err != nil {
			t.Fatalf("webhook %s does not trust the served certificate: %v", w.Name, err)
		}
	}
	if len(c.Webhooks[2].ClientConfig.CABundle) > 0 {
		t.Error("a webhook that calls another Service was given our authority")
	}
	for name, r := range roots {
		if leaf.CheckSignatureFrom(r.certificate) == nil {
			return name
		}
	}
	return "nobody known"
}

func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roots := map[string]root{"old": newRoot(t, commonName, time.Now())}
		client := fake.NewClientset(configuration(), secret(t, roots["old"]))
		var refuse atomic.Bool
		client.PrependReactor("patch", "validatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
			return refuse.Load(), nil, errors.New("refused")
		})
		source := newEmbedded(client, options)
		if err := source.Ready(); err == nil {
			t.Error("ready before it runs")
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { source.Run(ctx); close(stopped) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if by := servedSigner(t, client, source, roots); by != "old" || source.Ready() != nil {
			t.Fatalf("signed by %s, ready: %v", by, source.Ready())
		}

		time.Sleep(8 * 24 * time.Hour) // the leaf has been renewed and the authority is not new
		synctest.Wait()
		roots["new"] = newRoot(t, commonName, time.Now())
		refuse.Store(true)
		if _, err := client.CoreV1().Secrets("guard").Update(t.Context(), secret(t, roots["new"]), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if by := servedSigner(t, client, source, roots); by != "old" {
			t.Errorf("signed by %s before the configuration has the new authority", by)
		}
		refuse.Store(false)
		time.Sleep(4 * time.Second) // the next attempt is at 15 s
		synctest.Wait()
		if by := servedSigner(t, client, source, roots); by != "old" {
			t.Errorf("signed by %s before API servers know the new authority", by)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if by := servedSigner(t, client, source, roots); by != "new" {
			t.Errorf("signed by %s at last", by)
		}

		time.Sleep(8 * 24 * time.Hour) // longer than a leaf is valid
		synctest.Wait()
		if by := servedSigner(t, client, source, roots); by != "new" {
			t.Errorf("signed by %s at last", by)
		}
		c, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "guard", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(roots["new"].pem()), string(c.Webhooks[0].ClientConfig.CABundle)); diff != "" {
			t.Errorf("the old authority outlives its certificates: -want, +got:\n%s", diff)
		}
		cancel()
		<-stopped
	})
}

// TestSkew checks that certificates are valid at once for API servers whose clocks are ten minutes off in
// either direction.
func TestSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(configuration())
		source := newEmbedded(client, options)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { source.Run(ctx); close(stopped) }()
		for _, cause := range []string{"for want of one", "since the Secret was emptied", "since it was filled with nonsense"} {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			for _, skew := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
				c, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "guard", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				served, err := source.GetCertificate(nil)
				if err != nil {
					t.Fatal(err)
				}
				pool := x509.NewCertPool()
				pool.AppendCertsFromPEM(c.Webhooks[0].ClientConfig.CABundle)
				if _, err := served.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "guard.guard.svc", CurrentTime: time.Now().Add(skew)}); err != nil {
					t.Errorf("an authority that was made %s, to an API server whose clock is off by %v: %v", cause, skew, err)
				}
			}
			secret, err := client.CoreV1().Secrets("guard").Get(t.Context(), "ca", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			secret.Data = map[string][]byte{caKey: []byte("nonsense"), corev1.TLSCertKey: []byte("nonsense")}
			if cause == "for want of one" {
				secret.Data = nil
			}
			if _, err := client.CoreV1().Secrets("guard").Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		<-stopped
	})
}

func TestNotInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoot(t, commonName, time.Now())
		source := newEmbedded(fake.NewClientset(secret(t, r)), options)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { source.Run(ctx); close(stopped) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if err := source.Ready(); err == nil || !strings.Contains(err.Error(), "no ValidatingWebhookConfiguration guard calls Service guard/guard") {
			t.Errorf("ready without a webhook configuration: %v", err)
		}
		cancel()
		<-stopped
	})
}

// TestDeletedAndMadeAnew checks that a replica without its webhook configuration is not ready and keeps
// running, and that a recreated configuration gets the authority.
func TestDeletedAndMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roots := map[string]root{"ours": newRoot(t, commonName, time.Now())}
		client := fake.NewClientset(configuration(), secret(t, roots["ours"]))
		source := newEmbedded(client, options)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { source.Run(ctx); close(stopped) }()
		settle := func() { time.Sleep(10 * time.Second); synctest.Wait() }
		settle()
		servedSigner(t, client, source, roots)

		configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		if err := configurations.Delete(t.Context(), "guard", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		if _, err := source.GetCertificate(nil); err != nil {
			t.Errorf("it serves no longer: %v", err)
		}
		select {
		case <-stopped:
			t.Fatal("it ended")
		default:
		}
		if _, err := configurations.Create(t.Context(), configuration(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		if by := servedSigner(t, client, source, roots); by != "ours" || source.Ready() != nil {
			t.Errorf("signed by %s, ready: %v", by, source.Ready())
		}
		cancel()
		<-stopped
	})
}

func TestExtend(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	older, old := newRoot(t, commonName, now.Add(-300*day)), newRoot(t, commonName, now.Add(-200*day))
	current, young := newRoot(t, commonName, now.Add(-30*day)), newRoot(t, commonName, now.Add(-day))
	expired := newRoot(t, commonName, now.Add(-400*day))
	foreign := newRoot(t, "somebody", now.Add(-day))
	bundle := func(roots ...root) (text []byte) {
		for _, r := range roots {
			text = append(text, r.pem()...)
		}
		return text
	}
	cases := map[string]struct {
		reason             string
		present, authority []byte
		want               []byte
		err                bool
	}{
		"First":       {reason: "Its own.", authority: bundle(current), want: bundle(current)},
		"Kept":        {reason: "What an old authority signed may still be served.", present: bundle(old, older), authority: bundle(young), want: bundle(young, old, older)},
		"Stable":      {reason: "Doing it again changes nothing.", present: bundle(young, old, older), authority: bundle(young), want: bundle(young, old, older)},
		"Dropped":     {reason: "Until nothing that it signed can be served.", present: bundle(current, old), authority: bundle(current), want: bundle(current)},
		"Successor":   {reason: "A replica that learns late of a rotation does not undo it.", present: bundle(young, current), authority: bundle(current), want: bundle(young, current)},
		"Expired":     {reason: "What has expired is of no use.", present: bundle(expired), authority: bundle(young), want: bundle(young)},
		"Foreign":     {reason: "Nobody else signs for us.", present: bundle(foreign), authority: bundle(young), want: bundle(young)},
		"Unreadable":  {reason: "An unreadable file trusts no client.", present: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), authority: bundle(young), want: bundle(young)},
		"NoAuthority": {reason: "Without an authority there is no bundle.", present: bundle(old), err: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := rotateBundle(tc.present, tc.authority, 7*day, now)
			if (err != nil) != tc.err {
				t.Fatalf("%s\nerror %v", tc.reason, err)
			}
			if diff := cmp.Diff(string(tc.want), string(got)); diff != "" {
				t.Errorf("%s\nbundle: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func FuzzExtend(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), []byte("x"))
	f.Add([]byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, present, authority []byte) {
		bundle, err := rotateBundle(present, authority, time.Hour, time.Now())
		if err == nil && len(bundle) == 0 {
			t.Error("neither a bundle nor an error")
		}
	})
}

func TestFiles(t *testing.T) {
	folder := t.TempDir()
	certificate, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	write := func(r root) {
		t.Helper()
		der, err := x509.MarshalPKCS8PrivateKey(r.key)
		if err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string][]byte{key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), certificate: r.pem()} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		source := FromFiles(certificate, key, quiet)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { source.Run(ctx); close(stopped) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if err := source.Ready(); err == nil || !strings.Contains(err.Error(), certificate) {
			t.Errorf("ready without files: %v", err)
		}
		for _, name := range []string{"first", "second"} {
			r := newRoot(t, name, time.Now())
			write(r)
			time.Sleep(11 * time.Second)
			synctest.Wait()
			got, err := source.GetCertificate(&tls.ClientHelloInfo{})
			if err != nil || string(got.Certificate[0]) != string(r.certificate.Raw) {
				t.Errorf("%s certificate is not served: %v", name, err)
			}
		}
		last, err := source.GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		half := newRoot(t, "half", time.Now()).pem()
		for _, broken := range []struct {
			how string
			do  func() error
		}{
			{"a full disk took half of the certificate", func() error { return os.WriteFile(certificate, half[:len(half)/2], 0o600) }},
			{"a full disk took nothing of the key", func() error { return os.Truncate(key, 0) }},
			{"the key was deleted", func() error { return os.Remove(key) }},
		} {
			if err := broken.do(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if got, err := source.GetCertificate(&tls.ClientHelloInfo{}); err != nil || string(got.Certificate[0]) != string(last.Certificate[0]) {
				t.Errorf("%s: the last certificate is not served: %v", broken.how, err)
			}
		}
		r := newRoot(t, "third", time.Now())
		write(r)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got, err := source.GetCertificate(&tls.ClientHelloInfo{}); err != nil || string(got.Certificate[0]) != string(r.certificate.Raw) {
			t.Errorf("with room again, the new certificate is not served: %v", err)
		}
		cancel()
		<-stopped
	})
}

func TestKeepsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		s := &Source{log: quiet, refresh: func(context.Context) (time.Duration, error) {
			if runs++; runs == 2 {
				panic("boom")
			}
			return 0, errors.New("boom")
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		s.Run(ctx)
		if runs != 3 {
			t.Errorf("want 3 runs in 12 s, got %d", runs)
		}
	})
}
