package lab

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Version of the Kubernetes components that the lab runs.
const Version = "v1.36.3"

// components are the programs of the lab and the packages they are built from,
// in the nested module test/components/kubernetes.
var components = map[string]string{
	"etcd":                    "go.etcd.io/etcd/server/v3",
	"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
	"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
	"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
	"kubemark":                "k8s.io/kubernetes/cmd/kubemark",
}

var buildFlags = []string{"-trimpath", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=" + Version}

// Build makes sure that the components are built and returns their folder, in
// the user's cache, by version. It says what it does on progress. Two builds at
// once wait for each other; one that is interrupted leaves nothing to be used.
func Build(ctx context.Context, progress io.Writer) (string, error) {
	source, err := componentsModule()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder (set HOME or XDG_CACHE_HOME): %w", err)
	}
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", fmt.Errorf("read the components' module: %w", err)
		}
		sum.Write(data)
	}
	fmt.Fprint(sum, buildFlags, runtime.Version())
	dir := filepath.Join(cache, "termguard", "components", fmt.Sprintf("kubernetes-%s-%.6x", Version, sum.Sum(nil)))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil // somebody else built it while this one waited
	}

	partial, err := os.MkdirTemp(filepath.Dir(dir), "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(partial)
	started := time.Now()
	fmt.Fprintf(progress, "lab: building etcd, kube-apiserver, kube-controller-manager, kubectl and kubemark %s from Go modules; once, 3 to 10 minutes\n", Version)
	done := make(chan struct{})
	defer close(done)
	go func() {
		ticker := time.NewTicker(15 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				fmt.Fprintf(progress, "lab: still building, %s so far\n", time.Since(started).Round(time.Second))
			}
		}
	}()
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kubemark"} {
		cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, buildFlags...), "-o", filepath.Join(partial, name), components[name])...)
		cmd.Dir = source
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
		fmt.Fprintf(progress, "lab: built %s after %s\n", name, time.Since(started).Round(time.Second))
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", fmt.Errorf("keep the built components: %w", err)
	}
	return dir, nil
}

// componentsModule is the folder of the nested module, beside this file.
func componentsModule() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("find the lab's source: built without file names")
	}
	dir := filepath.Join(filepath.Dir(file), "..", "components", "kubernetes")
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", fmt.Errorf("find the components' module (run from a checkout): %w", err)
	}
	return dir, nil
}

// lock takes an exclusive lock on a file; the kernel drops it should the
// process die.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
