package node

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

func onNode(t *testing.T, program func() (string, error)) (l *lab.Lab, node *lab.RealNode, binary string) {
	t.Helper()
	needs(t)
	t.Parallel()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	l, err = lab.Start(t.Context(), lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	node, err = l.StartRealNode(t.Context(), "real")
	if err != nil {
		t.Fatal(err)
	}
	return l, node, binary
}

// podOnHost is one replica on the host network: there is no scheduler, and a second would listen on the same
// addresses.
const podOnHost = `{"spec": {"replicas": 1, "template": {"spec": {"nodeName": "real", "hostNetwork": true, "containers": [{"name": "termguard",
  "args": ["webhook", "--config=/etc/termguard/config.yaml", "--listen=%[1]s:9443", "--health-listen=%[1]s:8081"],
  "livenessProbe": {"httpGet": {"host": "%[1]s", "path": "/healthz", "port": "health"}},
  "readinessProbe": {"httpGet": {"host": "%[1]s", "path": "/readyz", "port": "health"}}}]}}}}`

// TestWebhookAsPod runs termguard from deploy/ as a pod. It must warn, and be deletable without blocking its
// own namespace.
func TestWebhookAsPod(t *testing.T) {
	ctx := t.Context()
	l, node, binary := onNode(t, scenario.Binary)
	kubectl := func(args ...string) string {
		t.Helper()
		r, err := l.Kubectl(ctx, args...)
		if err != nil || r.Code != 0 {
			pods, _ := l.Kubectl(ctx, "describe", "pods", "-n", "termguard-system")
			t.Fatalf("kubectl %s: %v %s\n%s", strings.Join(args, " "), err, r.Stderr, pods.Stdout)
		}
		return r.Stdout
	}
	base := filepath.Join(lab.Root(), "deploy", "base")
	kubectl("apply", "-k", base)
	image := kubectl("get", "deployment", "termguard", "-n", "termguard-system", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
	if err := node.ImportProgram(ctx, image, binary); err != nil {
		t.Fatal(err)
	}
	// Its namespace rightly refuses the host network.
	kubectl("label", "namespace", "termguard-system", "--overwrite", "pod-security.kubernetes.io/enforce=privileged")
	if err := l.Forward(ctx, "termguard-system", "termguard", 443, l.HostAddress()+":9443"); err != nil {
		t.Fatal(err)
	}
	kubectl("patch", "deployment", "termguard", "-n", "termguard-system", "-p", fmt.Sprintf(podOnHost, l.HostAddress()))
	kubectl("rollout", "status", "deployment", "termguard", "-n", "termguard-system", "--timeout=60s")

	const finalized = `{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: default, finalizers: [lab.test/nobody]}}`
	if err := l.Apply(ctx, finalized); err != nil {
		t.Fatal(err)
	}
	if err := l.Await(ctx, 30*time.Second, "a warning of the pod", func(ctx context.Context) (bool, error) {
		r, err := l.Kubectl(ctx, "delete", "configmap", "held", "--dry-run=server")
		return strings.Contains(r.Stderr, "termguard: may hang") && strings.Contains(r.Stderr, "lab.test/nobody"), err
	}); err != nil {
		t.Error(err)
	}
	kubectl("delete", "-k", base, "--timeout=90s")
}
