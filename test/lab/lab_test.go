package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

func start(t *testing.T) *Lab {
	t.Helper()
	l, err := Start(t.Context(), Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	return l
}

// kubectl runs a command that must succeed.
func kubectl(t *testing.T, l *Lab, args ...string) string {
	t.Helper()
	r, err := l.Kubectl(t.Context(), args...)
	if err != nil || r.Code != 0 {
		t.Fatalf("kubectl %s: %v %s", strings.Join(args, " "), err, r.Stderr)
	}
	return r.Stdout
}

func TestNamespaceCompletes(t *testing.T) {
	t.Parallel()
	began := time.Now()
	l := start(t)
	t.Logf("control plane up after %s", time.Since(began).Round(100*time.Millisecond))
	kubectl(t, l, "create", "namespace", "demo")
	kubectl(t, l, "-n", "demo", "create", "configmap", "c")
	kubectl(t, l, "delete", "namespace", "demo", "--timeout=60s")
}

func TestNodesLiveAndDie(t *testing.T) {
	t.Parallel()
	l := start(t)
	node, err := l.StartNode(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: NAME, namespace: default}, spec: {nodeName: n1, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}}`
	for _, name := range []string{"a", "b"} {
		if err := l.Apply(t.Context(), strings.Replace(pod, "NAME", name, 1)); err != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, l, "wait", "pod", "a", "b", "--for=condition=Ready", "--timeout=60s")
	kubectl(t, l, "delete", "pod", "a", "--timeout=60s")
	node.Kill()
	if err := node.AwaitReady(t.Context(), corev1.ConditionUnknown); err != nil {
		t.Fatal(err)
	}
	kubectl(t, l, "delete", "pod", "b", "--wait=false")
	if phase := kubectl(t, l, "get", "pod", "b", "-o", "jsonpath={.metadata.deletionTimestamp}"); phase == "" {
		t.Error("pod b on the dead node is not being deleted")
	}
}

func TestServiceReferences(t *testing.T) {
	t.Parallel()
	l := start(t)
	if err := l.Apply(t.Context(), `{apiVersion: v1, kind: Service, metadata: {name: api, namespace: default}, spec: {ports: [{port: 443}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: api, namespace: default, labels: {kubernetes.io/service-name: api}}, addressType: IPv4, ports: [{port: 443}], endpoints: [{addresses: [192.0.2.1], conditions: {ready: true}}]}
---
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.lab.test}, spec: {group: lab.test, version: v1, groupPriorityMinimum: 100, versionPriority: 10, insecureSkipTLSVerify: true, service: {namespace: default, name: api}}}`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := l.Serve(ctx, "default", "api", ExtensionAPI("lab.test", "v1", "things", "Thing", "get", "list")); err != nil {
		t.Fatal(err)
	}
	kubectl(t, l, "wait", "apiservice", "v1.lab.test", "--for=condition=Available", "--timeout=60s")
	cancel()
	kubectl(t, l, "wait", "apiservice", "v1.lab.test", "--for=condition=Available=False", "--timeout=90s")
}

// TestNothingIsLeft holds that a test that dies leaves neither processes nor
// files: the lab runs in a child that panics.
func TestNothingIsLeft(t *testing.T) {
	if os.Getenv("LAB_PANIC") != "" {
		l, err := Start(t.Context(), Options{Progress: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.StartNode(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
		fmt.Println("dir", l.Dir())
		for _, p := range l.processes {
			for _, path := range regexp.MustCompile(`/tmp/(hollow-kubelet|kubelet_remote_)[^ "]*`).FindAllString(p.Log(), -1) {
				fmt.Println("file", path)
			}
		}
		for _, p := range l.processes {
			fmt.Println("pid", p.PID())
		}
		panic("on purpose")
	}
	t.Parallel()
	if _, err := Build(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestNothingIsLeft$")
	child.Env = append(os.Environ(), "LAB_PANIC=1")
	out, _ := child.CombinedOutput()
	if !strings.Contains(string(out), "panic: on purpose") {
		t.Fatalf("the child did not get as far as its panic:\n%s", out)
	}
	var pids []int
	var files []string
	for _, line := range strings.Split(string(out), "\n") {
		if pid, found := strings.CutPrefix(line, "pid "); found {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, n)
		}
		if file, found := strings.CutPrefix(line, "file "); found {
			files = append(files, file)
		}
		if dir, found := strings.CutPrefix(line, "dir "); found {
			files = append(files, dir)
		}
	}
	if len(pids) != 4 || len(files) < 3 {
		t.Fatalf("want four processes, the lab's folder and kubemark's, got %v %q", pids, files)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		for _, pid := range pids {
			if syscall.Kill(pid, 0) == nil {
				return false, nil
			}
		}
		for _, file := range files {
			if _, err := os.Lstat(file); err == nil {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Errorf("left behind: processes of %v or files of %v", pids, files)
	}
}

// TestUsersKubeconfig holds that a lab neither reads nor writes the user's own.
func TestUsersKubeconfig(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "config")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	l := start(t)
	kubectl(t, l, "get", "namespaces")
	if data, err := os.ReadFile(path); err != nil || string(data) != "mine" {
		t.Errorf("the user's kubeconfig is now %q (%v)", data, err)
	}
}
