package main

import (
	"bytes"
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// watchWorld is a namespace that is Terminating, and its blocker: a finalizer whose owner is not
// installed.
const watchWorld = `
{apiVersion: v1, kind: Namespace, metadata: {name: demo, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {finalizers: [kubernetes]}, status: {phase: Terminating}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: kialis.kiali.io}, spec: {group: kiali.io, scope: Namespaced, names: {kind: Kiali, plural: kialis}, versions: [{name: v1alpha1, served: true, storage: true}]}, status: {conditions: [{type: Established, status: "True"}], storedVersions: [v1alpha1]}}
---
{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: a, namespace: demo, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [kiali.io/finalizer]}}
---
{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: a, namespace: other, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [kiali.io/finalizer]}}
`

const kialiOfDemo = "/apis/kiali.io/v1alpha1/namespaces/demo/kialis/a"

// free removes the finalizers of an object.
func (c *fakeCluster) free(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object := c.objects[path]; object != nil {
		delete(object["metadata"].(map[string]any), "finalizers")
		c.settle(path, object)
	}
}

// TestWatch checks that Terminating objects are shown, and that watch ends once they are deleted.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason  string
		args    []string
		code    int
		want    []string
		without string
	}{
		"Namespace":  {"the namespace and its objects", []string{"watch", "-n", "demo"}, 0, []string{"kialis.kiali.io/a -n demo, Terminating for ", ": hangs: ", "namespaces/demo, Terminating", "kialis.kiali.io/a -n demo: deleted\n", "namespaces/demo: deleted\n", "no Terminating objects in namespace demo; other namespaces were not checked (all: termguard check --terminating -A)\n"}, "-n other"},
		"Object":     {"a namespace", []string{"watch", "ns/demo"}, 0, []string{"kialis.kiali.io/a -n demo, Terminating for ", "deleted: ns/demo\n"}, "-n other"},
		"Custom":     {"an object in a namespace", []string{"watch", "kiali/a"}, 0, []string{"kialis.kiali.io/a -n demo, Terminating for ", "deleted: kiali/a\n"}, "namespaces/demo"},
		"Cluster":    {"an object is left at the timeout", []string{"watch", "--timeout", "30s"}, 1, []string{"kialis.kiali.io/a -n other, Terminating for ", "kialis.kiali.io/a -n demo: deleted\n", "to see the blockers and steps: termguard check kialis.kiali.io/a -n other\n"}, "no Terminating objects"},
		"NotDeleted": {"an object that is not Terminating", []string{"watch", "ns/other"}, 2, []string{"namespaces/other is not Terminating: termguard check ns/other shows whether its deletion would finish"}, "gone"},
		"NeverThere": {"an object that does not exist", []string{"watch", "ns/dema"}, 0, []string{`namespaces/dema not found; did you mean "demo"?`}, "gone"},
		"NoType":     {"an unknown type", []string{"watch", "gizmos/a"}, 2, []string{`type "gizmos" not found`}, "gone"},
		"NoName":     {"a name is required", []string{"watch", "pods"}, 2, []string{`"pods" has no name`}, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for its next look
			c := newFakeCluster(t, watchWorld)
			out := &output{on: func(transcript string) {
				if strings.Contains(transcript, "-n demo, Terminating") {
					c.free(kialiOfDemo)
				}
			}}
			var errs bytes.Buffer
			code := run(t.Context(), append([]string{"termguard", tc.args[0], "--kubeconfig", c.kubeconfig}, tc.args[1:]...), nil, out, &errs)
			transcript := out.text.String() + errs.String()
			if name == "Object" {
				watchDocumented(t, transcript)
			}
			for _, want := range tc.want {
				if !strings.Contains(transcript, want) {
					t.Errorf("%s: %q is missing", tc.reason, want)
				}
			}
			if code != tc.code || strings.Contains(transcript, tc.without) {
				t.Errorf("%s: exit code %d, want %d, and nothing of %q:\n%s", tc.reason, code, tc.code, tc.without, transcript)
			}
		})
	}
}

var ago = regexp.MustCompile(`[^ ]+Z |Terminating for \w+`) // times

// watchDocumented compares docs/watch.md with the output.
func watchDocumented(t *testing.T, transcript string) {
	t.Helper()
	_, shown, _ := strings.Cut(read(t, "docs/watch.md"), "$ termguard watch ns/demo\n")
	shown, _, _ = strings.Cut(shown, "```")
	if ago.ReplaceAllString(shown, "") != ago.ReplaceAllString(transcript, "") {
		t.Errorf("docs/watch.md shows\n%s\nbut got\n%s", shown, transcript)
	}
}

// TestWatchInterrupted checks that an interrupted watch shows the objects left.
func TestWatchInterrupted(t *testing.T) {
	c := newFakeCluster(t, watchWorld)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &output{on: func(transcript string) {
		if strings.Contains(transcript, "namespaces/demo, Terminating") {
			cancel()
		}
	}}
	var errs bytes.Buffer
	code := run(ctx, []string{"termguard", "watch", "-n", "demo", "--kubeconfig", c.kubeconfig}, nil, out, &errs)
	_, left, _ := strings.Cut(out.text.String(), "SINCE")
	if code != 1 || !strings.Contains(left, "namespaces/demo") || !strings.Contains(left, "kialis.kiali.io/a -n demo") {
		t.Errorf("exit code %d: %s%s", code, &out.text, &errs)
	}
}

// TestWatchNoAnswer checks that watch names an API that never answers, and shows the rest.
func TestWatchNoAnswer(t *testing.T) {
	t.Parallel() // it waits for no answer
	c := newFakeCluster(t, watchWorld)
	c.arrived = func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/widgets") {
			<-r.Context().Done()
		}
	}
	out := &output{on: func(transcript string) {
		if strings.Contains(transcript, "-n demo, Terminating") {
			c.free(kialiOfDemo)
		}
	}}
	var errs bytes.Buffer
	code := run(t.Context(), []string{"termguard", "watch", "-n", "demo", "--request-timeout", "1s", "--kubeconfig", c.kubeconfig}, nil, out, &errs)
	for _, want := range []string{"kialis.kiali.io/a -n demo: deleted\n", "unseen: widgets.acme.example.com: error\n", "unseen: widgets.acme.example.com: error\n"} {
		if transcript := out.text.String() + errs.String(); !strings.Contains(transcript, want) || code != 2 {
			t.Errorf("exit code %d, want 2, and %q: %s", code, want, transcript)
		}
	}
}

// TestWatchTerminal checks that watch writes lines on a terminal, no wider than it, and moves no
// cursor.
func TestWatchTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	c := newFakeCluster(t, watchWorld)
	text, errs := onTerminal(t, 80, nil, "watch", "ns/demo", "--timeout", "3s", "--kubeconfig", c.kubeconfig)
	if want := "kialis.kiali.io/a -n demo, Terminating for "; !strings.Contains(text, want) || strings.Contains(text, "\x1b") {
		t.Errorf("want %q and no escapes, got %q %s", want, text, errs)
	}
}

// TestDeleteShows checks that a deletion in progress shows what is left and what it waits for.
func TestDeleteShows(t *testing.T) {
	c := newFakeCluster(t, `
{apiVersion: v1, kind: Namespace, metadata: {name: demo}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: demo, finalizers: [kubernetes.io/pvc-protection]}, status: {phase: Pending}}
`)
	out := &output{on: func(transcript string) {
		if strings.Contains(transcript, "persistentvolumeclaims/data -n demo, Terminating for ") {
			c.free(demo + "/persistentvolumeclaims/data")
		}
	}}
	var errs bytes.Buffer
	d := deleteFlags{glance: 0} // it looks again at once
	command := d.command()
	command.SetArgs([]string{"ns/demo", "--yes", "--timeout", "1m", "--kubeconfig", c.kubeconfig})
	command.SetOut(out)
	command.SetErr(&errs)
	err := command.ExecuteContext(t.Context())
	if transcript := out.text.String(); err != nil || !strings.Contains(transcript, "namespaces/demo, Terminating for ") || !strings.Contains(transcript, "deleted: namespaces/demo\n") {
		t.Errorf("%v: %s%s", err, transcript, &errs)
	}
}
