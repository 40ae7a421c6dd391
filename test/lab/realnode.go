package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/sys/unix"
)

// Image is busybox with its applets in /bin, for real nodes. The imagePullPolicy must not be Always.
const Image = "lab.local/busybox:1"

// RealNode has a real kubelet, containerd and runc. Its pods must use the host network.
//
// Its own PID and mount namespaces and two file systems on loop devices keep faults inside, and the kernel
// cleans up with their first process. The watchdog removes the cgroups.
type RealNode struct {
	Name string
	// Dir has the file systems, and sockets: their paths have at most 108 characters.
	Dir string

	lab              *Lab
	inside           thread
	jobs             *atomic.Int64 // on a node with its own kernel, nil for others
	runtime, kubelet string
	init             *Process
	mu               sync.Mutex
	started          []*Process // inside

	// Kubelet and Containerd may be stopped, killed, frozen and restarted.
	Kubelet, Containerd *Process
}

// RealNodeNeeds names what this machine lacks for a real node, "" if nothing.
func RealNodeNeeds() string { return strings.Join(realNodeLacks(), ", ") }

func realNodeLacks() (missing []string) {
	if os.Geteuid() != 0 {
		missing = append(missing, "to run as root")
	}
	return append(missing, lacks(map[string]string{
		"runc": "runc", "/bin/busybox": "busybox-static", "mkfs.ext4": "e2fsprogs", "chattr": "e2fsprogs", "mount": "mount",
	}, "/dev/loop-control", "/sys/fs/cgroup")...)
}

func lacks(programs map[string]string, files ...string) (missing []string) {
	for program, pkg := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, fmt.Sprintf("%s (Debian: %s)", program, pkg))
		}
	}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, file)
		}
	}
	return missing
}

// firstProcess mounts and then reaps orphans, as PID 1. It hides this machine's /run, /var/lib and /var/log:
// containerd and the kubelet have fixed paths there. Mount propagation needs the whole tree shared.
const firstProcess = `set -e
trap 'exit 0' TERM
mount --make-rprivate /
mount --make-rshared /
mount -t proc proc /proc
for d in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs "$d"; done
for disk in kubelet containerd; do
	mkdir -p "$1/$disk"
	truncate -s 1G "$1/$disk.img"
	mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1 "$1/$disk.img"
	mount -o loop "$1/$disk.img" "$1/$disk"
done
touch "$1/mounted"
while :; do sleep 3600 & wait; done`

func (l *Lab) StartRealNode(ctx context.Context, name string) (*RealNode, error) {
	if needs := RealNodeNeeds(); needs != "" {
		return nil, fmt.Errorf("a real node needs %s", needs)
	}
	programs, node, err := BuildNode(ctx, l.options.Progress)
	if err != nil {
		return nil, err
	}
	n := &RealNode{Name: name, Dir: filepath.Join(l.dir, name), lab: l, runtime: programs, kubelet: node}
	if err := os.Mkdir(n.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := makeCgroup(n.cgroup()); err != nil {
		return nil, fmt.Errorf("make the node's cgroup: %w", err)
	}
	cmd := exec.Command("sh", "-c", firstProcess, "node-"+name, n.Dir)
	if n.init, err = l.startOn(spawn, "init-"+name, cmd, syscall.CLONE_NEWNS|syscall.CLONE_NEWPID); err != nil {
		return nil, err
	}
	n.init.onNode = true
	l.keep(n.init)
	if err := l.Await(ctx, 30*time.Second, "the file systems of node "+name, func(context.Context) (bool, error) {
		_, err := os.Stat(filepath.Join(n.Dir, "mounted"))
		return err == nil, nil
	}); err != nil {
		return nil, err
	}
	if n.inside, err = enter(n.init.PID()); err != nil {
		return nil, fmt.Errorf("enter the node's namespaces: %w", err)
	}
	return n, n.boot(ctx)
}

func (n *RealNode) boot(ctx context.Context) error {
	if err := n.configure(); err != nil {
		return fmt.Errorf("configure node %s: %w", n.Name, err)
	}
	if err := n.StartContainerd(ctx); err != nil {
		return err
	}
	if err := n.importBusybox(ctx); err != nil {
		return err
	}
	if err := n.StartKubelet(ctx); err != nil {
		return err
	}
	return n.AwaitReady(ctx, corev1.ConditionTrue)
}

func enter(pid int) (thread, error) {
	t := newThread()
	return t, t.do(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil { // required by setns(2) for a mount namespace
			return err
		}
		for _, kind := range []string{"pid", "mnt"} { // mnt last, because it changes /proc
			f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
			if err != nil {
				return err
			}
			defer f.Close()
			if err := unix.Setns(int(f.Fd()), 0); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
		return nil
	})
}

// The watchdog finds the lab's name in it.
func (n *RealNode) cgroup() string { return "/" + filepath.Base(n.lab.dir) + "/" + n.Name }

// makeCgroup covers every hierarchy; a version 1 cpuset has settings before a process may join.
func makeCgroup(path string) error {
	roots := []string{"/sys/fs/cgroup"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil { // version 1
		if roots, err = filepath.Glob("/sys/fs/cgroup/*/cgroup.procs"); err != nil {
			return err
		}
		for i := range roots {
			roots[i] = filepath.Dir(roots[i])
		}
	}
	for _, root := range roots {
		at := root
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			if controllers, err := os.ReadFile(filepath.Join(at, "cgroup.controllers")); err == nil {
				for c := range strings.FieldsSeq(string(controllers)) {
					_ = os.WriteFile(filepath.Join(at, "cgroup.subtree_control"), []byte("+"+c), 0) // some cannot be delegated
				}
			}
			above := at
			at = filepath.Join(at, part)
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				if data, err := os.ReadFile(filepath.Join(above, file)); err == nil && filepath.Base(root) == "cpuset" {
					if err := os.WriteFile(filepath.Join(at, file), data, 0); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// Only thawed processes can die.
func thaw(cgroup string) {
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		roots, _ := filepath.Glob(filepath.Join(pattern, cgroup))
		for _, root := range roots {
			_ = filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
				switch filepath.Base(path) {
				case "freezer.state":
					_ = os.WriteFile(path, []byte("THAWED"), 0)
				case "cgroup.freeze":
					_ = os.WriteFile(path, []byte("0"), 0)
				}
				return nil // a cgroup may be removed meanwhile
			})
		}
	}
}

const containerdConfig = `version = 3
root = "DIR/containerd/root"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "IMAGE"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["BIN", "/var/lib/cni/bin"]
  conf_dir = "DIR/cni"
`

// The kubelet ignores iptables, and does not evict: full file systems are deliberate faults here.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
enableServer: false
healthzPort: 0
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: CGROUP
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
makeIPTablesUtilChains: false
podLogsDir: DIR/kubelet/logs
staticPodPath: DIR/manifests
volumePluginDir: DIR/volume-plugins
resolvConf: DIR/resolv.conf
nodeLeaseDurationSeconds: LEASE
nodeStatusUpdateFrequency: 2s
maxPods: 250
registryPullQPS: 0
eventRecordQPS: 0
logging: {verbosity: 3}
`

func (n *RealNode) configure() error {
	config, err := n.lab.ConfigFor("system:node:"+n.Name, "system:nodes")
	if err != nil {
		return err
	}
	if _, err := n.lab.WriteKubeconfig("node-"+n.Name, config); err != nil {
		return err
	}
	for _, dir := range []string{"cni", "manifests", "volume-plugins"} {
		if err := os.Mkdir(filepath.Join(n.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	lease := int((n.lab.options.NodeGrace * 4 / 6).Seconds())
	fill := strings.NewReplacer("DIR", n.Dir, "IMAGE", Image, "BIN", n.runtime, "CGROUP", n.cgroup(), "LEASE", fmt.Sprint(lease))
	for name, text := range map[string]string{
		"containerd.toml":      containerdConfig,
		"kubelet.yaml":         kubeletConfig,
		"resolv.conf":          "",
		"cni/10-loop.conflist": `{"cniVersion": "1.0.0", "name": "loop", "plugins": [{"type": "loopback"}]}`,
	} {
		if err := os.WriteFile(filepath.Join(n.Dir, name), []byte(fill.Replace(text)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// StartContainerd keeps existing containers.
func (n *RealNode) StartContainerd(ctx context.Context) (err error) {
	cmd := exec.Command(filepath.Join(n.runtime, "containerd"), "--config", filepath.Join(n.Dir, "containerd.toml"))
	cmd.Env = []string{"PATH=" + n.runtime + ":" + os.Getenv("PATH")}
	if n.Containerd, err = n.start("containerd-"+n.Name, cmd); err != nil {
		return err
	}
	return n.lab.Await(ctx, 30*time.Second, "containerd of node "+n.Name, func(ctx context.Context) (bool, error) {
		_, err := n.Run(ctx, filepath.Join(n.runtime, "ctr"), "version")
		return err == nil, nil
	})
}

func (n *RealNode) StartKubelet(context.Context) (err error) {
	cmd := exec.Command(filepath.Join(n.kubelet, "kubelet"), "--config", filepath.Join(n.Dir, "kubelet.yaml"),
		"--kubeconfig", filepath.Join(n.lab.dir, "node-"+n.Name+".kubeconfig"), "--hostname-override", n.Name,
		"--root-dir", filepath.Join(n.Dir, "kubelet"), "--cert-dir", filepath.Join(n.Dir, "kubelet", "pki"))
	n.Kubelet, err = n.start("kubelet-"+n.Name, cmd)
	return err
}

// StartCSIDriver has ephemeral volumes. If killed it leaves its sockets, as in a killed pod.
func (n *RealNode) StartCSIDriver(name string) (*Process, error) {
	return n.start("csi-"+name+"-"+n.Name, exec.Command(filepath.Join(n.kubelet, "csidriver"),
		"-name", name, "-node", n.Name, "-kubelet", filepath.Join(n.Dir, "kubelet")))
}

// StartDRADriver has one device, "d0". If killed it leaves its sockets, and the kubelet deletes its
// ResourceSlice half a minute later.
func (n *RealNode) StartDRADriver(name string) (*Process, error) {
	return n.start("dra-"+name+"-"+n.Name, exec.Command(filepath.Join(n.kubelet, "dradriver"),
		"-name", name, "-node", n.Name, "-kubelet", filepath.Join(n.Dir, "kubelet"), "-kubeconfig", n.lab.Kubeconfig()))
}

func (n *RealNode) start(name string, cmd *exec.Cmd) (*Process, error) {
	if n.jobs != nil {
		_, err := n.job(cmd)
		return nil, err
	}
	p, err := n.lab.startOn(n.inside, name, cmd, 0)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p.onNode = true
	n.started = append(n.started, p)
	return n.lab.keep(p), nil
}

// PID is for nsenter -m -p -t PID.
func (n *RealNode) PID() int { return n.init.PID() }

func (n *RealNode) Run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	if n.jobs != nil {
		return n.runJob(ctx, cmd)
	}
	cmd.Env = n.lab.environment()
	cmd.Dir = n.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = waitDelay
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := n.inside.do(cmd.Start); err != nil {
		return "", err
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.String(), err
}

// AwaitReady waits, for True, until pods may run on the node.
func (n *RealNode) AwaitReady(ctx context.Context, status corev1.ConditionStatus) error {
	return n.lab.awaitNode(ctx, n.Name, status)
}

// Stop is a power cut; the Node object stays.
func (n *RealNode) Stop() error {
	thaw(n.cgroup())
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range append(n.started, n.init) {
		p.Kill()
	}
	if n.inside != nil {
		close(n.inside)
	}
	return os.RemoveAll(n.Dir)
}

// ImportProgram imports one static program.
func (n *RealNode) ImportProgram(ctx context.Context, name, program string) error {
	return n.importImage(ctx, image{name: name, binary: program, path: filepath.Base(program), entrypoint: []string{"/" + filepath.Base(program)}})
}

// Every pod's sandbox is this image, too: as such it sleeps for 68 years.
func (n *RealNode) importBusybox(ctx context.Context) error {
	const busybox = "/bin/busybox"
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("list the applets of %s: %w", busybox, err)
	}
	links := slices.DeleteFunc(strings.Fields(string(applets)), func(name string) bool { return name == "busybox" })
	return n.importImage(ctx, image{name: Image, binary: busybox, path: "bin/busybox", links: links, entrypoint: []string{"/bin/sleep", "2147483647"}})
}

type image struct {
	name, binary, path string
	links              []string // links to it in the same folder
	entrypoint         []string
}

func (n *RealNode) importImage(ctx context.Context, i image) error {
	file := filepath.Join(n.Dir, "image.tar")
	if err := i.write(file); err != nil {
		return fmt.Errorf("make image %s: %w", i.name, err)
	}
	if out, err := n.Run(ctx, filepath.Join(n.runtime, "ctr"), "--namespace", "k8s.io", "images", "import", "--local", file); err != nil {
		return fmt.Errorf("import image %s: %w: %s", i.name, err, out)
	}
	return os.Remove(file)
}

func (i image) write(file string) error {
	binary, err := os.ReadFile(i.binary)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"bin/", "tmp/", "proc/", "sys/", "dev/", "etc/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return err
		}
	}
	if err := addFile(w, i.path, binary, 0o755); err != nil {
		return err
	}
	for _, name := range i.links {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: filepath.Join(filepath.Dir(i.path), name), Linkname: i.path, Mode: 0o755}); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": i.entrypoint, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{i.name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w = tar.NewWriter(f)
	return errors.Join(
		addFile(w, "config.json", config, 0o644), addFile(w, "layer.tar", layer.Bytes(), 0o644),
		addFile(w, "manifest.json", manifest, 0o644), w.Close(), f.Close())
}

func addFile(w *tar.Writer, name string, data []byte, mode int64) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// HostAddress is for pods on the host network: on all addresses they would conflict.
func (l *Lab) HostAddress() string { return l.network + ".255.2" }

// Forward forwards a ClusterIP, like kube-proxy.
func (l *Lab) Forward(ctx context.Context, namespace, service string, port int, address string) error {
	ip, err := l.ClusterIP(ctx, namespace, service)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				to, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					io.Copy(to, from) //nolint:errcheck // either side may hang up
					to.Close()
				}()
				io.Copy(from, to) //nolint:errcheck // as above
			}()
		}
	}()
	return nil
}
