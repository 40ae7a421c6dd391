package nodes

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/facts"
)

func nodeBugs(node *corev1.Node) map[string]any {
	info := node.Status.NodeInfo
	runtime, _, _ := strings.Cut(info.ContainerRuntimeVersion, "://")
	bugs := map[string]any{}
	for component, version := range map[string]string{"kubelet": info.KubeletVersion, runtime: info.ContainerRuntimeVersion} {
		for id, bug := range catalog.Bugs(component, version) {
			of := bug.Facts()
			of["component"], of["version"] = component, version
			bugs[id] = of
		}
	}
	return bugs
}

// pressure returns a condition that is bad when True, else nil.
func pressure(node *corev1.Node, kind corev1.NodeConditionType) map[string]any {
	for _, c := range node.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return map[string]any{"reason": c.Reason, "message": c.Message, "since": facts.Timestamp(c.LastTransitionTime)}
		}
	}
	return nil
}

// Hazards are effects of a running pod that may keep the kubelet from cleaning up after it.
const (
	hazardImmutable = "immutable" // files with an attribute that forbids removing them
	hazardMounts    = "mounts"    // mounts inside a directory of the kubelet
)

// hazards reads the manifest. Only an emptyDir on disk is removed file by file
// (pkg/volume/emptydir/empty_dir.go, teardownDefault); files in unmounted volumes stay.
func hazards(pod *corev1.Pod) []string {
	if pod.Status.Phase != corev1.PodRunning {
		return nil // nothing has run, or the API server removes it at once
	}
	scratch := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		scratch[v.Name] = v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
	}
	kinds := map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, m := range c.VolumeMounts {
			if !scratch[m.Name] {
				continue
			}
			if mayFreezeFiles(c) && freezes(c, m) {
				kinds[hazardImmutable] = true
			}
			if facts.Or(m.MountPropagation, corev1.MountPropagationNone) == corev1.MountPropagationBidirectional {
				kinds[hazardMounts] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

// freezesFiles matches a command that sets the immutable or append-only attribute, with its files.
var freezesFiles = regexp.MustCompile(`\bchattr\s+((?:-[A-Za-z]+\s+)*)\+[A-Za-z]*[ia]\w*([^;&|\n]*)`)

// freezes assumes that relative paths, and paths with shell expansions, may be in any mount.
func freezes(c corev1.Container, in corev1.VolumeMount) bool {
	for _, match := range freezesFiles.FindAllStringSubmatch(strings.Join(slices.Concat(c.Command, c.Args), " "), -1) {
		files := strings.Fields(match[2])
		if len(files) == 0 || slices.ContainsFunc(files, func(file string) bool {
			file = strings.Trim(file, `"'`)
			if at := strings.IndexAny(file, "$`*?["); at >= 0 {
				file = file[:at]
			}
			if !path.IsAbs(file) {
				return true
			}
			file = path.Clean(file)
			if strings.Contains(match[1], "R") && below(in.MountPath, file) {
				return true
			}
			return below(file, in.MountPath) && !slices.ContainsFunc(c.VolumeMounts, func(other corev1.VolumeMount) bool {
				return other.MountPath != in.MountPath && below(other.MountPath, in.MountPath) && below(file, other.MountPath)
			})
		}) {
			return true
		}
	}
	return false
}

func below(file, directory string) bool {
	return strings.HasPrefix(path.Clean(file)+"/", strings.TrimSuffix(path.Clean(directory), "/")+"/")
}

// mayFreezeFiles reports CAP_LINUX_IMMUTABLE, which the kernel requires for that.
func mayFreezeFiles(c corev1.Container) bool {
	s := c.SecurityContext
	if s == nil {
		return false
	}
	if facts.Or(s.Privileged, false) {
		return true
	}
	return s.Capabilities != nil && slices.ContainsFunc(s.Capabilities.Add, func(added corev1.Capability) bool {
		name := strings.TrimPrefix(strings.ToUpper(string(added)), "CAP_")
		return name == "LINUX_IMMUTABLE" || name == "ALL"
	})
}

// registrar returns the directory that a CSI driver's sidecar registers, usually named after the driver.
func registrar(pod *corev1.Pod) (dir string, ok bool) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil || facts.Failing(pod) != "" {
		return "", false
	}
	for _, c := range pod.Spec.Containers {
		if catalog.ImageName(c.Image) != "csi-node-driver-registrar" {
			continue
		}
		ok = true
		for _, arg := range slices.Concat(c.Command, c.Args) {
			if _, socket, registers := strings.Cut(arg, "kubelet-registration-path="); registers {
				dir = path.Base(path.Dir(socket))
			}
		}
	}
	return dir, ok
}
