// Command probe-cost prints what one look of termguard probe costs at a node with many pods
// and files: at several rates, and beside others that have all processors busy.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/termguard/termguard/test/scenario"
)

func main() {
	pods := flag.Int("pods", 110, "pods")
	files := flag.Int("files", 1800, "files in the volume of each")
	dir := flag.String("dir", "", "make them in this `FOLDER` (default a temporary one)")
	flag.Parse()
	if err := run(*pods, *files, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "probe-cost:", err)
		os.Exit(1)
	}
}

func run(pods, files int, dir string) error {
	root, err := os.MkdirTemp(dir, "probe-cost")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := fill(root, pods, files); err != nil {
		return err
	}
	fmt.Printf("%d pods with %d files, %d processors\n\n", pods, pods*files, runtime.NumCPU())
	fmt.Println("| files a second | others | one look | CPU | share of a core | memory | of it pages of the program |")
	fmt.Println("|---:|---|---:|---:|---:|---:|---:|")
	for _, c := range []struct {
		rate int
		busy bool
	}{{8_000, false}, {20_000, false}, {1_000_000_000, false}, {8_000, true}} {
		others, stop := "idle", func() {}
		if c.busy {
			others, stop = "busy", work()
		}
		l, err := measure(root, c.rate)
		stop()
		if err != nil {
			return err
		}
		rate := strconv.Itoa(c.rate)
		if c.rate > 1_000_000 {
			rate = "no limit"
		}
		fmt.Printf("| %s | %s | %.1f s | %.2f s | %.0f %% | %d MiB | %d MiB |\n", rate, others, l.took.Seconds(), l.cpu.Seconds(), 100*l.cpu.Seconds()/l.took.Seconds(), l.most>>10, l.own>>10)
	}
	return nil
}

// fill makes a node: directories of pods, and their logs, from which their names are known.
func fill(root string, pods, files int) error {
	for _, dir := range []string{"proc/1", "var/lib/containerd", "sys/fs/cgroup/freezer", "run"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, "proc/1/mountinfo"), []byte("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"), 0o644); err != nil {
		return err
	}
	for pod := range pods {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", pod)
		volume := filepath.Join(root, "var/lib/kubelet/pods", uid, "volumes/kubernetes.io~empty-dir/v")
		if err := errors.Join(os.MkdirAll(volume, 0o755), os.MkdirAll(filepath.Join(root, "var/log/pods", fmt.Sprintf("demo_p%d_%s", pod, uid)), 0o755)); err != nil {
			return err
		}
		for file := range files {
			if err := os.WriteFile(filepath.Join(volume, strconv.Itoa(file)), nil, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// look is what one cost: its memory at most, and of that the pages of its program, in KiB.
type look struct {
	took, cpu time.Duration
	most, own int64
}

func measure(root string, rate int) (l look, err error) {
	binary, err := scenario.Binary()
	if err != nil {
		return l, err
	}
	cmd := exec.Command(binary, "probe", "--root", root, "--files-per-second", strconv.Itoa(rate), "--max-files", "1000000", "-o", "json")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // as in the chart
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return l, err
	}
	var own atomic.Int64
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
				status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
				for line := range bytes.Lines(status) {
					var kib int64
					if n, _ := fmt.Sscanf(string(line), "RssFile: %d kB", &kib); n == 1 {
						own.Store(max(own.Load(), kib))
					}
				}
			}
		}
	}()
	err = cmd.Wait()
	l.took = time.Since(began)
	close(ended)
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() > 1) {
		return l, fmt.Errorf("termguard probe: %w: %s", err, stderr.String())
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	l.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	l.most, l.own = usage.Maxrss, own.Load()
	return l, nil
}

// work has all processors busy until it is stopped.
func work() (stop func()) {
	var stopped atomic.Bool
	for range runtime.NumCPU() {
		go func() {
			block := make([]byte, 1<<16)
			for !stopped.Load() {
				sha256.Sum256(block)
			}
		}()
	}
	return func() { stopped.Store(true) }
}
