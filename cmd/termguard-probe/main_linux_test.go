package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/termguard/termguard/probe/report"
)

// buildProbe builds the program as releases do.
func buildProbe(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "termguard-probe")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// statuses returns the status file of each thread of a process (proc_pid_status(5)).
func statuses(t *testing.T, pid string) (all []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("/proc", pid, "task", "*", "status"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no threads of process %s: %v", pid, err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil { // a thread may end
			all = append(all, string(text))
		}
	}
	return all
}

// TestPrivileges runs the program and checks, while it waits for the next inspection, that each thread, and
// anything it could execute, has only the capabilities that an inspection needs.
func TestPrivileges(t *testing.T) {
	objects := fake.NewClientset()
	root, config := t.TempDir(), filepath.Join(t.TempDir(), "config")
	for _, dir := range []string{"var/lib/kubelet/pods", "proc/1"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(config, []byte("{clusters: [{name: c, cluster: {server: '"+fakeServer(t, objects.CoreV1()).URL+"'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := objects.CoreV1().ConfigMaps(home).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	probe := exec.CommandContext(t.Context(), buildProbe(t), "--node=n1", "--every=1h", "--root="+root, "--kubeconfig="+config)
	probe.Stderr = &stderr
	if err := probe.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-events.ResultChan():
		if e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != report.Prefix+"n1" {
			t.Errorf("it made %+v", e)
		}
	case <-time.After(time.Minute):
		t.Error("no report within a minute")
	}
	// Only with CAP_SETPCAP, which a pod lacks, can the program also bound what it could execute.
	bounded := capabilities(t, statuses(t, "self")[0], "Eff")&(1<<8) != 0
	const needed = 1<<2 | 1<<19 // CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE (capabilities(7))
	for _, status := range statuses(t, strconv.Itoa(probe.Process.Pid)) {
		for set, most := range map[string]uint64{"Prm": needed, "Eff": needed, "Bnd": needed, "Inh": 0, "Amb": 0} {
			if has := capabilities(t, status, set); has&^most != 0 && (set != "Bnd" || bounded) {
				t.Errorf("Cap%s is %x, with more than %x", set, has, most)
			}
		}
		if !strings.Contains(status, "NoNewPrivs:\t1\n") {
			t.Error("it may come by more privileges")
		}
	}
	if err := probe.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := probe.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("told to stop, it ends with %v: %s", err, &stderr)
	}
}

// capabilities returns one capability set of a thread.
func capabilities(t *testing.T, status, set string) (has uint64) {
	t.Helper()
	_, rest, _ := strings.Cut(status, "Cap"+set+":")
	if _, err := fmt.Sscanf(rest, "%x", &has); err != nil {
		t.Fatalf("Cap%s in %q: %v", set, status, err)
	}
	return has
}
