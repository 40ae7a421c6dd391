package scenario

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/test/lab"
)

func TestWatched(t *testing.T) {
	lab.Long(t)
	l, err := lab.Start(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	ctx := t.Context()
	kubectl := func(args string) string { t.Helper(); return kubectlIn(t, l, args) }
	for _, name := range []string{"watched", "beside"} {
		if err := l.Apply(ctx, strings.ReplaceAll(`
{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: NAME, finalizers: [actions.summerwind.dev/runner-pod]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: NAME}}
`, "NAME", name)); err != nil {
			t.Fatal(err)
		}
		kubectl("delete namespace " + name + " --wait=false")
	}
	if err := l.Await(ctx, time.Minute, "what is in them to be deleted", func(ctx context.Context) (bool, error) {
		r, err := l.Kubectl(ctx, "get", "configmap", "-A", "-o", "jsonpath={.items[?(@.metadata.deletionTimestamp)].metadata.namespace}")
		return len(strings.Fields(r.Stdout)) == 2, err
	}); err != nil {
		t.Fatal(err)
	}
	one := begun(t, "watch", "ns/watched", "--kubeconfig", l.Kubeconfig())
	all := begun(t, "watch", "--kubeconfig", l.Kubeconfig())
	for _, d := range []*deletion{one, all} {
		d.asks(t, "configmaps/held -n watched, Terminating for ")
	}
	kubectl(`patch configmap/held -n watched --type=merge -p '{"metadata":{"finalizers":null}}'`)
	one.ends(t, 0)
	// Both may be deleted at the same look.
	if says := one.said(); !strings.HasSuffix(says, "deleted: ns/watched\n") || strings.Contains(says, "-n beside") {
		t.Errorf("output about the watched one:\n%s", says)
	}
	all.asks(t, "namespaces/watched: deleted\n")
	r, err := l.Kubectl(ctx, "get", "namespace", "watched", "--ignore-not-found", "-o", "name")
	if err != nil || r.Stdout != "" {
		t.Errorf("reports that the namespace was deleted: %v %q", err, r.Stdout)
	}
	if err := all.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	all.ends(t, 1)
	_, left, _ := strings.Cut(all.said(), "SINCE")
	if !strings.Contains(left, "configmaps/held -n beside") || !strings.Contains(left, "namespaces/beside") || strings.Contains(left, "watched") {
		t.Errorf("after the interrupt, output about the objects left:\n%s", all.said())
	}
}

func kubectlIn(t *testing.T, l *lab.Lab, args string) string {
	t.Helper()
	r, err := l.Kubectl(t.Context(), Words(args)...)
	if err != nil || r.Code != 0 {
		t.Fatalf("kubectl %s: %v %s", args, err, r.Stderr)
	}
	return r.Stdout
}
