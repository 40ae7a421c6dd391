package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Version is the newest Kubernetes, or the one that KUBERNETES names.
var Version = components().version

const ContainerdVersion = "v2.4.2"

type module struct {
	name, version string
	programs      []program
	sources       []string // besides go.mod and go.sum
	flags         []string
	about         string
	files         []published // kept beside the programs
	chart         *chart      // installed instead of a kustomization
	long          bool        // only for the long suite of operators
}

// published files of the build's module are copied into manifests.
type published struct {
	module string   // as in go.mod
	paths  []string // patterns of path.Match
}

// A test binary's name ends in .test.
type program struct{ name, pkg string }

// The supported versions of Kubernetes.
var newest, oldest = module{
	name: "kubernetes", version: "v1.36.3",
	programs: controlPlane,
	sources:  []string{filepath.Join("node", "main.go")},
}, module{
	name: "kubernetes-1.30", version: "v1.30.14",
	programs: controlPlane,
	sources:  []string{filepath.Join("node", "main.go")},
}

var controlPlane = []program{
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
	{"node", "./node"},
}

var kubeletModule = module{
	name: newest.name, version: newest.version,
	programs: []program{
		{"kubelet", "k8s.io/kubernetes/cmd/kubelet"},
		{"csidriver", "./csidriver"},
		{"dradriver", "./dradriver"},
	},
	sources: []string{filepath.Join("csidriver", "main.go"), filepath.Join("dradriver", "main.go")},
	flags:   kubernetesFlags(newest.version),
	about:   "the kubelet " + newest.version + " and drivers for real nodes from Go modules: once, 1 to 3 minutes on two cores",
}

var extension = module{
	name: newest.name, version: newest.version,
	programs: []program{{"sample-apiserver", "./sampleapiserver"}},
	sources:  []string{filepath.Join("sampleapiserver", "main.go")},
	flags:    []string{"-mod=readonly", "-trimpath", "-ldflags", "-s -w"},
	about:    "sample-apiserver " + newest.version + " from Go modules: once, a minute on two cores",
}

func kubernetesFlags(version string) []string {
	return []string{"-mod=readonly", "-trimpath", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=" + version}
}

// Build returns an error if KUBERNETES is unknown.
func components() module {
	m := newest
	if strings.HasPrefix(oldest.version+".", "v"+os.Getenv("KUBERNETES")+".") {
		m = oldest
	}
	m.flags = kubernetesFlags(m.version)
	m.about = "etcd and the control plane of Kubernetes " + m.version + " from Go modules: once, 3 to 5 minutes on two cores"
	return m
}

var containerdModule = module{
	name: "containerd", version: ContainerdVersion,
	programs: []program{
		{"containerd", "github.com/containerd/containerd/v2/cmd/containerd"},
		{"containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
		{"ctr", "github.com/containerd/containerd/v2/cmd/ctr"},
		{"loopback", "github.com/containernetworking/plugins/plugins/main/loopback"},
	},
	flags: []string{"-mod=readonly", "-trimpath", "-tags", "no_btrfs no_devmapper no_zfs",
		"-ldflags", "-s -w -X github.com/containerd/containerd/v2/version.Version=" + ContainerdVersion},
	about: "containerd " + ContainerdVersion + " from Go modules: once, 1 to 3 minutes on two cores",
}

// For nodes whose kernel has an NFS client.
var nfsServer = module{
	name: "nfs-server", version: "v0.0.4",
	programs: []program{{"nfs-server", "."}},
	sources:  []string{"main.go"},
	flags:    []string{"-mod=readonly", "-trimpath", "-ldflags", "-s -w"},
	about:    "a server of NFS from Go modules: once, some seconds",
}

var conformance = module{
	name: "conformance", version: newest.version,
	programs: []program{{"e2e.test", "k8s.io/kubernetes/test/e2e"}, {"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"}},
	flags:    kubernetesFlags(newest.version),
	about:    "the end-to-end tests of Kubernetes " + newest.version + " from Go modules: once, 5 to 15 minutes on two cores",
}

// Build builds the control plane unless it is cached, and returns its folder. Concurrent builds wait, and an
// interrupted one leaves nothing usable.
func Build(ctx context.Context, progress io.Writer) (string, error) {
	m := components()
	if want := os.Getenv("KUBERNETES"); want != "" && !strings.HasPrefix(m.version+".", "v"+want+".") {
		return "", fmt.Errorf("KUBERNETES=%s: want a version that is built here, %s or %s", want, oldest.version, newest.version)
	}
	return m.make(ctx, progress)
}

func BuildNode(ctx context.Context, progress io.Writer) (runtime, node string, err error) {
	if runtime, err = containerdModule.make(ctx, progress); err != nil {
		return "", "", err
	}
	node, err = kubeletModule.make(ctx, progress)
	return runtime, node, err
}

func BuildExtension(ctx context.Context, progress io.Writer) (string, error) {
	return extension.make(ctx, progress)
}

func BuildNFSServer(ctx context.Context, progress io.Writer) (string, error) {
	return nfsServer.make(ctx, progress)
}

func BuildConformance(ctx context.Context, progress io.Writer) (string, error) {
	return conformance.make(ctx, progress)
}

func (m module) make(ctx context.Context, progress io.Writer) (string, error) {
	source, err := m.source()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder (set HOME or XDG_CACHE_HOME): %w", err)
	}
	key, err := m.key(source)
	if err != nil {
		return "", fmt.Errorf("read the components' module: %w", err)
	}
	dir := filepath.Join(cache, "termguard", "components", m.name+"-"+m.version+"-"+key)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, dir+".lock", progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil // another process built it meanwhile
	}

	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil { // left by a killed build
		return "", err
	}
	defer os.RemoveAll(partial)
	started := time.Now()
	elapsed := func() time.Duration { return time.Since(started).Round(time.Second) }
	fmt.Fprintf(progress, "lab: building %s, into %s\n", m.about, dir)
	done := make(chan error, 1)
	go func() { done <- m.build(ctx, source, partial) }()
	ticker := time.NewTicker(15 * time.Second)
	defer ticker.Stop()
	for building := true; building; {
		select {
		case err := <-done:
			if err != nil {
				return "", fmt.Errorf("build %s: %w", m.name, err)
			}
			building = false
		case <-ticker.C:
			fmt.Fprintf(progress, "lab: building %s, %s so far\n", m.names(), elapsed())
		}
	}
	for _, f := range m.files {
		if err := f.copy(ctx, source, filepath.Join(partial, "manifests")); err != nil {
			return "", fmt.Errorf("copy the manifests of %s: %w", f.module, err)
		}
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", fmt.Errorf("keep the built components: %w", err)
	}
	fmt.Fprintf(progress, "lab: built after %s\n", elapsed())
	return dir, nil
}

func (m module) key(source string) (string, error) {
	sum := sha256.New()
	for _, name := range append([]string{"go.mod", "go.sum"}, m.sources...) {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		sum.Write(data)
	}
	fmt.Fprint(sum, m.programs, m.flags, runtime.Version(), runtime.GOARCH)
	if len(m.files) > 0 {
		fmt.Fprint(sum, m.files)
	}
	return fmt.Sprintf("%.6x", sum.Sum(nil)), nil
}

func (f published) copy(ctx context.Context, source, target string) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", f.module)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(stderr.String()))
	}
	root := os.DirFS(strings.TrimSpace(out.String()))
	for _, pattern := range f.paths {
		names, err := fs.Glob(root, pattern)
		if err == nil && len(names) == 0 {
			err = fs.ErrNotExist
		}
		if err != nil {
			return fmt.Errorf("find %s: %w", pattern, err)
		}
		for _, name := range names {
			data, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Join(target, filepath.Dir(name)), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(target, name), data, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m module) names() string {
	var names []string
	for _, p := range m.programs {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// noDWARF omits debug information that the linkers drop. It is not in module.flags: the programs are the
// same.
const noDWARF = "-gcflags=all=-dwarf=false"

func (m module) build(ctx context.Context, source, target string) error {
	var packages []string
	names := map[string]string{} // by the go command's names
	for _, p := range m.programs {
		command := []string{"build", noDWARF}
		switch {
		case strings.HasSuffix(p.name, ".test"):
			command = []string{"test", "-c", "-vet=off", noDWARF}
		case len(m.programs) > 1:
			packages = append(packages, p.pkg)
			names[executable(p.pkg)] = p.name
			continue
		}
		if err := goCommand(ctx, source, slices.Concat(command, m.flags, []string{"-o", filepath.Join(target, p.name), p.pkg})...); err != nil {
			return err
		}
	}
	if len(packages) == 0 {
		return nil
	}
	folder := target + string(filepath.Separator)
	if err := goCommand(ctx, source, slices.Concat([]string{"build", noDWARF}, m.flags, []string{"-o", folder}, packages)...); err != nil {
		return err
	}
	for built, name := range names {
		if err := os.Rename(filepath.Join(target, built), filepath.Join(target, name)); err != nil {
			return err
		}
	}
	return nil
}

func executable(pkg string) string {
	if dir, last := path.Split(pkg); majorVersion.MatchString(last) {
		return path.Base(dir)
	}
	return path.Base(pkg)
}

var majorVersion = regexp.MustCompile(`^v[2-9][0-9]*$`)

func goCommand(ctx context.Context, source string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source
	// Compilers are short processes, so they seldom collect garbage. The user's settings do not count.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=", "GOGC=400")
	// The compilers die with the go command.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := startChild(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(out.String()))
	}
	return nil
}

func (m module) source() (string, error) {
	dir := filepath.Join(Root(), "test", "components", m.name)
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", fmt.Errorf("find the components' module (run it in a checkout): %w", err)
	}
	return dir, nil
}

// The kernel releases the lock if the process dies.
func lock(ctx context.Context, path string, progress io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for announced := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !announced {
			fmt.Fprintln(progress, "lab: another process is building the components: waiting for it")
			announced = true
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for the build of another process: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
