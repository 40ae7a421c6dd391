package probe

import (
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
)

const (
	// maxRead bounds what is read of one file of the kernel, in bytes: the mounts of
	// a node with thousands of pods are about 2 MiB.
	maxRead = 16 << 20
	// batch is how many entries of a directory are read at once.
	batch = 256
)

// uid is that of a pod: a UUID, or, of static pods, the hash of their manifest
// (pkg/kubelet/config/common.go, applyDefaults).
var uid = regexp.MustCompile(`^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$`)

// cgroupUID finds it in the path of a cgroup: pod<UID>, or
// kubepods-…-pod<UID>.slice with "_" for "-"
// (pkg/kubelet/cm/pod_container_manager_linux.go, GetPodContainerName).
var cgroupUID = regexp.MustCompile(`(?:^|/|-)pod([0-9a-f]{32}|[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?(/|$)`)

// podOf is the UID of the pod that a cgroup belongs to, and rest what of its path
// stands below the pod's own.
func podOf(cgroup string) (id, rest string, ok bool) {
	at := cgroupUID.FindStringSubmatchIndex(cgroup)
	if at == nil {
		return "", "", false
	}
	return strings.ReplaceAll(cgroup[at[2]:at[3]], "_", "-"), strings.Trim(cgroup[at[1]:], "/"), true
}

// filesOf is a directory of the kernel's or the kubelet's own.
func filesOf(root string) fs.FS { return os.DirFS(root) }

// inside is an absolute path as package fs wants it.
func inside(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }

// read is the content of a file of the kernel, of which no more than maxRead is read.
func (l *look) read(name string) (text string, whole bool, err error) {
	f, err := l.node.Open(inside(name))
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if len(content) > maxRead {
		return string(content[:maxRead]), false, err
	}
	return string(content), true, err
}
