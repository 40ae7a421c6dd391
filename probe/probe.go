// Package probe inspects a node for causes of stuck pods that the API does not show.
//
// It only reads. It opens no file of a pod, follows no link, and does not enter mounted file systems (a dead
// network file system would block it). The files, the time and the report are bounded; the report lists
// omissions.
package probe

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/time/rate"

	"github.com/termguard/termguard/probe/report"
)

// Options configure an inspection. The zero value inspects this node.
type Options struct {
	// Node is the node's name in the cluster.
	Node string
	// Root is the mount point of the node's file system.
	Root string
	// Kubelet is the kubelet's --root-dir, and Logs its podLogsDir, which shows the names of pods.
	Kubelet, Logs string
	// Runtime is the CRI socket.
	Runtime string
	// RuntimeData is the runtime's directory.
	RuntimeData string
	// MaxFiles defaults to 200,000.
	MaxFiles int
	// FilesPerSecond defaults to 8,000; 10,000 took 6 % of a core (docs/probe.md).
	FilesPerSecond int
	// Timeout bounds the wait for the runtime, or for the kernel about a file system.
	Timeout time.Duration
	// RecheckAfter is the wait before a transient state, such as D, is checked again.
	RecheckAfter time.Duration
	// Now defaults to time.Now.
	Now func() time.Time

	attributes  func(dir *os.File, name string) (attributes, error)
	space       func(path string) (space, error)
	callRuntime func(ctx context.Context, method string) error
}

func (o Options) setDefaults() Options {
	o.Root = cmp.Or(o.Root, "/")
	o.Kubelet = cmp.Or(o.Kubelet, "/var/lib/kubelet")
	o.Logs = cmp.Or(o.Logs, "/var/log/pods")
	o.Runtime = cmp.Or(o.Runtime, "/run/containerd/containerd.sock")
	o.RuntimeData = cmp.Or(o.RuntimeData, "/var/lib/containerd")
	o.MaxFiles = cmp.Or(o.MaxFiles, 200_000)
	o.FilesPerSecond = cmp.Or(o.FilesPerSecond, 8_000)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.RecheckAfter = cmp.Or(o.RecheckAfter, 2*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.attributes == nil {
		o.attributes = attributesOf
	}
	if o.space == nil {
		o.space = spaceOf
	}
	return o
}

// Flags registers the command line options.
func (o *Options) Flags(flags *pflag.FlagSet) {
	d := o.setDefaults()
	flags.StringVar(&o.Node, "node", os.Getenv("NODE_NAME"), "name of this node in the cluster; NODE_NAME in the environment")
	flags.StringVar(&o.Root, "root", d.Root, "folder with the file system of the node")
	flags.StringVar(&o.Kubelet, "kubelet-dir", d.Kubelet, "the kubelet's directory (its --root-dir)")
	flags.StringVar(&o.Logs, "pod-logs-dir", d.Logs, "directory of the pods' logs")
	flags.StringVar(&o.Runtime, "runtime-socket", d.Runtime, "CRI socket of the container runtime")
	flags.StringVar(&o.RuntimeData, "runtime-dir", d.RuntimeData, "directory of the container runtime")
	flags.IntVar(&o.MaxFiles, "max-files", d.MaxFiles, "maximum number of files in volumes to inspect")
	flags.IntVar(&o.FilesPerSecond, "files-per-second", d.FilesPerSecond, "maximum number of files to inspect per second")
}

type inspection struct {
	Options
	node   fs.FS
	pods   map[string]report.Pod
	mounts []mount
	report report.Report
}

// Inspect inspects the node once. It fails only if this is no node: its kubelet's directory cannot be read.
func Inspect(ctx context.Context, options Options) (report.Report, error) {
	l := &inspection{Options: options.setDefaults()}
	l.report = report.New(l.Node)
	l.node = os.DirFS(l.Root)
	l.readMounts()
	if err := l.findPods(); err != nil {
		return l.report, err
	}
	l.inspectProcesses(ctx)
	l.inspectCgroups()
	l.inspectMounts()
	l.inspectSpace(ctx)
	l.inspectRuntime(ctx)
	l.inspectFiles(ctx, rate.NewLimiter(rate.Limit(l.FilesPerSecond), batch))
	if ctx.Err() != nil {
		l.report.AddUnseen("the rest of the node: %v", ctx.Err())
	}
	l.report.Time = l.Now().UTC()
	return l.report, nil
}

func (l *inspection) nodePath(name string) string { return path.Join(l.Root, name) }

// findPods lists pods with a kubelet directory, and names from log directories, NAMESPACE_NAME_UID
// (pkg/kubelet/kuberuntime/helpers.go, BuildPodLogsDirectory). Of two pods with one name only the newer gets
// it: the other was force-deleted, and its remains block nothing.
func (l *inspection) findPods() error {
	entries, err := l.readDir(path.Join(l.Kubelet, "pods"))
	if err != nil {
		return fmt.Errorf("read the pods of the kubelet (is this a node, and is its directory %s?): %w", l.Kubelet, err)
	}
	l.pods = map[string]report.Pod{}
	for _, e := range entries {
		if e.IsDir() && uid.MatchString(e.Name()) {
			l.pods[e.Name()] = report.Pod{UID: e.Name()}
		}
	}
	l.report.Pods = len(l.pods)
	logs, err := l.readDir(l.Logs)
	if err != nil {
		l.report.AddUnseen("the names of pods: %v", err)
	}
	type named struct{ namespace, name string }
	newest := map[named]fs.FileInfo{}
	for _, e := range logs {
		parts := strings.Split(e.Name(), "_")
		if len(parts) != 3 {
			continue
		}
		if _, here := l.pods[parts[2]]; !here {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		key := named{parts[0], parts[1]}
		if last := newest[key]; last == nil || last.ModTime().Before(info.ModTime()) {
			newest[key] = info
		}
	}
	for key, info := range newest {
		id := info.Name()[strings.LastIndexByte(info.Name(), '_')+1:]
		l.pods[id] = report.Pod{Namespace: key.namespace, Name: key.name, UID: id}
	}
	return nil
}

// readDir refuses network file systems, which might never answer.
func (l *inspection) readDir(dir string) ([]fs.DirEntry, error) {
	if m, ok := l.mountOf(dir); ok && isRemote(m.kind) {
		return nil, fmt.Errorf("%s is on %s, at %s, which might not answer", dir, m.kind, m.point)
	}
	return fs.ReadDir(l.node, fsPath(dir))
}

// add adds a finding as a note if the pod's name is unknown: then the API has no such pod either.
func (l *inspection) add(id string, f report.Finding) {
	pod, here := l.pods[id]
	if !here {
		return
	}
	f.Pod = &pod
	if pod.Name == "" {
		f.Certainty = report.Note
	}
	l.report.Add(f)
}
