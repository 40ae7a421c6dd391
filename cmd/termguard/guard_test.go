package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/check"
)

// guarded is a cluster in which termguard is installed, with a namespace that hangs.
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

// TestGuard asks what the webhook of a cluster would do. TestTutorial holds the same answers to
// what a real one does.
func TestGuard(t *testing.T) {
	const (
		held      = "{apiVersion: v1, kind: Namespace, metadata: {name: held, finalizers: [finalizers.kubesphere.io/namespaces], %}}"
		deny      = `labels: {termguard.dev/enforce: deny}`
		excused   = `annotations: {termguard.dev/allow-hang: we know}`
		orphaned  = "orphaned-finalizer"
		cm        = "ConfigMap termguard-system/termguard-config"
		terminate = `deletionTimestamp: "2026-01-01T00:00:00Z"`
	)
	configured := func(text string) string {
		return "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: termguard-config, namespace: termguard-system}, data: {config.yaml: '{apiVersion: termguard.dev/v1, kind: Config, " + text + "}'}}"
	}
	with := func(more string) string { return strings.ReplaceAll(held, "%", more) }
	change := func(old, now string) func(*fakeCluster) {
		return func(c *fakeCluster) {
			const at = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/termguard"
			text, err := json.Marshal(c.objects[at])
			if err != nil || !bytes.Contains(text, []byte(old)) {
				c.t.Fatalf("no %s in %s: %v", old, text, err)
			}
			var changed map[string]any
			if err := json.Unmarshal(bytes.ReplaceAll(text, []byte(old), []byte(now)), &changed); err != nil {
				c.t.Fatal(err)
			}
			c.objects[at] = changed
		}
	}
	for name, tc := range map[string]struct {
		reason, world string
		about         string // namespace/held unless told
		change        func(*fakeCluster)
		want          check.Guard
	}{
		"Default":       {reason: "It warns where nobody said more.", want: check.Guard{Answer: check.Warns, Policies: []string{orphaned}}},
		"Label":         {reason: "The label of the namespace has it refuse.", world: with(deny), want: check.Guard{Answer: check.Refuses, Policies: []string{orphaned}, Why: orphaned + " is set to deny by label termguard.dev/enforce=deny of its namespace"}},
		"Configuration": {reason: "So does the configuration.", world: configured("enforcement: {default: deny}"), want: check.Guard{Answer: check.Refuses, Policies: []string{orphaned}, Why: orphaned + " is set to deny by " + cm}},
		"Looser":        {reason: "The label may say less.", world: with("labels: {termguard.dev/enforce: warn}") + configured("enforcement: {default: deny}"), want: check.Guard{Answer: check.Warns, Policies: []string{orphaned}, Why: "termguard.dev/enforce=warn"}},
		"NotLooser":     {reason: "Unless the configuration says that it may not.", world: with("labels: {termguard.dev/enforce: warn}") + configured("enforcement: {default: deny, allowLooser: false}"), want: check.Guard{Answer: check.Refuses, Policies: []string{orphaned}, Why: orphaned + " is set to deny by " + cm}},
		"Silent":        {reason: "What is only recorded is not said.", world: with("labels: {termguard.dev/enforce: dryrun}"), want: check.Guard{Answer: check.Allows, Why: "termguard.dev/enforce=dryrun"}},
		"Demoted":       {reason: "What it learned cannot be seen.", world: configured("enforcement: {default: deny}, selfGrading: demote"), want: check.Guard{Answer: check.Refuses, Policies: []string{orphaned}, Why: orphaned + " is set to deny by " + cm + ", unless it was wrong here (selfGrading: demote)"}},
		"Excused":       {reason: "A reason on the object lets it through.", world: with(deny + ", " + excused), want: check.Guard{Answer: check.Warns, Policies: []string{orphaned}, Why: `annotation termguard.dev/allow-hang says "we know"`}},
		"NotExcused":    {reason: "But not where annotations do not count.", world: with(deny+", "+excused) + configured("trustAnnotations: {namespaces: [other]}"), want: check.Guard{Answer: check.Refuses, Policies: []string{orphaned}, Why: orphaned + " is set to deny by label termguard.dev/enforce=deny of its namespace"}},
		"Uncertain":     {reason: "What only may hang is not refused.", world: with(deny) + "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: finalized, namespace: held, finalizers: [acme.example.com/none]}}", about: "configmap/finalized", want: check.Guard{Answer: check.Warns, Policies: []string{orphaned}, Why: "it refuses only what is certain"}},
		"Plain":         {reason: "What cannot hang is not asked about.", about: "configmap/plain", want: check.Guard{Answer: check.Unasked, Why: "its webhook configuration leaves such a request out"}},
		"Terminating":   {reason: "What is being deleted is not asked about again.", world: with(deny + ", " + terminate), want: check.Guard{Answer: check.Unasked, Why: "it is being deleted already"}},
		"Down": {reason: "Nobody answers, and the API server goes on.", world: with(deny), change: func(c *fakeCluster) {
			delete(c.objects, "/apis/discovery.k8s.io/v1/namespaces/termguard-system/endpointslices/termguard-1")
		}, want: check.Guard{Answer: check.Allows, Why: "nobody answers for it: Service termguard-system/termguard has no ready endpoint"}},
		"DownAndClosed": {reason: "Or it does not.", change: func(c *fakeCluster) {
			change(`"failurePolicy":"Ignore"`, `"failurePolicy":"Fail"`)(c)
			delete(c.objects, "/apis/discovery.k8s.io/v1/namespaces/termguard-system/endpointslices/termguard-1")
		}, want: check.Guard{Answer: check.Refuses, Why: "nobody answers for it, and its failurePolicy is Fail: Service termguard-system/termguard has no ready endpoint"}},
		"Exempt": {reason: "Its selector leaves namespaces out.", change: change(`"failurePolicy":"Ignore"`, `"failurePolicy":"Fail","namespaceSelector":{"matchExpressions":[{"key":"a","operator":"Exists"}]}`), want: check.Guard{Answer: check.Unasked, Why: "its webhook configuration leaves such a request out"}},
		"Absent": {reason: "Nobody is asked where it is not installed.", change: func(c *fakeCluster) {
			delete(c.objects, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/termguard")
		}, want: check.Guard{Answer: check.Absent}},
		"Elsewhere":      {reason: "Its configuration is looked for in one place.", change: change(`"namespace":"termguard-system"`, `"namespace":"default"`), want: check.Guard{Answer: check.Allows, Why: "nobody answers for it: Service default/termguard does not exist"}},
		"HiddenHooks":    {reason: "Whether it is asked is not known.", world: with(deny), change: func(c *fakeCluster) { c.hidden = []string{"validatingwebhookconfigurations"} }, want: check.Guard{Answer: check.Unknown, Why: "you may not read its webhook configuration (list validatingwebhookconfigurations.admissionregistration.k8s.io)"}},
		"HiddenSettings": {reason: "What it goes by is not known.", change: func(c *fakeCluster) { c.hidden = []string{"configmaps"} }, want: check.Guard{Answer: check.Unknown, Why: "you may not read its configuration (get and list configmaps -n termguard-system)"}},
		"Wrong":          {reason: "A configuration that it does not take is not in force.", world: configured("enforcement: {default: never}"), want: check.Guard{Answer: check.Unknown, Why: "its configuration is not accepted, and what it goes by in its place cannot be seen"}},
		"Nobody":         {reason: "Who asks is not known, and it makes a difference.", change: func(c *fakeCluster) { c.user = "" }, want: check.Guard{Answer: check.Unknown, Why: "who you are, or what the object is, could not be read, and its webhook configuration depends on it"}},
		"Unseen":         {reason: "It may see what this user may not, and refuse for that.", world: "{apiVersion: v1, kind: Namespace, metadata: {name: held, " + deny + "}}", change: func(c *fakeCluster) { c.hidden = []string{"widgets"} }, want: check.Guard{Answer: check.Unknown, Why: "policies are set to deny by label termguard.dev/enforce=deny of its namespace, and it may see what you may not"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := guarded(t)
			c.apply(strings.TrimPrefix(tc.world, "\n---\n"))
			if tc.change != nil {
				tc.change(c)
			}
			about := "namespace/held"
			if tc.about != "" {
				about = tc.about
			}
			var out, errs bytes.Buffer
			run(t.Context(), []string{"termguard", "check", about, "-n", "held", "-o", "json", "--kubeconfig", c.kubeconfig}, nil, &out, &errs)
			var report check.Report
			if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Guard == nil {
				t.Fatalf("%v\n%s%s", err, &out, &errs)
			}
			if diff := cmp.Diff(tc.want, *report.Guard); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// People are told on a line of its own, and not where the question is another one.
func TestGuardInText(t *testing.T) {
	c := guarded(t)
	c.apply("{apiVersion: v1, kind: Namespace, metadata: {name: held, finalizers: [finalizers.kubesphere.io/namespaces], labels: {termguard.dev/enforce: deny}}}")
	asked := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"termguard", "check", "--kubeconfig", c.kubeconfig}, args...), nil, &out, &errs); code > exitFound {
			t.Fatalf("%s%s", &out, &errs)
		}
		return out.String()
	}
	const line = "\nthe guard in this cluster would refuse it: orphaned-finalizer is set to deny by label termguard.dev/enforce=deny of its namespace\n"
	if got := asked("namespace/held"); !strings.Contains(got, line) {
		t.Errorf("want %q in\n%s", line, got)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: termguard.dev/v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for reason, args := range map[string][]string{
		"another configuration is asked about": {"namespace/held", "--config", file},
		"there is nothing to add":              {"configmap/plain", "-n", "held"},
		"it is no deletion":                    {"namespace/held", "pod/none", "-n", "held"},
	} {
		if got := asked(args...); strings.Contains(got, "guard") {
			t.Errorf("%s:\n%s", reason, got)
		}
	}
}
