// Command probe-cost prints the probe's cost on a node with many pods and files: time and memory of an
// inspection at several rates, and with -beside, the throughput left for others.
package main

import (
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/termguard/termguard/test/scenario"
)

func main() {
	var c cost
	flag.IntVar(&c.pods, "pods", 110, "pods")
	flag.IntVar(&c.files, "files", 1800, "files in the volume of each")
	flag.BoolVar(&c.beside, "beside", false, "measure what is left of the work of others")
	flag.IntVar(&c.pairs, "pairs", 6, "with -beside, how often each load runs without and with the probe, by turns")
	flag.DurationVar(&c.slice, "slice", 8*time.Second, "with -beside, for how long")
	dir := flag.String("dir", "", "make them in this `FOLDER` (default a temporary one)")
	flag.Parse()
	if err := c.run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "probe-cost:", err)
		os.Exit(1)
	}
}

type cost struct {
	pods, files int
	beside      bool
	pairs       int
	slice       time.Duration

	root    string
	config  string        // kubeconfig
	reports chan struct{} // one for each report written
}

func (c *cost) run(dir string) (err error) {
	work, err := os.MkdirTemp(dir, "probe-cost")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	c.root, c.config, c.reports = filepath.Join(work, "node"), filepath.Join(work, "config"), make(chan struct{}, 1)
	if err := c.fill(); err != nil {
		return err
	}
	// TLS takes memory, as for a real API server.
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "ConfigMap", "apiVersion": "v1"}`)
		select {
		case c.reports <- struct{}{}:
		default: // not waited for
		}
	}))
	defer server.Close()
	ca := filepath.Join(work, "ca.crt")
	kubeconfig := fmt.Sprintf("{clusters: [{name: c, cluster: {server: '%s', certificate-authority: %s}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}", server.URL, ca)
	if err := errors.Join(os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600), os.WriteFile(c.config, []byte(kubeconfig), 0o600)); err != nil {
		return err
	}
	fmt.Printf("%d pods with %d files, %d processors\n\n", c.pods, c.pods*c.files, runtime.NumCPU())
	if c.beside {
		return c.others(work)
	}
	fmt.Println("| files a second | others | one look | CPU | share of a core | memory at most | at rest | of it pages of the program |")
	fmt.Println("|---:|---|---:|---:|---:|---:|---:|---:|")
	for _, row := range []struct {
		rate int
		busy bool
	}{{8_000, false}, {20_000, false}, {1_000_000_000, false}, {8_000, true}} {
		others, stop := "idle", func() {}
		if row.busy {
			others, stop = "busy", hash(new(count))
		}
		l, err := c.measure(row.rate)
		stop()
		if err != nil {
			return err
		}
		rate := strconv.Itoa(row.rate)
		if row.rate > 1_000_000 {
			rate = "no limit"
		}
		fmt.Printf("| %s | %s | %.1f s | %.2f s | %.0f %% | %.1f MiB | %.1f MiB | %.1f MiB |\n", rate, others, l.took.Seconds(), l.cpu, 100*l.cpu/l.took.Seconds(), mib(l.most), mib(l.rest), mib(l.pages))
	}
	return nil
}

func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

func (c *cost) fill() error {
	var err error
	write := func(name, text string) {
		name = filepath.Join(c.root, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644))
	}
	process := func(pid, parent int, name, cgroup string) {
		write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (%s) S %d %s77 0 0\n", pid, name, parent, strings.Repeat("0 ", 17)))
		write(fmt.Sprintf("proc/%d/cgroup", pid), "5:freezer:"+cgroup+"\n")
	}
	mounts := "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
	process(1, 0, "init", "/")
	for pod := range c.pods {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", pod)
		dir := "var/lib/kubelet/pods/" + uid
		write("var/log/pods/demo_p"+strconv.Itoa(pod)+"_"+uid+"/c/0.log", "")
		shim := 1000 + 10*pod
		process(shim, 1, "containerd-shim", "/system.slice/containerd.service")
		for i, name := range []string{"pause", "web", "sidecar"} {
			cgroup := fmt.Sprintf("/kubepods/pod%s/%064d", uid, 10*pod+i)
			process(shim+1+i, shim, name, cgroup)
			write("sys/fs/cgroup/freezer"+cgroup+"/freezer.self_freezing", "0\n")
			mounts += fmt.Sprintf("%d 1 0:%d / /run/containerd/io.containerd.runtime.v2.task/k8s.io/%064d/rootfs rw - overlay overlay rw\n", shim+1+i, shim+1+i, 10*pod+i)
		}
		mounts += fmt.Sprintf("%d 1 0:%d / /%s/volumes/kubernetes.io~projected/kube-api-access rw - tmpfs tmpfs rw\n", shim, shim, dir)
		for file := range c.files {
			write(fmt.Sprintf("%s/volumes/kubernetes.io~empty-dir/v/%d", dir, file), "")
		}
	}
	write("proc/1/mountinfo", mounts)
	return errors.Join(err, os.MkdirAll(filepath.Join(c.root, "var/lib/containerd"), 0o755))
}

type probe struct {
	cmd  *exec.Cmd
	proc procfs.Proc
}

func (c *cost) start(rate int, every time.Duration) (*probe, error) {
	binary, err := scenario.ProbeBinary()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "--root", c.root, "--node=n1", "--kubeconfig", c.config, "--every", every.String(), "--files-per-second", strconv.Itoa(rate), "--max-files=1000000")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // as in the chart
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	proc, err := procfs.NewProc(cmd.Process.Pid)
	return &probe{cmd, proc}, err
}

func (p *probe) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // always "killed"
}

// In hundredths.
func (p *probe) seconds() (float64, error) {
	stat, err := p.proc.Stat()
	return stat.CPUTime(), err
}

// Seconds of processor time, and bytes.
type look struct {
	took              time.Duration
	cpu               float64
	most, rest, pages uint64
}

// The first inspection includes the start.
func (c *cost) measure(rate int) (l look, err error) {
	const every = 3 * time.Second
	select {
	case <-c.reports: // from an earlier probe
	default:
	}
	p, err := c.start(rate, every)
	if err != nil {
		return l, err
	}
	defer p.stop()
	if err := c.await(); err != nil {
		return l, err
	}
	began := time.Now()
	before, err := p.seconds()
	if err != nil {
		return l, err
	}
	if err := c.await(); err != nil {
		return l, err
	}
	l.took = time.Since(began) - every
	after, err := p.seconds()
	if err != nil {
		return l, err
	}
	l.cpu = after - before
	for still := 0; still < 5; { // until it waits for the next inspection
		time.Sleep(100 * time.Millisecond)
		now, err := p.seconds()
		if err != nil {
			return l, err
		}
		if still++; now != after {
			still, after = 0, now
		}
	}
	status, err := p.proc.NewStatus()
	l.most, l.rest, l.pages = status.VmHWM, status.VmRSS, status.RssFile
	return l, err
}

// A report takes minutes under load.
func (c *cost) await() error {
	select {
	case <-c.reports:
		return nil
	case <-time.After(20 * time.Minute):
		return errors.New("no report within 20 minutes")
	}
}
