package node

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/termguard/termguard/test/lab"
)

// TestRelease publishes a release to a registry on loopback, and installs it from there with Helm on a real
// node. It takes minutes, and so needs RELEASE=1.
func TestRelease(t *testing.T) {
	if os.Getenv("RELEASE") == "" {
		t.Skip("a release takes minutes: make e2e-release plays it")
	}
	ctx, out := t.Context(), t.TempDir()
	release := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, "go", append([]string{"run", ".", "-root", lab.Root(), "-out", out, "-version", "v0.0.1", "-platforms", "linux/amd64"}, args...)...)
		cmd.Dir = filepath.Join(lab.Root(), "test", "tools", "release")
		cmd.Stderr = os.Stderr
		said, err := cmd.Output()
		if err != nil {
			t.Fatalf("make a release %v: %v", args, err)
		}
		return strings.TrimSpace(string(said))
	}
	l, _, _ := onNode(t, func() (string, error) { return "", nil })
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	run := func(program func(context.Context, ...string) (lab.Result, error), args ...string) string {
		t.Helper()
		r, err := program(ctx, args...)
		if err != nil || r.Code != 0 {
			pods, _ := l.Kubectl(ctx, "describe", "pods", "-n", "termguard-system")
			t.Fatalf("%s: %v %s\n%s", strings.Join(args, " "), err, r.Stderr, pods.Stdout)
		}
		return r.Stdout
	}

	release()
	repository, digest, ok := strings.Cut(release("-publish", host+"/termguard/termguard"), "@")
	if !ok || repository != host+"/termguard/termguard" {
		t.Fatalf("it is published as %s@%s", repository, digest)
	}
	run(l.Helm, "push", filepath.Join(out, "termguard-chart-0.0.1.tgz"), "oci://"+host+"/charts", "--plain-http")
	run(l.Helm, "install", "termguard", "oci://"+host+"/charts/termguard", "--version=0.0.1", "--plain-http",
		"--namespace=termguard-system", "--create-namespace", "--set=replicas=1,image.repository="+repository+",image.digest="+digest)
	if err := l.Forward(ctx, "termguard-system", "termguard", 443, l.HostAddress()+":9443"); err != nil {
		t.Fatal(err)
	}
	run(l.Kubectl, "patch", "deployment", "termguard", "-n", "termguard-system", "-p", fmt.Sprintf(podOnHost, l.HostAddress()))
	run(l.Kubectl, "rollout", "status", "deployment", "termguard", "-n", "termguard-system", "--timeout=90s")
	if runs := run(l.Kubectl, "get", "pods", "-n", "termguard-system", "-o", "jsonpath={.items[*].status.containerStatuses[*].imageID}"); !strings.Contains(runs, digest) {
		t.Errorf("the node runs %s, and %s was published", runs, digest)
	}
	if err := l.Apply(ctx, `{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: default, finalizers: [lab.test/nobody]}}`); err != nil {
		t.Fatal(err)
	}
	if err := l.Await(ctx, 30*time.Second, "a warning of the pod", func(ctx context.Context) (bool, error) {
		r, err := l.Kubectl(ctx, "delete", "configmap", "held", "--dry-run=server")
		return strings.Contains(r.Stderr, "termguard: may hang") && strings.Contains(r.Stderr, "lab.test/nobody"), err
	}); err != nil {
		t.Error(err)
	}
	run(l.Helm, "uninstall", "termguard", "--namespace=termguard-system", "--wait")
}
