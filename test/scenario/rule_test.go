package scenario

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/termguard/termguard/test/lab"
)

// TestOwnRule: a user's rule forbids the deletion of a namespace that is Terminating with a pod on a dead node.
// It can no longer be refused: check, scan and delete lead with the node.
func TestOwnRule(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	l, err := lab.Start(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	ctx := t.Context()
	node, err := l.StartNode(ctx, "lost")
	if err != nil {
		t.Fatal(err)
	}
	if err := node.AwaitReady(ctx, corev1.ConditionTrue); err != nil {
		t.Fatal(err)
	}
	if err := l.Apply(ctx, `
{apiVersion: v1, kind: Namespace, metadata: {name: ruled, labels: {example.com/protected: "true"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: it, namespace: ruled}, spec: {nodeName: lost, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: beside, labels: {example.com/protected: "true"}}}
`); err != nil {
		t.Fatal(err)
	}
	kubectlIn(t, l, "wait pod/it -n ruled --for=condition=Ready --timeout=60s")
	node.Kill()
	if err := node.AwaitReady(ctx, corev1.ConditionUnknown); err != nil {
		t.Fatal(err)
	}
	kubectlIn(t, l, "delete namespace ruled --wait=false")
	if err := l.Await(ctx, time.Minute, "the pod to be deleted", func(ctx context.Context) (bool, error) {
		r, err := l.Kubectl(ctx, "get", "pod/it", "-n", "ruled", "-o", "jsonpath={.metadata.deletionTimestamp}")
		return r.Stdout != "", err
	}); err != nil {
		t.Fatal(err)
	}
	rule := filepath.Join(t.TempDir(), "protected_label")
	if err := os.CopyFS(rule, os.DirFS(filepath.Join(lab.Root(), "deploy", "policies", "protected_label"))); err != nil {
		t.Fatal(err)
	}
	rules := []string{"--kubeconfig", l.Kubeconfig(), "--policies", filepath.Dir(rule)}
	const forbids = "is protected by its label"
	for _, tc := range []struct {
		command []string
		leads   string // begins the line that names the node
	}{
		{[]string{"check", "namespace/ruled"}, "namespaces/ruled: hangs (Terminating for "},
		{[]string{"scan"}, "broken 1: "},
		{[]string{"delete", "namespace/ruled", "--yes"}, "namespaces/ruled: hangs (Terminating for "},
	} {
		d := begun(t, append(tc.command, rules...)...)
		if tc.command[0] == "delete" { // which asks about the node
			d.asks(t, "[y/N]")
			d.interrupt(t, "interrupted: nothing was changed")
		} else {
			d.ends(t, 1)
		}
		said := d.said()
		_, lead, _ := strings.Cut("\n"+said, "\n"+tc.leads)
		if lead, _, _ = strings.Cut(lead, "\n"); !strings.Contains(lead, "node lost") {
			t.Errorf("%s does not lead with the node:\n%s", tc.command[0], said)
		}
		if strings.Contains(said, forbids) {
			t.Errorf("%s says that the rule forbids it:\n%s", tc.command[0], said)
		}
	}
	d := begun(t, append([]string{"check", "namespace/beside"}, rules...)...)
	d.ends(t, 1)
	if said := d.said(); !strings.HasPrefix(said, "namespaces/beside: refused") || !strings.Contains(said, forbids) {
		t.Errorf("the rule is not in force:\n%s", said)
	}
}
