package cluster

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/catalog"
)

// This file keeps what the API server shows of trouble on a node: pods that
// their kubelet should have finished with, known bugs of what runs there, and a
// full disk.

// leaving is a pod that its kubelet has to finish with.
type leaving struct {
	key      types.NamespacedName
	node     string
	deadline time.Time // when its grace period is over
	ended    bool      // its containers have ended: its node has only to clean up
}

// leavingOf tells whether a pod waits for its kubelet alone. With a grace
// period of 0 the kubelet has finished with it, and finalizers hold it
// (pkg/kubelet/status/status_manager.go); mirror pods come and go with a file
// on the node, not with their grace period.
func leavingOf(pod *corev1.Pod) (leaving, bool) {
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || isMirror(pod) || ptrOr(pod.DeletionGracePeriodSeconds, 0) == 0 {
		return leaving{}, false
	}
	return leaving{
		key:      types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		node:     pod.Spec.NodeName,
		deadline: pod.DeletionTimestamp.Time,
		ended:    ended(pod),
	}, true
}

// ended tells whether all containers of a pod have ended.
func ended(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated == nil {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) > 0
}

// isMirror tells whether a pod only shows a static pod of its node.
func isMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// leave puts a pod among those that leave its node and its namespace, and stay
// takes it out. The facts follow with the next Settle: a namespace may lose
// thousands of pods at once.
func (w *World) leave(pod *corev1.Pod) {
	l, leaves := leavingOf(pod)
	if !leaves {
		return
	}
	w.left[l.key] = l
	for _, group := range l.groups() {
		if w.leaving[group] == nil {
			w.leaving[group] = map[types.NamespacedName]leaving{}
		}
		w.leaving[group][l.key] = l
		w.leavingDirty[group] = true
	}
}

func (w *World) stay(key types.NamespacedName) {
	l, known := w.left[key]
	if !known {
		return
	}
	delete(w.left, key)
	for _, group := range l.groups() {
		delete(w.leaving[group], key)
		w.leavingDirty[group] = true
	}
}

// leavingGroup is a node or a namespace.
type leavingGroup struct{ section, name string }

func (l leaving) groups() []leavingGroup {
	return []leavingGroup{{"nodes", l.node}, {"namespaces", l.key.Namespace}}
}

// settleLeaving writes how many pods leave each node and namespace, and those
// whose deadline comes first.
func (w *World) settleLeaving() {
	for group := range w.leavingDirty {
		members := slices.SortedFunc(maps.Values(w.leaving[group]), func(a, b leaving) int {
			return cmp.Or(a.deadline.Compare(b.deadline), strings.Compare(a.key.String(), b.key.String()))
		})
		if len(members) == 0 {
			delete(w.leaving, group)
			prune(w.doc, "leaving", group.section, group.name)
			continue
		}
		pods := []any{}
		for _, l := range members[:min(w.options.MaxNames, len(members))] {
			pods = append(pods, map[string]any{
				"namespace": l.key.Namespace, "name": l.key.Name, "node": w.intern(l.node),
				"deadline": l.deadline.UTC().Format(time.RFC3339), "ended": l.ended,
			})
		}
		child(w.doc, "leaving", group.section)[group.name] = map[string]any{"count": len(members), "pods": pods}
	}
	clear(w.leavingDirty)
}

// occupy counts a pod, by the groups that it is found by, on the node that it needs
// to go.
func (w *World) occupy(paths [][]string, change int) {
	for _, path := range paths {
		if path[0] != "podsByNode" {
			continue
		}
		node := path[2]
		if w.placed[node] += change; w.placed[node] == 0 {
			delete(w.placed, node)
		}
		w.placedDirty[node] = true
	}
}

// settleGone writes the nodes that pods need to go and that do not exist: pod
// garbage collection takes what is on them. Where no node is seen, nothing tells;
// nor do the nodes among manifests, which need not be all that there are.
func (w *World) settleGone() {
	if len(w.placedDirty) == 0 || w.options.manifests {
		return
	}
	nodes := child(w.doc, "nodes")
	dirty := maps.Keys(w.placedDirty)
	if seen := len(nodes) > 0; seen != w.nodesSeen {
		w.nodesSeen = seen
		dirty = maps.Keys(w.placed)
		clear(child(w.doc, "gone"))
	}
	for node := range dirty {
		if _, there := nodes[node]; w.nodesSeen && !there && w.placed[node] > 0 {
			child(w.doc, "gone")[node] = map[string]any{}
		} else {
			prune(w.doc, "gone", node)
		}
	}
	clear(w.placedDirty)
}

// nodeBugs are the known bugs of the kubelet and the runtime of a node, by id.
func nodeBugs(node *corev1.Node) map[string]any {
	info := node.Status.NodeInfo
	runtime, _, _ := strings.Cut(info.ContainerRuntimeVersion, "://")
	found := map[string]any{}
	for component, version := range map[string]string{"kubelet": info.KubeletVersion, runtime: info.ContainerRuntimeVersion} {
		for id, bug := range catalog.Bugs(component, version) {
			found[id] = map[string]any{
				"component": component, "version": version,
				"affected": bug.Affected, "fixedIn": bug.FixedIn, "symptom": bug.Symptom, "source": bug.Source,
			}
		}
	}
	return found
}

// pressure is a condition of a node that is bad when it is True, as facts; nil
// where it is not.
func pressure(node *corev1.Node, kind corev1.NodeConditionType) map[string]any {
	for _, c := range node.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return map[string]any{"reason": c.Reason, "message": c.Message, "since": timestamp(c.LastTransitionTime)}
		}
	}
	return nil
}

// Hazards: what a running pod may leave on its node that keeps the kubelet from
// cleaning up after it.
const (
	hazardImmutable = "immutable" // files with an attribute that forbids removing them
	hazardMounts    = "mounts"    // mounts of its own in a directory of the kubelet
)

// hazards are those of a pod, as its manifest shows. Only an emptyDir on disk is
// removed file by file (pkg/volume/emptydir/empty_dir.go, teardownDefault);
// what is unmounted keeps its files.
func hazards(pod *corev1.Pod) []string {
	if pod.Status.Phase != corev1.PodRunning {
		return nil // nothing has run yet, or the API server removes it at once
	}
	scratch := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		scratch[v.Name] = v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
	}
	found := map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, m := range c.VolumeMounts {
			if !scratch[m.Name] {
				continue
			}
			if mayFreezeFiles(c) && freezesFiles.MatchString(strings.Join(slices.Concat(c.Command, c.Args), " ")) {
				found[hazardImmutable] = true
			}
			if ptrOr(m.MountPropagation, corev1.MountPropagationNone) == corev1.MountPropagationBidirectional {
				found[hazardMounts] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// freezesFiles matches a command that sets the attributes immutable or append-only.
var freezesFiles = regexp.MustCompile(`\bchattr\s+(-[A-Za-z]+\s+)*\+[A-Za-z]*[ia]`)

// mayFreezeFiles tells whether a container has CAP_LINUX_IMMUTABLE, without
// which the kernel refuses that.
func mayFreezeFiles(c corev1.Container) bool {
	s := c.SecurityContext
	if s == nil {
		return false
	}
	if ptrOr(s.Privileged, false) {
		return true
	}
	return s.Capabilities != nil && slices.ContainsFunc(s.Capabilities.Add, func(added corev1.Capability) bool {
		name := strings.TrimPrefix(strings.ToUpper(string(added)), "CAP_")
		return name == "LINUX_IMMUTABLE" || name == "ALL"
	})
}

// registrar is the directory that a CSI driver's sidecar registers with the
// kubelet of its node, usually named after the driver; ok is false for a pod
// that registers none, or will not come up by itself.
func registrar(pod *corev1.Pod) (dir string, ok bool) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil || failing(pod) != "" {
		return "", false
	}
	for _, c := range pod.Spec.Containers {
		if imageName(c.Image) != "csi-node-driver-registrar" {
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
