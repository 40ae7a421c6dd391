package facts

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// AnyReady reports whether an EndpointSlice has a ready endpoint; an unset condition means ready
// (k8s.io/api/discovery/v1, EndpointConditions).
func AnyReady(of *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(of.Endpoints, func(e discoveryv1.Endpoint) bool { return Or(e.Conditions.Ready, true) })
}

// stuckReasons are the waiting reasons that persist (k8s.io/kubernetes, pkg/kubelet/images/types.go and
// pkg/kubelet/kuberuntime).
var stuckReasons = map[string]bool{
	"CrashLoopBackOff": true, "ImagePullBackOff": true, "ErrImagePull": true, "InvalidImageName": true,
	"ErrImageNeverPull": true, "CreateContainerConfigError": true, "CreateContainerError": true,
}

// oftenCrashed is the least number of restarts of a crashing container: losing a lease is a crash, too.
const oftenCrashed = 3

// Failing returns the reason why a pod will not become ready without a change, or "".
func Failing(pod *corev1.Pod) string {
	for i, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := c.State.Waiting; waiting != nil && stuckReasons[waiting.Reason] && (waiting.Reason != "CrashLoopBackOff" || c.RestartCount >= oftenCrashed) {
			return waiting.Reason
		}
		done := i < len(pod.Status.InitContainerStatuses) && c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		if c.RestartCount >= oftenCrashed && !done && crashed(c.State.Terminated) && crashed(c.LastTerminationState.Terminated) {
			return "CrashLoopBackOff" // the kubelet reports it with up to 10 s delay
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

// Ready reports whether a pod is ready and all its containers run: its condition may lag behind.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated != nil || c.State.Waiting != nil })
}

// Stopped reports whether the kubelet reports containers, and none of them runs.
func Stopped(pod *corev1.Pod) bool {
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return len(all) > 0 && !slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// SteadyAfter is how long a container runs until a kubelet resets its backoff (k8s.io/kubernetes,
// pkg/kubelet/kubelet.go: twice MaxContainerBackOff).
const SteadyAfter = 10 * time.Minute

// crashed reports whether a run ended so soon that the kubelet increases its backoff.
func crashed(run *corev1.ContainerStateTerminated) bool {
	return run != nil && run.FinishedAt.Sub(run.StartedAt.Time) <= SteadyAfter
}

// Crashed returns when a pod's crashing containers were last started, in Unix time, after any crash and after
// many; 0 if none crashes, or one waits to restart (Failing). If there were many restarts, a missing
// termination state is a crash.
func Crashed(pod *corev1.Pod) (last, often int64) {
	for _, c := range pod.Status.ContainerStatuses {
		before, many := c.LastTerminationState.Terminated, c.RestartCount >= oftenCrashed
		if c.State.Running == nil || !crashed(before) && !(before == nil && many) {
			continue
		}
		started := c.State.Running.StartedAt.Unix()
		if last = max(last, started); many {
			often = max(often, started)
		}
	}
	return last, often
}
