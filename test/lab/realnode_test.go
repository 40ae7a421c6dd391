package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
)

// TestRealNodeLeavesNothing stops a real node in a bad state, and lets its test die.
func TestRealNodeLeavesNothing(t *testing.T) {
	const child = "LAB_REAL_NODE"
	if end := os.Getenv(child); end != "" {
		l, err := Start(t.Context(), Options{Progress: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("dir " + l.Dir())
		n, err := l.StartRealNode(t.Context(), "bad")
		if err != nil {
			t.Fatal(err)
		}
		apply(t, l, `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: bad, hostNetwork: true, automountServiceAccountToken: false,
  volumes: [{name: v, emptyDir: {}}, {name: m, emptyDir: {medium: Memory}}],
  containers: [{name: c, image: `+Image+`, command: [sleep, "1000000"], volumeMounts: [{name: v, mountPath: /v}, {name: m, mountPath: /m}]}]}}`)
		kubectl(t, l, "wait", "pod", "p", "--for=condition=Ready", "--timeout=60s")
		// Nothing of it can be removed in the ordinary way.
		if out, err := n.Run(t.Context(), "sh", "-euc", `
shim=$(pgrep containerd-shim); kill -STOP $shim
cd kubelet/pods/*/volumes/kubernetes.io~empty-dir/v; touch f; chattr +i f
for f in $(find /sys/fs/cgroup/`+filepath.Base(l.Dir())+` /sys/fs/cgroup/*/`+filepath.Base(l.Dir())+` -name freezer.state -o -name cgroup.freeze 2>/dev/null); do
	case $f in */freezer.state) echo FROZEN >$f ;; *) echo 1 >$f ;; esac
done`); err != nil {
			t.Fatal(err, out)
		}
		fmt.Println("bad")
		if end == "panic" {
			panic("on purpose")
		}
		l.Stop()
		return
	}
	t.Parallel()
	if needs := RealNodeNeeds(); needs != "" {
		t.Skip("a real node needs " + needs)
	}
	if _, err := Build(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := BuildNode(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"stop", "panic"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestRealNodeLeavesNothing$")
			cmd.Env = append(os.Environ(), child+"="+end)
			out, _ := cmd.CombinedOutput()
			lines := strings.Split(string(out), "\n")
			at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "dir ") })
			if at < 0 || !slices.Contains(lines, "bad") {
				t.Fatalf("the node did not come as far as its bad state:\n%s", out)
			}
			dir := strings.TrimPrefix(lines[at], "dir ")
			var left []string
			err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
				left = remains(t, dir)
				return len(left) == 0, nil
			})
			if err != nil {
				t.Errorf("left behind: -want, +got:\n%s", cmp.Diff([]string(nil), left))
			}
		})
	}
}

// remains returns files, processes (and their namespaces), mounts, loop devices and cgroups.
func remains(t *testing.T, dir string) (left []string) {
	t.Helper()
	if _, err := os.Lstat(dir); err == nil {
		left = append(left, "folder "+dir)
	}
	for _, pid := range mentions(t, dir) {
		left = append(left, "process "+pid)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			left = append(left, "mount "+line)
		}
	}
	for kind, pattern := range map[string]string{
		"loop device": "/sys/block/loop*/loop/backing_file",
		"cgroup":      "/sys/fs/cgroup/" + filepath.Base(dir),
		"cgroup v1":   "/sys/fs/cgroup/*/" + filepath.Base(dir),
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if kind == "loop device" {
				if backing, err := os.ReadFile(file); err != nil || !strings.Contains(string(backing), dir) {
					continue
				}
			}
			left = append(left, kind+" "+file)
		}
	}
	return left
}
