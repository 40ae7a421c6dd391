package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster/facts"

	"github.com/termguard/termguard/cluster/refusals"
	"github.com/termguard/termguard/question"
)

// authority returns a self-signed certificate for names, and its PEM.
func authority(t *testing.T, until time.Time, names ...string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "guard"}, DNSNames: names,
		NotBefore: until.Add(-10 * 365 * 24 * time.Hour), NotAfter: until, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// guarded is a webhook that matches DELETE configmaps, and whose backend is up.
func guarded(caBundle string) string {
	return `
{apiVersion: v1, kind: Namespace, metadata: {name: demo}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: it, namespace: demo}}
---
{apiVersion: v1, kind: Service, metadata: {name: guard, namespace: ops}, spec: {clusterIP: 10.96.0.50}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: guard-1, namespace: ops, labels: {kubernetes.io/service-name: guard}}, endpoints: [{addresses: [10.0.0.1]}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: deny.x.io
  clientConfig: {service: {namespace: ops, name: guard, port: 8443}, caBundle: ` + base64.StdEncoding.EncodeToString([]byte(caBundle)) + `}
  rules: [{operations: [DELETE], apiGroups: [""], apiVersions: ["*"], resources: [configmaps]}]
`
}

// refused returns the causes of refused requests in a namespace.
func refused(w *World, namespace string) (causes []string) {
	w.View(func(doc map[string]any) {
		hooks, _ := facts.Lookup(doc, "blocked", namespace).(map[string]any)
		for _, requests := range hooks {
			for _, r := range requests.([]any) {
				r := r.(map[string]any)
				causes = append(causes, fmt.Sprintf("%s: %s", r["cause"], r["why"]))
			}
		}
	})
	return causes
}

// serve shakes hands with one client, whose error is the one that counts.
func serve(t *testing.T, certificate tls.Certificate) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		if conn, err := listener.Accept(); err == nil {
			defer conn.Close()
			_ = conn.(*tls.Conn).Handshake()
		}
	}()
	return listener.Addr().String()
}

func TestTryCertificates(t *testing.T) {
	// A handshake has two seconds, and a busy machine may need more to read these.
	if _, err := x509.SystemCertPool(); err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(time.Hour)
	right, rightPEM := authority(t, soon, "guard.ops.svc")
	other, otherPEM := authority(t, soon, "other.ops.svc")
	_, expiredPEM := authority(t, time.Now().Add(-time.Hour), "guard.ops.svc")
	tests := map[string]struct {
		reason   string
		serves   *tls.Certificate
		caBundle string
		want     string // what the reason begins with, "" for none
	}{
		"fits":          {"the authority vouches for the name that the API server uses", &right, rightPEM, ""},
		"another":       {"an authority that did not sign it", &right, otherPEM, "untrusted: the certificate of Service ops/guard is not trusted by caBundle: x509: certificate signed by unknown authority"},
		"another name":  {"the certificate is for another Service", &other, otherPEM, "untrusted: the certificate of Service ops/guard is not trusted by caBundle: x509: certificate is valid for other.ops.svc"},
		"either":        {"one of two authorities is enough", &right, otherPEM + rightPEM, ""},
		"system":        {"without caBundle the system's authorities count, which do not sign for Services", &right, "", "untrusted: "},
		"refused":       {"a backend that does not answer proves nothing: the API server may be closer", nil, rightPEM, ""},
		"expired":       {"no handshake is needed", nil, expiredPEM, "untrusted: the authority in caBundle expired on "},
		"one expired":   {"the other is still good", &right, expiredPEM + rightPEM, ""},
		"nothing in it": {"a placeholder that was not replaced", nil, "\n", "untrusted: caBundle holds no certificate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dial := func(_ context.Context, _, address string) (net.Conn, error) {
				if address != "10.96.0.50:8443" {
					t.Errorf("dialled %s", address)
				}
				if tc.serves == nil {
					return nil, errors.New("connection refused")
				}
				return net.Dial("tcp", serve(t, *tc.serves))
			}
			w, err := FromObjects(Options{}, objects(t, guarded(tc.caBundle)))
			if err != nil {
				t.Fatal(err)
			}
			w.TryCertificates(t.Context(), Dialing(dial), nil)
			w.Settle()
			got := strings.Join(refused(w, "demo"), "\n")
			if tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestStoredCertificates checks the comparison of a caBundle with a certificate for the right name only, or with
// the authority that cert-manager puts there.
func TestStoredCertificates(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	_, rightPEM := authority(t, soon, "guard.ops.svc")
	_, renewedPEM := authority(t, soon, "guard.ops.svc")
	_, otherPEM := authority(t, soon, "other.ops.svc")
	_, expiredPEM := authority(t, time.Now().Add(-time.Hour), "guard.ops.svc")
	behind := `---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: guard, namespace: ops}, spec: {template: {metadata: {labels: {app: guard}}, spec: {volumes: [{name: tls, secret: {secretName: guard-tls}}]}}}}
`
	const mounted = "untrusted: the certificate of Service ops/guard is not trusted by caBundle: Secret ops/guard-tls, which its pods mount: "
	deletion := func(kind, resource, namespace, name string) *question.Request {
		return question.Target{Kind: schema.GroupVersionKind{Version: "v1", Kind: kind}, Resource: schema.GroupVersionResource{Version: "v1", Resource: resource}, Namespace: namespace, Name: name}.Delete(nil)
	}
	it, namespace := deletion("ConfigMap", "configmaps", "demo", "it"), deletion("Namespace", "namespaces", "", "demo")
	for name, tc := range map[string]struct {
		reason            string
		annotation        string // instead of a mounted Secret
		caBundle          string
		certificate, root string
		request           *question.Request
		want              string
		unseen            string
	}{
		"Fits":          {"", "", rightPEM, rightPEM, "", it, "", ""},
		"Renewed":       {"", "", rightPEM, renewedPEM, "", it, mounted + "x509: certificate signed by unknown authority", ""},
		"Expired":       {"", "", rightPEM + expiredPEM, expiredPEM, "", it, mounted, ""},
		"AnotherName":   {"a Secret for something else", "", rightPEM, otherPEM, otherPEM, it, "", "certificate of webhook guard/deny.x.io: Secret ops/guard-tls has no tls.crt for Service ops/guard"},
		"NoPEM":         {"", "", rightPEM, "x", "", it, "", "certificate of webhook guard/deny.x.io: Secret ops/guard-tls has no tls.crt for Service ops/guard"},
		"Content":       {"a namespace needs the deletion of its content", "", rightPEM, renewedPEM, "", namespace, mounted, ""},
		"NoContent":     {"the webhook sees nothing of it", "", rightPEM, renewedPEM, "", deletion("Namespace", "namespaces", "", "ops"), "", ""},
		"Unseen":        {"", "cert-manager.io/x: 'z'", rightPEM, "", "", it, "", "certificate of webhook guard/deny.x.io: the pods of Service ops/guard mount no Secret"},
		"Injected":      {"the certificate counts before the authority", "cert-manager.io/inject-ca-from: ops/guard", rightPEM, renewedPEM, rightPEM, namespace, "untrusted: the certificate of Service ops/guard is not trusted by caBundle: Secret ops/issued, the source for cert-manager.io/inject-ca-from: x509", ""},
		"InjectedFit":   {"", "cert-manager.io/inject-ca-from: ops/guard", rightPEM, rightPEM, "", namespace, "", ""},
		"Authority":     {"its webhook issues itself a certificate by it", "cert-manager.io/inject-ca-from-secret: ops/issued", rightPEM, otherPEM, renewedPEM, it, "untrusted: caBundle for Service ops/guard does not have the authority that belongs there: Secret ops/issued, the source for cert-manager.io/inject-ca-from-secret: x509", ""},
		"AuthorityFits": {"", "cert-manager.io/inject-ca-from-secret: ops/issued", rightPEM, "", rightPEM, it, "", ""},
		"APIServer":     {"", "cert-manager.io/inject-apiserver-ca: 'true'", rightPEM, "", renewedPEM, it, "untrusted: caBundle for Service ops/guard does not have the authority that belongs there: ConfigMap kube-system/kube-root-ca.crt, the source for cert-manager.io/inject-apiserver-ca: x509", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(guarded(tc.caBundle), "clusterIP: 10.96.0.50", "clusterIP: 10.96.0.50, selector: {app: guard}", 1)
			if tc.annotation == "" {
				text += behind
			} else {
				text = strings.Replace(text, "metadata: {name: guard}\nwebhooks", "metadata: {name: guard, annotations: {"+tc.annotation+"}}\nwebhooks", 1)
			}
			w, err := FromObjects(Options{}, objects(t, text))
			if err != nil {
				t.Fatal(err)
			}
			w.Settle()
			requests := []*question.Request{tc.request}
			w.TryCertificates(t.Context(), func(_ context.Context, b Backend) (t Handshake) {
				for _, source := range b.Sources {
					if source.Resource == "certificates" {
						source = source.Secret("issued")
					}
					t = b.Compare(source, []byte(tc.certificate), []byte(tc.root), time.Now())
				}
				return t
			}, requests)
			w.Settle()
			if got := strings.Join(refused(w, "demo"), "\n"); tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
			if got := strings.Join(w.Unverified(requests), "\n"); got != tc.unseen {
				t.Errorf("%s: unseen %q, want %q", tc.reason, got, tc.unseen)
			}
		})
	}
}

func TestTryCertificatesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		right, rightPEM := authority(t, time.Now().Add(24*time.Hour), "guard.ops.svc")
		dialled, up := 0, false
		dial := func(context.Context, string, string) (net.Conn, error) {
			dialled++
			if !up {
				return nil, errors.New("connection refused")
			}
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				_ = tls.Server(server, &tls.Config{Certificates: []tls.Certificate{right}}).Handshake()
			}()
			return client, nil
		}
		w, err := FromObjects(Options{}, objects(t, guarded(rightPEM)))
		if err != nil {
			t.Fatal(err)
		}
		steps := []struct {
			reason string
			after  time.Duration
			up     bool
			want   int
		}{
			{"at first sight", 0, false, 1},
			{"a backend that did not answer is not dialled again for a while", refusals.DistrustInterval - time.Second, false, 1},
			{"and tried again", time.Second, true, 2},
			{"a certificate that fits is not checked again for longer", refusals.DistrustInterval, true, 2},
			{"but certificates are replaced", refusals.TrustInterval, true, 3},
		}
		for _, step := range steps {
			time.Sleep(step.after)
			up = step.up
			w.TryCertificates(t.Context(), Dialing(dial), nil)
			if dialled != step.want {
				t.Errorf("%s: dialled %d times, want %d", step.reason, dialled, step.want)
			}
		}
	})
}

// TestConvertersAreTried checks that conversion webhooks are dialled in the same way.
func TestConvertersAreTried(t *testing.T) {
	right, rightPEM := authority(t, time.Now().Add(time.Hour), "guard.ops.svc")
	_, otherPEM := authority(t, time.Now().Add(time.Hour), "guard.ops.svc")
	for caBundle, want := range map[string]bool{rightPEM: false, otherPEM: true} {
		text := guarded(rightPEM) + `
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.x.io}
spec:
  group: x.io
  scope: Namespaced
  names: {kind: Thing, plural: things}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: ops, name: guard}, caBundle: ` + base64.StdEncoding.EncodeToString([]byte(caBundle)) + `}}}
  versions: [{name: v1, served: true, storage: true}, {name: v2, served: true}]
status: {storedVersions: [v1]}
`
		w, err := FromObjects(Options{}, objects(t, text))
		if err != nil {
			t.Fatal(err)
		}
		w.TryCertificates(t.Context(), Dialing(func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("tcp", serve(t, right))
		}), nil)
		w.Settle()
		reason, ok := at(w, "unconverted", "things.x.io", "backend", "reason").(string)
		if ok != want || want && !strings.Contains(reason, "is not trusted by caBundle") {
			t.Errorf("caBundle fits %v: got %q", !want, reason)
		}
	}
}
