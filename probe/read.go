package probe

import (
	"io"
	"path"
	"regexp"
	"strings"
)

const (
	// maxRead bounds a kernel file: the mounts of a node with thousands of pods take about 2 MiB.
	maxRead = 16 << 20
	// batch is a number of directory entries.
	batch = 256
)

// uid is a UUID or, for static pods, the hash of the manifest (pkg/kubelet/config/common.go, applyDefaults).
var uid = regexp.MustCompile(`^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$`)

// cgroupUID finds pod<UID>, or kubepods-…-pod<UID>.slice with "_" for "-"
// (pkg/kubelet/cm/pod_container_manager_linux.go, GetPodContainerName).
var cgroupUID = regexp.MustCompile(`(?:^|/|-)pod([0-9a-f]{32}|[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?(/|$)`)

func podOf(cgroup string) (id, rest string, ok bool) {
	at := cgroupUID.FindStringSubmatchIndex(cgroup)
	if at == nil {
		return "", "", false
	}
	return strings.ReplaceAll(cgroup[at[2]:at[3]], "_", "-"), strings.Trim(cgroup[at[1]:], "/"), true
}

func fsPath(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }

func (l *inspection) read(name string) (text string, whole bool, err error) {
	f, err := l.node.Open(fsPath(name))
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
