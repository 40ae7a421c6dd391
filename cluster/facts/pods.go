package facts

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Finished tells whether a pod has ended for good.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// stuckReasons are the waiting reasons that do not pass by themselves
// (k8s.io/kubernetes, pkg/kubelet/images/types.go and pkg/kubelet/kuberuntime).
var stuckReasons = map[string]bool{
	"CrashLoopBackOff": true, "ImagePullBackOff": true, "ErrImagePull": true, "InvalidImageName": true,
	"ErrImageNeverPull": true, "CreateContainerConfigError": true, "CreateContainerError": true,
}

// oftenCrashed is how often a container must have crashed before that counts as
// not passing by itself: one that loses its lease crashes, too.
const oftenCrashed = 3

// Failing is the proof that a pod will not become ready by itself.
func Failing(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := c.State.Waiting
		if waiting == nil || !stuckReasons[waiting.Reason] || waiting.Reason == "CrashLoopBackOff" && c.RestartCount < oftenCrashed {
			continue
		}
		return waiting.Reason
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason
		}
	}
	if pod.Status.Reason == "NodeLost" {
		return pod.Status.Reason
	}
	return ""
}

// Crashed is when the containers of a pod that crash again and again were last started, in
// Unix time; 0 of one that does not, or waits for its next try (Failing).
func Crashed(pod *corev1.Pod) (last int64) {
	for _, c := range pod.Status.ContainerStatuses {
		if c.RestartCount >= oftenCrashed && c.State.Running != nil && c.LastTerminationState.Terminated != nil {
			last = max(last, c.State.Running.StartedAt.Unix())
		}
	}
	return last
}

// ImageName is the last path element of an image reference, without tag and
// digest.
func ImageName(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	name, _, _ := strings.Cut(path.Base(ref), ":")
	return name
}
