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
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Version of the Kubernetes components that the lab runs: the newest, or the one that
// KUBERNETES names.
var Version = components().version

// ContainerdVersion is that of the container runtime of real nodes.
const ContainerdVersion = "v2.4.2"

// module is a nested module of test/components, and the programs that are built
// from it.
type module struct {
	name, version string
	programs      []program
	sources       []string // files besides go.mod and go.sum that decide how they come out
	flags         []string
	about         string
	files         []published // what is kept beside the programs
}

// published are files of a module of the build, such as the manifests that it is
// installed with: they come to lie in the folder manifests, under their own paths.
type published struct {
	module string   // as in go.mod
	paths  []string // patterns of path.Match, from the module's root
}

// program is one of a package, or its tests if the name ends in .test.
type program struct{ name, pkg string }

// newest and oldest are the versions of Kubernetes that are supported. What the
// scenarios of real nodes run is built of the newest alone.
var newest, oldest = module{
	name: "kubernetes", version: "v1.36.3",
	programs: []program{
		{"etcd", "go.etcd.io/etcd/server/v3"},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
		{"kubelet", "k8s.io/kubernetes/cmd/kubelet"},
		{"node", "./node"},
		{"sample-apiserver", "./sampleapiserver"},
		{"csidriver", "./csidriver"},
		{"dradriver", "./dradriver"},
	},
	sources: []string{filepath.Join("node", "main.go"), filepath.Join("sampleapiserver", "main.go"), filepath.Join("csidriver", "main.go"), filepath.Join("dradriver", "main.go")},
}, module{
	name: "kubernetes-1.30", version: "v1.30.14",
	programs: []program{
		{"etcd", "go.etcd.io/etcd/server/v3"},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
		{"node", "./node"},
	},
	sources: []string{filepath.Join("node", "main.go")},
}

// extension is an extension API server for control planes that are not the newest. It
// may be newer than they are, and is published for few versions.
var extension = module{
	name: newest.name, version: newest.version,
	programs: []program{{"sample-apiserver", "./sampleapiserver"}},
	sources:  []string{filepath.Join("sampleapiserver", "main.go")},
	flags:    []string{"-mod=readonly", "-trimpath", "-ldflags", "-s -w"},
	about:    "sample-apiserver " + newest.version + " from Go modules: once, 1 to 5 minutes on two cores",
}

// components is the module of the version that the environment names. An unknown one
// is an error of Build.
func components() module {
	m := newest
	if strings.HasPrefix(oldest.version+".", "v"+os.Getenv("KUBERNETES")+".") {
		m = oldest
	}
	m.flags = []string{"-mod=readonly", "-trimpath", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=" + m.version}
	m.about = "etcd and Kubernetes " + m.version + " from Go modules: once, 3 to 10 minutes on two cores"
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

// conformance is Kubernetes' own end-to-end tests, and what they need beyond the lab.
var conformance = module{
	name: "conformance", version: newest.version,
	programs: []program{{"e2e.test", "k8s.io/kubernetes/test/e2e"}, {"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"}},
	flags:    []string{"-mod=readonly", "-trimpath", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=" + newest.version},
	about:    "the end-to-end tests of Kubernetes " + newest.version + " from Go modules: once, 5 to 15 minutes on two cores",
}

// Build makes sure that the control plane's components are built and returns
// their folder, in the user's cache, by version. It says what it does on
// progress. Two builds at once wait for each other; one that is interrupted
// leaves nothing to be used.
func Build(ctx context.Context, progress io.Writer) (string, error) {
	m := components()
	if want := os.Getenv("KUBERNETES"); want != "" && !strings.HasPrefix(m.version+".", "v"+want+".") {
		return "", fmt.Errorf("KUBERNETES=%s: want a version that is built here, %s or %s", want, oldest.version, newest.version)
	}
	return m.make(ctx, progress)
}

// BuildRuntime does as Build for what a real node runs besides the kubelet.
func BuildRuntime(ctx context.Context, progress io.Writer) (string, error) {
	return containerdModule.make(ctx, progress)
}

// BuildConformance does as Build for Kubernetes' own end-to-end tests (e2e.test) and the
// scheduler that they need.
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
		return dir, nil // somebody else built it while this one waited
	}

	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil { // of a build that was killed
		return "", err
	}
	defer os.RemoveAll(partial)
	started := time.Now()
	elapsed := func() time.Duration { return time.Since(started).Round(time.Second) }
	fmt.Fprintf(progress, "lab: building %s, into %s\n", m.about, dir)
	for i, p := range m.programs {
		done := make(chan error, 1)
		go func() { done <- m.build(ctx, source, filepath.Join(partial, p.name), p.pkg) }()
		ticker := time.NewTicker(15 * time.Second)
		for waiting := true; waiting; {
			select {
			case err := <-done:
				if err != nil {
					return "", fmt.Errorf("build %s: %w", p.name, err)
				}
				waiting = false
			case <-ticker.C:
				fmt.Fprintf(progress, "lab: building %s (%d of %d), %s so far\n", p.name, i+1, len(m.programs), elapsed())
			}
		}
		ticker.Stop()
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

// key is a short hash of what decides how the components come out.
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

// copy takes the files out of the module cache.
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

func (m module) build(ctx context.Context, source, target, pkg string) error {
	args := []string{"build"}
	if strings.HasSuffix(target, ".test") {
		args = []string{"test", "-c", "-vet=off"}
	}
	args = append(args, m.flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", target, pkg)...)
	cmd.Dir = source
	// Without cgo and a workspace, whatever the user's settings are.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=")
	// The compilers that it starts die with it.
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

// source is the folder of the nested module, in test/components.
func (m module) source() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("find the lab's source: built without file names")
	}
	dir := filepath.Join(filepath.Dir(file), "..", "components", m.name)
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", fmt.Errorf("find the components' module (run from a checkout, without -trimpath): %w", err)
	}
	return dir, nil
}

// lock takes an exclusive lock on a file; the kernel drops it should the
// process die.
func lock(ctx context.Context, path string, progress io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for said := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !said {
			fmt.Fprintln(progress, "lab: another process is building the components: waiting for it")
			said = true
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for the build of another process: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
