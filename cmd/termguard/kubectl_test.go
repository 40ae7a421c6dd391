package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/termguard/termguard/internal/race"
	"github.com/termguard/termguard/page"
)

// TestHabits checks that check has the flags that people know from kubectl.
func TestHabits(t *testing.T) {
	race.Skip(t)
	const more = `---
{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: demo, labels: {app: web}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: other, labels: {app: web}}}
`
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":       "{apiVersion: v1, kind: ConfigMap, metadata: {name: plain}}",
		"b.yaml":       "{apiVersion: v1, kind: ConfigMap, metadata: {name: plain}}",
		"deep/c.yaml":  "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}",
		"unknown.json": `{"apiVersion": "x.io/v1", "kind": "Wigdet", "metadata": {"name": "w"}}`,
		// It replaces termguard-render, which is a separate program.
		"bin/termguard-render": "#!/bin/sh\n[ $1 = serve ] && read request && case $request in\n*'\"kustomization\"'*/overlay*) echo '{\"text\": \"{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}\"}' ;;\n*) echo '{\"error\": \"not found\"}' ;;\nesac\n",
	} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(folder, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	in := func(name string) string { return filepath.Join(folder, name) }
	for name, tc := range map[string]struct {
		args    []string
		code    int
		says    []string // on standard output, or error
		never   []string
		request string // is among the requests
	}{
		"Labels":           {[]string{"configmaps", "-l", "app=web", "-o", "wide"}, 0, []string{"configmaps/web -n demo  completes"}, []string{"plain", "-n other"}, "GET /api/v1/namespaces/demo/configmaps?labelSelector=app%3Dweb&limit=1001&timeout=30s"},
		"Everywhere":       {[]string{"cm", "-l", "app=web", "-A", "-o", "wide"}, 0, []string{"configmaps/web -n demo ", "configmaps/web -n other "}, []string{"plain"}, "GET /api/v1/configmaps?labelSelector=app%3Dweb&limit=1001&timeout=30s"},
		"TypeInNamespace":  {[]string{"cm", "-n", "demo", "-o", "wide"}, 0, []string{"configmaps/web -n demo ", "configmaps/plain -n demo "}, []string{"-n other"}, ""},
		"TypeAlone":        {[]string{"cm"}, 2, []string{`"cm" has no name: want TYPE/NAME, as in namespaces/demo; for all of a type, check takes -n NAMESPACE or -A, and delete takes --all`}, nil, ""},
		"Fields":           {[]string{"cm", "--field-selector", "metadata.name=plain", "-o", "wide"}, 0, []string{"configmaps/plain -n demo"}, []string{"/web"}, "GET /api/v1/namespaces/demo/configmaps?fieldSelector=metadata.name%3Dplain&limit=1001&timeout=30s"},
		"NoneSelected":     {[]string{"cm", "-l", "app=db"}, 2, []string{"no cm matches the selection"}, nil, ""},
		"BadSelector":      {[]string{"cm", "-l", "app in web"}, 2, []string{"--selector \"app in web\": "}, nil, ""},
		"Name":             {[]string{"ns/demo", "cm/plain", "-o", "name"}, 1, []string{"namespaces/demo\n"}, []string{"configmaps"}, ""},
		"JSONPath":         {[]string{"ns/demo", "-o", "jsonpath={.verdict}"}, 1, []string{"at-risk"}, []string{"namespaces"}, ""},
		"As":               {[]string{"cm/plain", "--as", "jane", "--as-group", "devs"}, 0, nil, nil, "GET /api/v1/namespaces/demo/configmaps/plain?timeout=30s jane"},
		"Kustomization":    {[]string{"-k", "overlay"}, 0, []string{"nothing blocks configmaps/web -n demo"}, nil, ""},
		"KustomizationBad": {[]string{"-k", "elsewhere"}, 2, []string{"render the kustomization in elsewhere"}, nil, ""},
		"SameObjectTwice":  {[]string{"-f", in("a.yaml"), "-f", in("b.yaml")}, 0, []string{"1 object together: completes", "nothing blocks configmaps/plain -n demo"}, nil, ""},
		"UnknownType":      {[]string{"-f", in("unknown.json"), "-f", in("a.yaml")}, 0, []string{`unknown.json: type "wigdet.x.io" not found`, "nothing blocks configmaps/plain -n demo"}, nil, ""},
		"NotRecursive":     {[]string{"-f", folder}, 0, []string{"configmaps/plain"}, []string{"configmaps/web"}, ""},
		"Recursive":        {[]string{"-f", folder, "-R"}, 0, []string{"configmaps/plain", "configmaps/web"}, nil, ""},
		"Terminating":      {[]string{"--terminating", "-A"}, 0, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t, stuck("a")+more)
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"termguard", "check", "--kubeconfig", c.kubeconfig}, tc.args...), nil, &out, &errs)
			transcript := out.String() + errs.String()
			if code != tc.code {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, transcript)
			}
			for _, want := range tc.says {
				if !strings.Contains(transcript, want) {
					t.Errorf("%q is missing: %s", want, transcript)
				}
			}
			for _, never := range tc.never {
				if strings.Contains(transcript, never) {
					t.Errorf("unwanted %q: %s", never, transcript)
				}
			}
			if tc.request != "" && !slices.Contains(c.requests, tc.request) {
				t.Errorf("no request %s, got %q", tc.request, c.requests)
			}
		})
	}
}

// TestFirstScreen checks that the first 24 lines of 80 columns about 300 objects show the verdict,
// the cause and the first step, and that -o full has every object.
func TestFirstScreen(t *testing.T) {
	race.Skip(t)
	for name, tc := range map[string]struct {
		reason string
		object string // NUMBER and SHARE, one of three, stand for themselves
		args   []string
		want   []string
		most   int // lines
		full   int // objects that -o full names
	}{
		"Namespace": {"one cause in a namespace: the first command is shown, and the long one is last",
			"{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: order-processing-NUMBER, namespace: demo, finalizers: [kiali.io/finalizer]}}",
			[]string{"ns/demo"}, []string{"namespaces/demo: hangs: 300 kialis.kiali.io have finalizer", "order-processing-002 and 297 more", "none of its workloads exists", "1. Reinstall or restart Kiali", "$ kubectl delete namespaces/demo"}, 700, 300},
		"Alike": {"one cause of all that are named",
			"{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: order-processing-NUMBER, namespace: demo, finalizers: [acme.example.com/cleanup]}}",
			[]string{"widgets", "-n", "demo"}, []string{"300 objects together: at-risk: ", "no controller that removes it was found", "299 more like it (-o full has each)", "and 296 more -n demo", "1. Check whether the owner", "2. If the owner of the finalizer will not run again", "(its command is long, and stands last)"}, 700, 300},
		"Causes": {"three causes in a namespace",
			"{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: order-processing-NUMBER, namespace: demo, finalizers: [fSHARE.example.com/x]}}",
			[]string{"ns/demo"}, []string{"namespaces/demo: at-risk: ", "f0.example.com/x", "f1.example.com/x", "f2.example.com/x", "and 97 more", "; 3 possible blockers; first: check whether"}, 700, 300},
		"Own": {"each object has a cause of its own: the others are counted by kind, and the plan is cut",
			"{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: order-processing-NUMBER, namespace: demo, finalizers: [fNUMBER.example.com/x]}}",
			[]string{"widgets", "-n", "demo"}, []string{"300 objects together: at-risk: ", "f000.example.com/x", "; 300 possible blockers; first: check whether", "297 objects more, each for a cause of its own"}, 125, 300},
		"Terminating": {"objects stuck for the same reason are one line, in columns",
			"{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: order-processing-NUMBER, namespace: demo, finalizers: [acme.example.com/cleanup], deletionTimestamp: '2026-01-01T00:00:00Z'}}",
			[]string{"--terminating", "-A"}, []string{"SINCE  VERDICT  OBJECT", "at-risk  widgets.acme.example.com/order-processing-000 -n demo\n", "no controller that removes it was found; 299 more", "to see the blockers and steps: termguard check "}, 24, 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			world := stuck()
			for i := range 300 {
				world += "---\n" + strings.NewReplacer("NUMBER", fmt.Sprintf("%03d", i), "SHARE", strconv.Itoa(i%3)).Replace(tc.object) + "\n"
			}
			c := newFakeCluster(t, world)
			ask := func(more ...string) string {
				var out, errs bytes.Buffer
				if code := run(t.Context(), slices.Concat([]string{"termguard", "check", "--kubeconfig", c.kubeconfig}, tc.args, more), nil, screen{&out, page.Style{Width: 80}}, &errs); code == exitFailed {
					t.Fatalf("%s", &errs)
				}
				return out.String()
			}
			lines := strings.SplitAfter(ask(), "\n")
			first := strings.Join(lines[:min(24, len(lines))], "")
			for _, want := range tc.want {
				if !strings.Contains(strings.Join(strings.Fields(first), " "), strings.Join(strings.Fields(want), " ")) {
					t.Errorf("%s: the first 24 lines lack %q", tc.reason, want)
				}
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.HasPrefix(strings.TrimSpace(line), "$ ") {
					t.Errorf("a line has %d columns: %s", n, line)
				}
			}
			if len(lines) > tc.most {
				t.Errorf("got %d lines, want at most %d", len(lines), tc.most)
			}
			full := ask("-o", "full")
			for i := range tc.full {
				if name := fmt.Sprintf("order-processing-%03d", i); !strings.Contains(full, name) {
					t.Fatalf("-o full does not name %s", name)
				}
			}
			if strings.Contains(full, " more") {
				t.Error("-o full folds lines")
			}
			if t.Failed() {
				t.Log(first)
			}
		})
	}
}

// A table with a line for each object lists all of them.
func TestWideOfMany(t *testing.T) {
	c := newFakeCluster(t, stuck("a", "b", "c", "d", "e", "f", "g"))
	var out, errs bytes.Buffer
	run(t.Context(), []string{"termguard", "check", "widgets", "-n", "demo", "-o", "wide", "--kubeconfig", c.kubeconfig}, nil, &out, &errs)
	if lines := strings.Count(out.String(), "\n"); lines != 8 {
		t.Errorf("-o wide has %d lines, want one for each object and a header: %s%s", lines, &out, &errs)
	}
}

// TestComplete checks completion of types and names, as a shell and as kubectl request it.
func TestComplete(t *testing.T) {
	c := newFakeCluster(t, stuck("alpha", "beta"))
	t.Setenv("KUBECONFIG", c.kubeconfig)
	for name, tc := range map[string]struct {
		program, request string
		want             []string
	}{
		"Types":     {"termguard __complete", "check wid", []string{"widgets.acme.example.com/"}},
		"Names":     {"termguard __complete", "check widgets/al", []string{"widgets/alpha"}},
		"Form":      {"termguard __complete", "check widgets be", []string{"beta"}},
		"Namespace": {"termguard __complete", "check -n other widgets/", []string{"widgets/a"}},
		"Delete":    {"termguard __complete", "delete widgets/b", []string{"widgets/beta"}},
		"Plugin":    {"kubectl_complete-termguard", "check widgets/al", []string{"widgets/alpha"}},
		"Nothing":   {"termguard __complete", "check gadgets/", nil},
		"In":        {"termguard __complete", "check -n de", []string{"demo"}},
		"ScanIn":    {"termguard __complete", "scan --namespace de", []string{"demo"}},
		"Context":   {"termguard __complete", "snapshot --context c", []string{"c"}},
		"Output":    {"termguard __complete", "check -o j", []string{"json"}},
		"Formats":   {"termguard __complete", "lint -o ju", []string{"junit"}},
		"ID":        {"termguard __complete", "policy explain orphaned", []string{"orphaned-finalizer"}},
		"Explain":   {"termguard __complete", "lint --explain orphaned", []string{"orphaned-finalizer"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := append(strings.Fields(tc.program), strings.Fields(tc.request)...)
			if code := run(context.WithoutCancel(t.Context()), args, nil, &out, &errs); code != 0 {
				t.Fatalf("exit code %d: %s", code, &errs)
			}
			var got []string
			for line := range strings.Lines(out.String()) {
				if !strings.HasPrefix(line, ":") {
					got = append(got, strings.TrimSpace(line))
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Flags that several commands have complete in each of them.
func TestFlagsComplete(t *testing.T) {
	count := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, flag := range []string{"namespace", "output", "context", "cascade"} {
			if c.Flags().Lookup(flag) == nil {
				continue
			}
			count++
			if _, ok := c.GetFlagCompletionFunc(flag); !ok {
				t.Errorf("%s --%s does not complete", c.CommandPath(), flag)
			}
		}
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(newRoot("termguard"))
	if count < 20 {
		t.Errorf("checked only %d flags", count)
	}
}

// TestFailOn checks the exit code of a deletion that completes if an owner does its part:
// --fail-on=unproven requires that it was seen to.
func TestFailOn(t *testing.T) {
	c := newFakeCluster(t, orphaned("a")+`---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: kiali-operator, namespace: kiali-operator}, spec: {replicas: 1, template: {spec: {containers: [{name: c, image: quay.io/kiali/kiali-operator:v2.0.0}]}}}, status: {readyReplicas: 1}}
`)
	for args, want := range map[string]int{
		"kiali/a":                             0,
		"kiali/a --fail-on=verdict":           0,
		"kiali/a --fail-on=unproven":          1,
		"kiali/a cm/plain --fail-on=unproven": 1,
		"ns/demo --fail-on=unproven":          1,
		"cm/plain --fail-on=unproven":         0,
		"cm/plain --fail-on=anything":         2,
	} {
		var out, errs bytes.Buffer
		words := append([]string{"termguard", "check", "-n", "demo", "--kubeconfig", c.kubeconfig}, strings.Fields(args)...)
		if code := run(t.Context(), words, nil, &out, &errs); code != want {
			t.Errorf("check %s: exit code %d, want %d: %s%s", args, code, want, &out, &errs)
		}
	}
}

// TestYoungerSiblings checks the doubt about a finalizer that no younger object of the kind has.
func TestYoungerSiblings(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		sibling string // its metadata
		want    bool
	}{
		"Other":   {"its owner may use another finalizer now", "creationTimestamp: '2026-01-02T00:00:00Z', finalizers: [kiali.io/other]", true},
		"Same":    {"near miss: it is still in use", "creationTimestamp: '2026-01-02T00:00:00Z', finalizers: [kiali.io/finalizer]", false},
		"Older":   {"near miss: the other one was used before", "creationTimestamp: '2025-01-01T00:00:00Z', finalizers: [kiali.io/other]", false},
		"Without": {"near miss: finalizers may be added yet", "creationTimestamp: '2026-01-02T00:00:00Z'", false},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(orphaned("a"), "name: a, namespace: demo", "name: a, creationTimestamp: '2026-01-01T00:00:00Z', namespace: demo", 1)
			c := newFakeCluster(t, text+`---
{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: b, namespace: demo, `+tc.sibling+`}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: kiali-operator, namespace: kiali-operator}, spec: {replicas: 1, template: {spec: {containers: [{name: c, image: quay.io/kiali/kiali-operator:v2.0.0}]}}}, status: {readyReplicas: 1}}
`)
			var out, errs bytes.Buffer
			run(t.Context(), []string{"termguard", "check", "kiali/a", "-n", "demo", "--kubeconfig", c.kubeconfig}, nil, &out, &errs)
			if got := strings.Contains(out.String(), "unproven: of 1 younger object with finalizers, none has it"); got != tc.want {
				t.Errorf("%s: %v, want %v: %s%s", tc.reason, got, tc.want, &out, &errs)
			}
		})
	}
}

// TestOneAnswer compares check with check over a snapshot of the same world: the verdict is the
// same, or unknown with the unseen facts.
func TestOneAnswer(t *testing.T) {
	race.Skip(t)
	const aggregated = `
{apiVersion: v1, kind: Namespace, metadata: {name: demo}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: ops}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: v1, kind: Service, metadata: {name: acme, namespace: ops}, spec: {ports: [{port: 443}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: demo}}
---
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.acme.example.com}, spec: {group: acme.example.com, version: v1, service: {namespace: ops, name: acme}}, status: {conditions: [{type: Available, status: "True"}]}}
`
	for name, tc := range map[string]struct {
		reason          string
		world           string
		breaks          func(*fakeCluster)
		target          string
		verdict, cached string
	}{
		"ListsFail": {"an aggregated API whose objects cannot be listed blocks every namespace", aggregated, func(c *fakeCluster) { c.failing = "widgets" }, "ns/demo", "hangs", "hangs"},
		"Held":      {"no controller removes the finalizer", stuck("a"), nil, "ns/demo", "at-risk", "at-risk"},
		"Plain":     {"nothing blocks it", stuck(), nil, "cm/plain", "completes", "completes"},
		"Hidden":    {"Secrets are unseen", stuck(), func(c *fakeCluster) { c.hidden = []string{"secrets"} }, "ns/demo", "unknown", "unknown"},
		"Webhooks":  {"webhooks that may refuse the request are unseen", stuck(), func(c *fakeCluster) { c.hidden = []string{"validatingwebhookconfigurations"} }, "cm/plain", "unknown", "unknown"},
		"Immortal":  {"the API server refuses to delete it", stuck() + "---\n{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}\n", nil, "ns/kube-system", "refused", "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t, tc.world)
			if tc.breaks != nil {
				tc.breaks(c)
			}
			ask := func(args ...string) string {
				t.Helper()
				var out, errs bytes.Buffer
				if code := run(t.Context(), append([]string{"termguard"}, args...), nil, &out, &errs); code == exitFailed {
					t.Fatalf("%v: %s", args, &errs)
				}
				return strings.TrimSpace(out.String())
			}
			if got := ask("check", tc.target, "--kubeconfig", c.kubeconfig, "-o", "jsonpath={.verdict}"); got != tc.verdict {
				t.Errorf("%s: check says %q, want %q", tc.reason, got, tc.verdict)
			}
			file := filepath.Join(t.TempDir(), "facts.json")
			if err := os.WriteFile(file, []byte(ask("snapshot", "--kubeconfig", c.kubeconfig)), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := ask("check", tc.target, "-n", "demo", "--snapshot", file, "-o", "jsonpath={.verdict}"); got != tc.cached {
				t.Errorf("%s: check --snapshot says %q, want %q", tc.reason, got, tc.cached)
			}
		})
	}
}

// TestHabitsElsewhere checks the flags of kubectl on other commands, and the beginning of their
// output.
func TestHabitsElsewhere(t *testing.T) {
	c := newFakeCluster(t, orphaned("a")+`
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: demo, labels: {app: web}}, spec: {containers: [{name: c, image: c}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: demo, labels: {app: web}}, spec: {}}
`)
	for args, tc := range map[string]struct {
		code  int
		says  []string
		never string
	}{
		"check all -n demo -o wide":      {0, []string{"pods/web -n demo ", "services/web -n demo "}, "configmaps"},
		"check all -l app=web -o wide":   {0, []string{"pods/web -n demo ", "services/web -n demo "}, "configmaps"},
		"check cm,all -n demo -o wide":   {0, []string{"pods/web -n demo ", "configmaps/plain -n demo "}, "kialis"},
		"check cm -l  -A":                {2, []string{`--selector "" selects everything`}, ""},
		"check cm --field-selector , -A": {2, []string{`--field-selector "," selects everything`}, ""},
		"scan --namespaces ,":            {2, []string{"--namespaces"}, ""},
		"scan -A --fail-on never":        {0, []string{"kiali.io/finalizer"}, ""},
		"scan -A -n demo":                {2, []string{"all-namespaces namespace"}, ""},
		"scan -o name":                   {1, []string{"namespaces/demo\n", "kialis.kiali.io/a\n"}, "web"},
		"version -o json":                {0, []string{`"version": "`, `"policies": "sha256:`}, "termguard version"},
		"version -o xml":                 {2, []string{`invalid argument "xml" for "-o, --output" flag: want text or json`}, ""},
		"doctor":                         {1, []string{"termguard is not installed in this cluster: "}, "\n."},
	} {
		words := strings.Split(args, " ")
		if words[0] != "version" {
			words = append(words, "--kubeconfig", c.kubeconfig)
		}
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"termguard"}, words...), nil, &out, &errs)
		transcript := out.String() + errs.String()
		for _, want := range tc.says {
			if !strings.Contains(transcript, want) {
				t.Errorf("%s: want %q: %s", args, want, transcript)
			}
		}
		if code != tc.code || tc.never != "" && regexp.MustCompile(tc.never).MatchString(out.String()) {
			t.Errorf("%s: exit code %d, want %d and never %q: %s", args, code, tc.code, tc.never, transcript)
		}
	}
}

// TestOddOutput checks that no output passes terminal control characters of objects on.
func TestOddOutput(t *testing.T) {
	const name = "a\x1b[31m\u202e\u009b"
	c := newFakeCluster(t, strings.ReplaceAll(orphaned("plain"), "name: plain, namespace: demo, finalizers", `name: "a\u001b[31m\u202e\u009b", namespace: demo, finalizers`))
	for _, output := range []string{"jsonpath={.items[*].findings[*].objects[*].name}", "jsonpath={.items[*].findings}", "json", "yaml", "text", "full", "wide"} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"termguard", "check", "ns/demo", "-o", output, "--kubeconfig", c.kubeconfig}, nil, &out, &errs); code != 1 {
			t.Errorf("%s: exit code %d: %s", output, code, &errs)
		}
		if at := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf) }); at >= 0 {
			t.Errorf("%s: terminal control characters %q", output, out.String()[at:min(out.Len(), at+20)])
		}
		var answer struct {
			Items []struct {
				Findings []struct{ Objects []struct{ Name string } }
			}
		}
		if output != "json" {
			continue
		}
		if err := json.Unmarshal(out.Bytes(), &answer); err != nil || answer.Items[0].Findings[0].Objects[0].Name != name {
			t.Errorf("json: %v: %q", err, answer.Items)
		}
	}
}

// TestOptions checks that help of a command lists its own flags; those of the cluster, which
// kubectl has too, are listed once, by termguard options.
func TestOptions(t *testing.T) {
	transcript := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"termguard"}, args...), nil, &out, &errs); code != 0 {
			t.Errorf("%s: exit code %d: %s", args, code, &errs)
		}
		return out.String()
	}
	shared := []string{"--kubeconfig ", "--context ", "--as-uid ", "--insecure-skip-tls-verify", "--request-timeout ", "--quiet", "--ascii"}
	options := transcript("options")
	for _, flag := range shared {
		if !strings.Contains(options, flag) {
			t.Errorf("termguard options lacks %s:\n%s", flag, options)
		}
	}
	for _, command := range []string{"check", "delete", "scan", "watch", "snapshot", "doctor"} {
		help := transcript(command, "--help")
		for _, flag := range shared {
			if strings.Contains(help, flag) {
				t.Errorf("%s --help lists %s", command, flag)
			}
		}
		if !strings.HasSuffix(help, "\nUse \"termguard options\" for the flags that commands share (cluster, user).\n") || !strings.Contains(help, "--output") && command != "watch" && command != "snapshot" {
			t.Errorf("%s --help: %s", command, help)
		}
	}
}
