package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

// TestCertificates checks that check, of a snapshot too, and delete verify the certificate of a webhook that fails closed by the Secret
// that its pods mount, read no other Secret, and say if they may not.
func TestCertificates(t *testing.T) {
	issued := func() string {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{DNSNames: []string{"guard.ops.svc"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		text, err := cert.EncodeCertificates(certificate)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(text)
	}
	old, renewed := issued(), issued()
	world := func(stored, operation string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: demo}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: ops}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: it, namespace: demo, finalizers: [x.io/f]}}
---
{apiVersion: v1, kind: Service, metadata: {name: guard, namespace: ops}, spec: {clusterIP: 10.96.0.50, selector: {app: guard}}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: guard-1, namespace: ops, labels: {kubernetes.io/service-name: guard}}, endpoints: [{addresses: [10.0.0.1]}]}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: guard, namespace: ops}, spec: {template: {metadata: {labels: {app: guard}}, spec: {volumes: [{name: tls, secret: {secretName: guard-tls}}]}}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: guard-tls, namespace: ops}, data: {tls.crt: %s, tls.key: c2VjcmV0}}
---
{apiVersion: v1, kind: Secret, metadata: {name: other, namespace: ops}, data: {tls.crt: %[1]s}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: guard}, webhooks: [{name: deny.x.io, clientConfig: {service: {namespace: ops, name: guard}, caBundle: %s}, rules: [{operations: [%s], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}]}
`, stored, old, operation)
	}
	for name, tc := range map[string]struct {
		stored    string
		operation string
		hidden    []string
		want      []string
		not       string
	}{
		"Fits":    {old, "DELETE", nil, []string{"configmaps/it -n demo: at-risk"}, "unseen"},
		"Update":  {renewed, "UPDATE", nil, []string{"configmaps/it -n demo: hangs", "caBundle does not vouch for: Secret ops/guard-tls"}, "unseen: certificate"},
		"Renewed": {renewed, "DELETE", nil, []string{"configmaps/it -n demo: refused", "caBundle does not vouch for: Secret ops/guard-tls"}, "unseen: certificate"},
		"Hidden":  {renewed, "DELETE", []string{"secrets"}, []string{"configmaps/it -n demo: at-risk", "unseen: certificate of webhook guard/deny.x.io: forbidden"}, "vouch"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t, world(tc.stored, tc.operation))
			c.hidden = tc.hidden
			var secrets []string
			c.arrived = func(r *http.Request) {
				if strings.Contains(r.URL.Path, "/secrets/") {
					c.mu.Lock()
					defer c.mu.Unlock()
					secrets = append(secrets, r.URL.Path)
				}
			}
			ask := func(args ...string) string {
				var out, errs bytes.Buffer
				if code := run(t.Context(), append([]string{"termguard", args[0], "cm/it", "-n", "demo"}, args[1:]...), nil, &out, &errs); code > exitFindings {
					t.Errorf("%v: %s", args, &errs)
				}
				return out.String()
			}
			for _, text := range []string{ask("check", "--kubeconfig", c.kubeconfig), ask("delete", "--dry-run", "--kubeconfig", c.kubeconfig)} {
				for _, want := range tc.want {
					if !strings.Contains(text, want) {
						t.Errorf("it does not say %q: %s", want, text)
					}
				}
				if strings.Contains(text, tc.not) || strings.Contains(text, "c2VjcmV0") {
					t.Errorf("it says %q: %s", tc.not, text)
				}
			}
			file := filepath.Join(t.TempDir(), "world.yaml")
			if err := os.WriteFile(file, []byte(world(tc.stored, tc.operation)), 0o600); err != nil {
				t.Fatal(err)
			}
			if text, want := ask("check", "--snapshot", file), "unseen: certificate of webhook guard/deny.x.io"; !strings.Contains(text, want) {
				t.Errorf("of a snapshot, it does not say %q: %s", want, text)
			}
			secrets = slices.Compact(secrets)
			if want := []string{"/api/v1/namespaces/ops/secrets/guard-tls"}; !slices.Equal(secrets, want) {
				t.Errorf("read %v, want %v", secrets, want)
			}
		})
	}
}
