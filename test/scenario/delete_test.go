package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/internal/typing"
)

func deletions(t *testing.T, g *Guarded) {
	const world = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.delete.test}
spec:
  group: delete.test
  scope: Namespaced
  names: {kind: Gizmo, plural: gizmos, singular: gizmo}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
{apiVersion: v1, kind: Namespace, metadata: {name: gizmo-system}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: gizmo, namespace: gizmo-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gizmo}
rules: [{apiGroups: [delete.test], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: gizmo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gizmo}
subjects: [{kind: ServiceAccount, name: gizmo, namespace: gizmo-system}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: gizmo, namespace: gizmo-system}
spec:
  selector: {matchLabels: {app: gizmo}}
  template:
    metadata: {labels: {app: gizmo}}
    spec: {serviceAccountName: gizmo, nodeName: steady, containers: [{name: gizmo, image: gizmo}]}
---
{apiVersion: v1, kind: Namespace, metadata: {name: delete-stuck}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: delete-anew}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: delete-anew}}
`
	const gizmos = `
{apiVersion: delete.test/v1, kind: Gizmo, metadata: {name: a, namespace: delete-stuck, finalizers: [delete.test/cleanup]}}
---
{apiVersion: delete.test/v1, kind: Gizmo, metadata: {name: b, namespace: delete-anew, finalizers: [delete.test/cleanup]}}
`
	ctx := t.Context()
	kubectl := func(args string) string {
		t.Helper()
		r, err := g.Kubectl(ctx, Words(args)...)
		if err != nil || r.Code != 0 {
			t.Fatalf("kubectl %s: %v: %s", args, err, r.Stderr)
		}
		return r.Stdout
	}
	if err := g.Create(ctx, world); err != nil {
		t.Fatal(err)
	}
	if err := g.Create(ctx, gizmos); err != nil {
		t.Fatal(err)
	}
	kubectl("wait deployment/gizmo -n gizmo-system --for=condition=Available --timeout=60s")
	resource := schema.GroupVersionResource{Group: "delete.test", Version: "v1", Resource: "gizmos"}
	if err := g.Controller(ctx, "gizmo-system", "gizmo", "delete.test/cleanup", resource); err != nil {
		t.Fatal(err)
	}
	// A canary shows that its controller removes finalizers while its pod runs.
	if err := g.Create(ctx, `{apiVersion: delete.test/v1, kind: Gizmo, metadata: {name: canary, namespace: delete-anew, finalizers: [delete.test/cleanup]}}`); err != nil {
		t.Fatal(err)
	}
	kubectl("delete gizmo/canary -n delete-anew --timeout=60s")
	kubectl("scale deployment/gizmo -n gizmo-system --replicas=0")
	kubectl("wait pods -l app=gizmo -n gizmo-system --for=delete --timeout=60s")

	d := g.delete(t, "gizmo/b", "-n", "delete-anew")
	d.asks(t, "[y/N]")
	d.interrupt(t, "interrupted: nothing was changed")
	if has := kubectl("get deployment/gizmo -n gizmo-system -o jsonpath={.spec.replicas}"); has != "0" {
		t.Errorf("interrupted at the first question, it scaled the operator to %s", has)
	}

	d = g.delete(t, "gizmo/b", "-n", "delete-anew")
	d.asks(t, "[y/N]") // to scale the operator up
	d.answer(t, "n")
	d.asks(t, "[y/N]") // to remove the finalizer
	kubectl(`patch gizmo/b -n delete-anew --type=merge -p '{"metadata":{"finalizers":null}}'`)
	kubectl("delete gizmo/b -n delete-anew")
	_, anew, _ := strings.Cut(gizmos, "---\n")
	if err := g.Create(ctx, anew); err != nil {
		t.Fatal(err)
	}
	d.answer(t, "y")
	d.ends(t, 2)
	if says := d.stderr.String(); !strings.Contains(says, "was recreated: the new one is left alone, and the run ends") {
		t.Errorf("output about the recreated object: %q", says)
	}
	if has := kubectl("get gizmo/b -n delete-anew -o jsonpath={.metadata.finalizers[0]}{.metadata.deletionTimestamp}"); has != "delete.test/cleanup" {
		t.Errorf("the recreated object is left with %q", has)
	}

	d = g.delete(t, "gizmo/b", "-n", "delete-anew")
	d.asks(t, "[y/N]")
	d.answer(t, "n")
	d.asks(t, "[y/N]")
	d.answer(t, "n")
	d.asks(t, "all the same?")
	d.asks(t, "[y/N]")
	d.answer(t, "y")
	d.asks(t, "deletion requested: ")
	d.interrupt(t, "interrupted: done until then: deletion of gizmos.delete.test/b -n delete-anew; left: gizmos.delete.test/b -n delete-anew; run the same command again to go on")

	// One command frees a namespace that hangs already, and deletes no other objects.
	kubectl("delete namespace delete-stuck --wait=false")
	err := g.Await(ctx, time.Minute, "the namespace to hang", func(ctx context.Context) (bool, error) {
		r, err := g.Kubectl(ctx, "get", "gizmo/a", "-n", "delete-stuck", "-o", "jsonpath={.metadata.deletionTimestamp}")
		return r.Stdout != "", err
	})
	if err != nil {
		t.Fatal(err)
	}
	d = g.delete(t, "namespace/delete-stuck", "--yes", "--allow=restore")
	d.ends(t, 0)
	t.Logf("\n%s", d.said())
	for _, want := range []string{"namespaces/delete-stuck: hangs (Terminating for ", "; run: kubectl scale deployments.apps/gizmo -n gizmo-system --replicas=1\n", "done: deployments.apps/gizmo -n gizmo-system\n", "deleted: namespaces/delete-stuck\n"} {
		if !strings.Contains(d.said(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if r, err := g.Kubectl(ctx, "get", "namespace/delete-stuck", "--ignore-not-found", "-o", "name"); err != nil || r.Stdout != "" {
		t.Errorf("the namespace still exists: %v %s", err, r.Stdout)
	}
	kubectl("get configmap/plain -n delete-anew")
}

type deletion struct {
	cmd    *exec.Cmd
	keys   *os.File
	stderr bytes.Buffer
	done   chan error

	mu   sync.Mutex
	out  bytes.Buffer
	seen int
	more chan struct{}
}

func (d *deletion) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case d.more <- struct{}{}:
	default:
	}
	return d.out.Write(text)
}

func (d *deletion) said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.String()
}

func (g *Guarded) delete(t *testing.T, args ...string) *deletion {
	t.Helper()
	return begun(t, append([]string{"delete", "--kubeconfig", g.Kubeconfig()}, args...)...)
}

func begun(t *testing.T, args ...string) *deletion {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	d := &deletion{done: make(chan error, 1), more: make(chan struct{}, 1)}
	d.cmd = exec.CommandContext(t.Context(), binary, args...)
	d.cmd.Stdout, d.cmd.Stderr = d, &d.stderr
	terminal, keys, err := typing.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close(); keys.Close() })
	d.cmd.Stdin, d.keys = terminal, keys
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.done <- d.cmd.Wait() }()
	return d
}

// asks waits until the command prints what, after its earlier output.
func (d *deletion) asks(t *testing.T, what string) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		said := d.said()
		if at := strings.Index(said[d.seen:], what); at >= 0 {
			d.seen += at + len(what)
			return
		}
		select {
		case <-d.more:
		case err := <-d.done:
			t.Fatalf("the command ended (%v) before it printed %q:\n%s%s", err, what, d.said(), &d.stderr)
		case <-limit:
			t.Fatalf("it does not say %q:\n%s", what, said)
		}
	}
}

func (d *deletion) answer(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(d.keys, line); err != nil {
		t.Fatal(err)
	}
}

func (d *deletion) interrupt(t *testing.T, says string) {
	t.Helper()
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	d.ends(t, 2)
	if !strings.Contains(d.stderr.String(), says) {
		t.Errorf("after the interrupt: got %q, want %q", &d.stderr, says)
	}
}

func (d *deletion) ends(t *testing.T, code int) {
	t.Helper()
	select {
	case err := <-d.done:
		var exit *exec.ExitError
		errors.As(err, &exit)
		if got := d.cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("exit code %d, want %d:\n%s%s", got, code, d.said(), &d.stderr)
		}
	case <-time.After(3 * time.Minute):
		t.Fatalf("it does not end:\n%s", d.said())
	}
}
