package nodes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/termguard/termguard/cluster/facts"
)

const (
	// minimumGrace is the least time, in seconds, that the kubelet gives a container to stop
	// (pkg/kubelet/kuberuntime/kuberuntime_container.go, minimumGracePeriodInSeconds).
	minimumGrace = 2
	// maxGrace bounds grace periods, in seconds: the API accepts any int64, and beyond 292 years the kubelet's
	// own arithmetic overflows.
	maxGrace = 1<<31 - 16
)

// graceSeconds reads a grace period as the API server does: negative values become 1
// (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
func graceSeconds(pod *corev1.Pod) int64 {
	grace := facts.Or(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if grace < 0 {
		return 1
	}
	return min(grace, maxGrace)
}

// stopSeconds returns how long a pod's containers may take to stop, as in killContainer: preStop hooks and a
// sidecar's wait count towards the grace period, and at least minimumGrace remains. Mirror pods take 0: the
// kubelet removes them at once (pkg/kubelet/kubelet.go, tryReconcileMirrorPods).
func stopSeconds(pod *corev1.Pod) int64 {
	grace := graceSeconds(pod)
	if grace == 0 || isMirror(pod) || nothingRuns(pod) {
		return 0
	}
	seconds := max(grace, minimumGrace)
	for _, c := range pod.Spec.Containers {
		if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
			continue
		}
		hook := grace // unbounded hooks may take all of it
		if sleep := c.Lifecycle.PreStop.Sleep; sleep != nil {
			hook = min(grace, sleep.Seconds)
		}
		seconds = max(seconds, hook+minimumGrace)
	}
	for _, c := range pod.Spec.InitContainers {
		if facts.Or(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			seconds = max(seconds, grace+minimumGrace)
		}
	}
	return seconds
}

func nothingRuns(pod *corev1.Pod) bool {
	idle := map[string]bool{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		idle[s.Name] = s.State.Waiting != nil || s.State.Terminated != nil
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if !idle[c.Name] {
			return false
		}
	}
	return len(pod.Spec.Containers) > 0
}
