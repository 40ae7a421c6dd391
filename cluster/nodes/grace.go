package nodes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/termguard/termguard/cluster/facts"
)

const (
	// minimumGrace is what the kubelet leaves a container however late it is
	// asked to stop, in seconds (pkg/kubelet/kuberuntime/kuberuntime_container.go,
	// minimumGracePeriodInSeconds).
	minimumGrace = 2
	// maxGrace bounds what is told, in seconds: 68 years. The API takes any
	// int64, and beyond 292 years the kubelet's own arithmetic overflows.
	maxGrace = 1<<31 - 16
)

// graceSeconds is a pod's grace period as the API server reads it: a negative
// one is 1 (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
func graceSeconds(pod *corev1.Pod) int64 {
	grace := facts.Or(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if grace < 0 {
		return 1
	}
	return min(grace, maxGrace)
}

// stopSeconds is how long the containers of a pod may take to stop, as
// killContainer reckons: a preStop hook and a sidecar's wait for the other
// containers are part of the grace period, and what is left after them is never
// less than minimumGrace. Where nothing runs there is nothing to wait for; a
// mirror pod goes as soon as its kubelet sees it
// (pkg/kubelet/kubelet.go, tryReconcileMirrorPods).
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
		hook := grace // as long as it may
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

// nothingRuns tells whether all containers of a pod wait, for their image or to
// be restarted, or have ended.
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
