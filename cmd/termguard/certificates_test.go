package main

import (
	"bytes"
	"cmp"
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

// TestCertificates checks that every command verifies the certificate of a webhook that fails closed by the Secret
// that its pods mount, or that its Certificate names; reads no other Secret, and says if it may not.
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
	world := func(stored, operation, injected string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: demo, labels: {kubernetes.io/metadata.name: demo}}}
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
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: guard, annotations: {cert-manager.io/inject-ca-from: %s}}, webhooks: [{name: deny.x.io, clientConfig: {service: {namespace: ops, name: guard}, caBundle: %s}, rules: [{operations: [%s], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: demo}}}]}
`, stored, injected, old, operation)
	}
	const vouches = "is not trusted by caBundle: Secret ops/guard-tls, "
	for name, tc := range map[string]struct {
		stored    string
		operation string
		injected  string // instead of a mounted Secret
		hidden    []string
		args      string // after check; of another command otherwise
		want      []string
		not       string
	}{
		"Fits":              {stored: old, want: []string{"configmaps/it -n demo: at-risk"}, not: "unseen"},
		"Update":            {stored: renewed, operation: "UPDATE", want: []string{"configmaps/it -n demo: hangs", vouches + "which its pods mount"}, not: "unseen: certificate"},
		"Renewed":           {stored: renewed, want: []string{"configmaps/it -n demo: refused", vouches + "which its pods mount"}, not: "unseen: certificate"},
		"Hidden":            {stored: renewed, hidden: []string{"secrets"}, want: []string{"configmaps/it -n demo: at-risk", "unseen: certificate of webhook guard/deny.x.io: forbidden"}, not: "vouch"},
		"Injected":          {stored: renewed, injected: "ops/guard", want: []string{"configmaps/it -n demo: refused", vouches + "the source for cert-manager.io/inject-ca-from"}, not: "unseen: certificate"},
		"InjectedFit":       {stored: old, injected: "ops/guard", want: []string{"configmaps/it -n demo: at-risk"}, not: "unseen"},
		"Namespace":         {stored: renewed, args: "check ns/demo", want: []string{"will hang: webhook guard/deny.x.io fails closed", vouches}, not: "unseen: certificate"},
		"Delete":            {stored: renewed, args: "delete cm/it -n demo --dry-run", want: []string{"configmaps/it -n demo: refused", vouches}, not: "unseen: certificate"},
		"DeleteHidden":      {stored: renewed, hidden: []string{"secrets"}, args: "delete cm/it -n demo --dry-run", want: []string{"unseen: certificate of webhook guard/deny.x.io: forbidden"}, not: "vouch"},
		"Dump":              {stored: renewed, args: "check cm/it -n demo --snapshot DUMP", want: []string{"unseen: certificate of webhook guard/deny.x.io: not in the snapshot"}, not: "vouch"},
		"NamespaceHidden":   {stored: renewed, hidden: []string{"secrets"}, args: "check ns/demo", want: []string{"unseen: certificate of webhook guard/deny.x.io: forbidden"}, not: "vouch"},
		"Scan":              {stored: renewed, args: "scan --all", want: []string{"webhook guard/deny.x.io fails closed and its caBundle does not match", vouches}, not: "not checked"},
		"ScanHidden":        {stored: renewed, hidden: []string{"secrets"}, args: "scan --all", want: []string{"certificate of webhook guard/deny.x.io: forbidden"}, not: "vouch"},
		"Terminating":       {stored: renewed, operation: "UPDATE", args: "check --terminating -o json", want: []string{vouches}, not: "unseen: certificate"},
		"TerminatingHidden": {stored: renewed, operation: "UPDATE", hidden: []string{"secrets"}, args: "check --terminating", want: []string{"unseen: certificate of webhook guard/deny.x.io: forbidden"}, not: "vouch"},
		"Snapshot":          {stored: renewed, injected: "ops/guard", args: "snapshot", want: []string{`"why":"Secret ops/guard-tls, the source for cert-manager.io/inject-ca-from`}, not: "tls.crt"},
		"SnapshotFits":      {stored: old, args: "snapshot", want: []string{`"kind":"Distrust","address":"10.96.0.50:443"}`}, not: "vouch"},
	} {
		t.Run(name, func(t *testing.T) {
			text := world(tc.stored, cmp.Or(tc.operation, "DELETE"), cmp.Or(tc.injected, "''"))
			if tc.injected != "" {
				text = strings.Replace(text, "volumes: [{name: tls, secret: {secretName: guard-tls}}]", "volumes: []", 1)
			}
			if strings.HasPrefix(name, "Terminating") {
				text = strings.Replace(text, "finalizers: [x.io/f]", "deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [x.io/f]", 1)
			}
			c := newFakeCluster(t, text)
			if tc.injected != "" {
				c.kinds["/apis/cert-manager.io/v1/certificates"] = strings.Fields("cert-manager.io/v1 certificates Certificate -")
				c.apply("{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: guard, namespace: ops}, spec: {secretName: guard-tls}}")
			}
			c.hidden = tc.hidden
			var secrets []string
			c.arrived = func(r *http.Request) {
				if strings.Contains(r.URL.Path, "/secrets/") {
					c.mu.Lock()
					defer c.mu.Unlock()
					secrets = append(secrets, r.URL.Path)
				}
			}
			line, reads := cmp.Or(tc.args, "check cm/it -n demo"), []string{"/api/v1/namespaces/ops/secrets/guard-tls"}
			if command, of, is := strings.Cut(line, "DUMP"); is {
				file := filepath.Join(t.TempDir(), "world.yaml")
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				line, reads = command+file+of, nil
			} else {
				line += " --kubeconfig " + c.kubeconfig
			}
			var out, errs bytes.Buffer
			if code := run(t.Context(), append([]string{"termguard"}, strings.Fields(line)...), nil, &out, &errs); code > exitFindings {
				t.Errorf("exit code %d: %s", code, &errs)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("it does not say %q: %s%s", want, &out, &errs)
				}
			}
			if strings.Contains(out.String(), tc.not) || strings.Contains(out.String(), "c2VjcmV0") {
				t.Errorf("it says %q: %s", tc.not, &out)
			}
			if !slices.Equal(secrets, reads) {
				t.Errorf("read %v, want %v", secrets, reads)
			}
		})
	}
}
