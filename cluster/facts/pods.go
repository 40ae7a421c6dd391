package facts

import (
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Finished tells whether a pod has ended for good.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// AnyReady tells whether an EndpointSlice has a ready endpoint. One that does not say is
// (k8s.io/api/discovery/v1, EndpointConditions).
func AnyReady(of *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(of.Endpoints, func(e discoveryv1.Endpoint) bool { return Or(e.Conditions.Ready, true) })
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
	for i, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := c.State.Waiting; waiting != nil && stuckReasons[waiting.Reason] && (waiting.Reason != "CrashLoopBackOff" || c.RestartCount >= oftenCrashed) {
			return waiting.Reason
		}
		done := i < len(pod.Status.InitContainerStatuses) && c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		if c.RestartCount >= oftenCrashed && !done && crashed(c.State.Terminated) && crashed(c.LastTerminationState.Terminated) {
			return "CrashLoopBackOff" // the kubelet says so once it looks again, up to 10 s later
		}
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

// Ready tells whether a pod is ready, and all its containers run: its condition may lag
// behind one that has ended, or waits for its next try.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated != nil || c.State.Waiting != nil })
}

// Stopped tells whether none of a pod's containers runs, of which its kubelet tells.
func Stopped(pod *corev1.Pod) bool {
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return len(all) > 0 && !slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// SteadyAfter is how long a container runs until a kubelet no longer counts its crashes
// (k8s.io/kubernetes, pkg/kubelet/kubelet.go: twice MaxContainerBackOff).
const SteadyAfter = 10 * time.Minute

// crashed tells whether a run of a container has ended so soon that the kubelet waits
// longer each time before it starts it again.
func crashed(run *corev1.ContainerStateTerminated) bool {
	return run != nil && run.FinishedAt.Sub(run.StartedAt.Time) <= SteadyAfter
}

// Crashed is when the containers of a pod that crash again and again were last started, in
// Unix time; 0 of one that does not, or waits for its next try (Failing). How the run before
// ended may be forgotten; that there were as many is not.
func Crashed(pod *corev1.Pod) (last int64) {
	for _, c := range pod.Status.ContainerStatuses {
		before := c.LastTerminationState.Terminated
		steady := before != nil && !crashed(before)
		if c.RestartCount >= oftenCrashed && c.State.Running != nil && !steady {
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
