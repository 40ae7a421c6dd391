package node

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/termguard/termguard/probe"
	"github.com/termguard/termguard/probe/report"
)

// TestFrozenVersion2 checks that the probe reports frozen cgroups of version 2 as notes that block nothing:
// SIGKILL ends frozen processes, and so does TERM unless they handle it. (The lab's nodes have version 1, where
// it does not: pod-cgroup-frozen, nested-cgroup-frozen.)
func TestFrozenVersion2(t *testing.T) {
	needs(t)
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	var version2 string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); fields[2] == "cgroup2" {
			version2 = fields[1]
		}
	}
	if version2 == "" {
		t.Skip("no cgroups of version 2 are mounted here")
	}
	const uid = "6f1c2b1e-0f6e-4d56-8a6e-0123456789ab"
	pod := "kubepods/pod" + uid
	for name, frozen := range map[string]string{
		"the pod's own": pod,
		"nested":        pod + "/" + strings.Repeat("c", 64) + "/nested",
	} {
		t.Run(name, func(t *testing.T) {
			top, err := os.MkdirTemp(version2, "termguard-")
			if err != nil {
				t.Fatal(err)
			}
			write := func(file, text string) {
				t.Helper()
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			within := filepath.Join(top, pod, strings.Repeat("c", 64), "nested")
			if err := os.MkdirAll(within, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { // innermost first
				for dir := within; len(dir) >= len(top); dir = filepath.Dir(dir) {
					if err := await("a cgroup to be empty", func() bool { return syscall.Rmdir(dir) == nil }); err != nil {
						t.Error(err)
					}
				}
			})
			process := exec.CommandContext(t.Context(), "sh", "-c", "trap : TERM; echo handled; read forever")
			out, err := process.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := process.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(line, err)
			}
			ended := make(chan error, 1)
			go func() { ended <- process.Wait() }()
			write(filepath.Join(within, "cgroup.procs"), fmt.Sprint(process.Process.Pid))
			write(filepath.Join(top, frozen, "cgroup.freeze"), "1")
			if err := await("it to be frozen", func() bool {
				events, _ := os.ReadFile(filepath.Join(within, "cgroup.events"))
				return strings.Contains(string(events), "frozen 1\n")
			}); err != nil {
				t.Fatal(err)
			}

			root := t.TempDir()
			for _, dir := range []string{"var/lib/kubelet/pods/" + uid, "var/log/pods/demo_web-0_" + uid, "sys/fs"} {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(top, filepath.Join(root, "sys/fs/cgroup")); err != nil {
				t.Fatal(err)
			}
			got, err := probe.Inspect(t.Context(), probe.Options{Root: root})
			if err != nil {
				t.Fatal(err)
			}
			var stuck []report.Finding
			for _, f := range got.Findings {
				if f.Cause == report.Stuck {
					stuck = append(stuck, f)
				}
			}
			want := []report.Finding{{
				Cause: report.Stuck, Certainty: report.Note, Pod: &report.Pod{Namespace: "demo", Name: "web-0", UID: uid},
				Evidence: "cgroup /sys/fs/cgroup/" + frozen + " is frozen (cgroup.freeze): its processes end when their grace period does, at the latest",
			}}
			if diff := cmp.Diff(want, stuck); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}

			status := func() string {
				text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.Process.Pid)) // "" after it has ended
				return string(text)
			}
			if err := process.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(status(), "ShdPnd:\t0000000000004000\n") { // signal 15
				t.Errorf("TERM, which it handles, does not wait for it to be thawed: %s", status())
			}
			if err := process.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if err == nil || err.Error() != "signal: killed" {
					t.Errorf("it ended by %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("SIGKILL does not end it")
			}
		})
	}
}

func await(what string, holds func() bool) error {
	err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}
