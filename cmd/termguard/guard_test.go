package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/internal/race"
)

// guarded returns a cluster with termguard installed and a namespace that hangs.
func guarded(t *testing.T) *fakeCluster {
	t.Helper()
	text := read(t, "deploy/base/install.yaml")
	at := strings.Index(text, "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration")
	configuration, _, _ := strings.Cut(text[at:], "\n---\n")
	c := newFakeCluster(t, configuration+`
---
{apiVersion: v1, kind: Namespace, metadata: {name: termguard-system}}
---
{apiVersion: v1, kind: Service, metadata: {name: termguard, namespace: termguard-system}, spec: {clusterIP: 10.0.0.1, selector: {a: b}}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: termguard-1, namespace: termguard-system, labels: {kubernetes.io/service-name: termguard}}, addressType: IPv4, endpoints: [{addresses: [10.1.0.1], conditions: {ready: true}}]}
---
{apiVersion: v1, kind: Namespace, metadata: {name: held, finalizers: [finalizers.kubesphere.io/namespaces]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: held}}
`)
	c.user = "ada"
	return c
}

// TestGuard checks that the answer names the webhook, and says what it would do only if the webhook
// was asked.
func TestGuard(t *testing.T) {
	race.Skip(t)
	const (
		held   = "{apiVersion: v1, kind: Namespace, metadata: {name: held, finalizers: [finalizers.kubesphere.io/namespaces], %}}"
		unsent = "--dry-run-deletes sends it a dry run, if you may delete the object"
		line   = "\nunseen: the answer of the webhook in this cluster: "
	)
	for name, tc := range map[string]struct {
		reason string
		args   []string
		change func(*fakeCluster)
		want   *answer.Guard
		line   string
	}{
		"There":     {"it was not queried", []string{"namespace/held"}, nil, &answer.Guard{Answer: answer.Unknown, Why: unsent}, line + unsent + "\n"},
		"Completes": {"the deletion completes, so there is nothing to add", []string{"configmap/plain", "-n", "held"}, nil, &answer.Guard{Answer: answer.Unknown, Why: unsent}, ""},
		"Absent": {"no webhook is installed", []string{"namespace/held"}, func(c *fakeCluster) {
			delete(c.objects, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/termguard")
		}, nil, ""},
		"Hidden": {"webhooks cannot be listed", []string{"namespace/held"}, func(c *fakeCluster) { c.hidden = []string{"validatingwebhookconfigurations"} },
			&answer.Guard{Answer: answer.Unknown, Why: "you may not read whether there is one; " + unsent}, line + "you may not read whether there is one; " + unsent + "\n"},
		"Terminating": {"it has answered", []string{"namespace/held"}, func(c *fakeCluster) {
			c.apply(strings.ReplaceAll(held, "%", `deletionTimestamp: "2026-01-01T00:00:00Z"`))
		}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := guarded(t)
			if tc.change != nil {
				tc.change(c)
			}
			runs := func(command string, more ...string) string {
				var out, errs bytes.Buffer
				if code := run(t.Context(), slices.Concat([]string{"termguard", command, "--kubeconfig", c.kubeconfig}, tc.args, more), nil, &out, &errs); code > exitFindings {
					t.Fatalf("%s%s", &out, &errs)
				}
				return out.String()
			}
			var report answer.Answer
			if err := json.Unmarshal([]byte(runs("check", "-o", "json")), &report); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, report.Items[0].Guard); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			for _, text := range []string{runs("check"), runs("delete", "--dry-run")} { // by the same answer
				if !strings.Contains(text, tc.line) || tc.line == "" && strings.Contains(text, "guard") {
					t.Errorf("%s: %q is missing from\n%s", tc.reason, tc.line, text)
				}
			}
		})
	}
}
