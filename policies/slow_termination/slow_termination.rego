# METADATA
# title: Pod that takes long to stop
# description: >-
#   A pod may take its whole grace period to stop. The preStop hook comes first and is
#   part of it; then TERM is sent, and KILL at the end. A container whose hook, or whose
#   wait for its turn, has used up the grace period still gets 2 seconds. A namespace
#   waits for the slowest of its pods before it deletes anything else. If the node of a
#   pod no longer exists, or is tainted out-of-service, pod garbage collection removes the
#   pod at its own pace. This is slow, but it does not hang. The policy reports pods that
#   take longer than data.params["slow-termination"].seconds, 60 by default, and the
#   duration of a drain.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
#     description: How a pod is stopped.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kuberuntime/kuberuntime_container.go
#     description: The arithmetic (killContainer, minimumGracePeriodInSeconds).
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/registry/core/pod/strategy.go
#     description: How the API server treats a grace period (CheckGracefulDelete).
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/podgc/gc_controller.go
#     description: Pod garbage collection, its period and its quarantine.
# custom:
#   id: slow-termination
#   severity: info
#   class: order
#   triggers: [delete]
#   resources: [namespaces, nodes, pods]
#   needs:
#     - data.cluster.podsByGrace.$NAMESPACE for namespaces
#     - input.request.subResource for nodes
#     - input.request.oldObject.spec.terminationGracePeriodSeconds over 58 and input.request.oldObject.spec.nodeName
#     - data.cluster.pods.$NAMESPACE.$NAME.gracePeriodSeconds over 58
#     - input.request.options.gracePeriodSeconds over 58 and input.request.oldObject.spec.nodeName
#     - input.request.object.deleteOptions.gracePeriodSeconds over 58
#     - data.cluster.gone
#     - data.params.slow-termination.seconds
#   remedy: >-
#     Wait: the deletion finishes by itself. To make it faster, let the program end on TERM
#     (a shell as PID 1 does not forward it: use exec, or an init such as tini), shorten the
#     preStop hook, or set a smaller terminationGracePeriodSeconds. As a last resort, use
#     kubectl delete pod --grace-period=SECONDS with a smaller number: unfinished work of a
#     container is lost.
#   manifest:
#     remedy: >-
#       Let the program end on TERM (a shell as PID 1 does not forward it: use exec, or an
#       init such as tini), shorten the preStop hook, or set a smaller
#       terminationGracePeriodSeconds.
#   limits: >-
#     The estimate is an upper bound: whether the program ends on TERM depends on its
#     image. For an eviction, hooks and sidecars are not counted. The time since a node
#     was deleted is unknown: its pods may be removed at once. For many pods of one node
#     the estimate includes the work of its processors; a busy node takes longer.
package termguard.slow_termination

import data.termguard.lib.grace
import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.wording

warn contains {
	"msg": sprintf("this pod may take up to %d s to stop: its grace period is %d s", [stops, period]),
	"objects": [request.target],
	"evidence": array.concat([sprintf("grace period %d s, from %s", [period, source])], evidence),
	"estimate_seconds": min([stops, longest]) + removal,
} if {
	grace.effective(pod.spec) + grace.minimum > threshold # cheap, and false for most pods
	stops > threshold
	count(collected) == 0
}

warn contains {
	"msg": sprintf(
		"%d %s may take up to %d s to stop, and the rest of the namespace waits",
		[slowest.pods.count, wording.plural(slowest.pods.count, "pod", "pods"), slowest.seconds],
	),
	"objects": [{"resource": "pods", "namespace": request.name, "name": name} | some name in slowest.pods.names],
	"evidence": [],
	"estimate_seconds": ((slowest.seconds + removal) + passes) + crowd,
} if {
	request.deletes_namespace
	slowest.seconds > threshold
	some node, _ in data.cluster.podsByNode[request.name]
	not collected[node]
}

# A drain evicts its pods in parallel.
warn contains {
	"msg": sprintf(
		"%d %s may take up to %d s to stop, and the drain waits",
		[last.count, wording.plural(last.count, "pod", "pods"), seconds],
	),
	"objects": [{"resource": "pods", "namespace": namespace, "name": name} |
		some key in last.names
		[namespace, name] := split(key, "/")
	],
	"evidence": [],
	"estimate_seconds": (seconds + removal) + work(request.name, evicted),
} if {
	request.draining
	groups := data.cluster.drainedByGrace[request.name]
	seconds := max([to_number(key) | some key, _ in groups])
	last := groups[format_int(seconds, 10)]
	evicted := sum([group.count | some group in groups])
}

warn contains {
	"msg": sprintf(
		"node %s %s: pod garbage collection removes %s within %d s",
		[node, group.state, pods.subject(group.pods), group.seconds],
	),
	"objects": pods.named(group.pods),
	"evidence": [],
	"estimate_seconds": (group.seconds + removal) + again(group.seconds),
} if {
	amiss # cheap, and false in most clusters
	some node, group in collected
	group.seconds > threshold
}

amiss if count(data.cluster.gone) > 0

amiss if count(data.cluster.notReady) > 0

# collected lists the pods without a kubelet, by node: garbage collection runs every 20 s, and
# keeps a missing node in quarantine for 40 s (pkg/controller/podgc/gc_controller.go,
# gcCheckPeriod and quarantineTime).
collected[node] := {"pods": held, "seconds": (20 + 40) + 20, "state": "no longer exists"} if {
	some node, held in pods.waiting(data.cluster.gone)
}

collected[node] := {"pods": held, "seconds": 20, "state": "is out of service"} if {
	some node, held in pods.waiting(data.cluster.notReady)
	data.cluster.notReady[node].outOfService
}

# again is in seconds: the namespace controller fails until the pods are deleted, and backs off
# for a minute at most (pkg/controller/namespace/namespace_controller.go).
again(_) := 0 if not request.deletes_namespace

again(seconds) := max([min([seconds, 60]), floor(slowest.seconds / 2)]) + passes if request.deletes_namespace

threshold := object.get(data.params, ["slow-termination", "seconds"], 60)

# slowest lists the pods of a namespace that take the longest.
slowest := {"seconds": grace.slowest, "pods": data.cluster.podsByGrace[request.name][format_int(grace.slowest, 10)]}

# stops is an upper bound in seconds. The API server removes a pod without a grace period at
# once.
stops := grace.stops(pod.spec, period, idle) if period > 0

# removal is in seconds: notice, unmount, remove the cgroup. Measured: 0.3 to 2.2 s
# (test/results/node.md).
removal := 1

# passes is in seconds: the namespace controller waits 5 s, and runs again after half the longest
# grace period (pkg/controller/namespace/namespace_controller.go). Measured: 6 to 12 s.
passes := 10

crowd := max(array.concat([0], [work(node, held.count) |
	some node, held in data.cluster.podsByNode[request.name]
]))

work(node, count_of) := floor((count_of * object.get(data.cluster.nodes, [node, "stopMillis"], 0)) / 1000)

# A pod that has finished, or that no node runs, has no grace period.
pod := pods.reviewed

# longest is in seconds: the API accepts any number.
longest := 2147483632

default period := 0

period := grace.effective(pod.spec) if {
	object.get(pod.spec, "nodeName", "") != ""
	not object.get(pod, ["status", "phase"], "") in pods.finished
	not nothing_runs
	not mirrored
}

# mirrored: the kubelet removes and recreates the pod of a static pod as soon as it is deleted.
mirrored if pod.metadata.annotations["kubernetes.io/config.mirror"]

# nothing_runs reports whether all containers wait or have ended. An eviction does not show them.
nothing_runs if {
	every container in pod.spec.containers {
		container.name in idle
	}
	every container in object.get(pod.spec, "initContainers", []) {
		container.name in idle
	}
}

idle contains status.name if {
	some statuses in ["containerStatuses", "initContainerStatuses"]
	some status in pod.status[statuses]
	some state in ["waiting", "terminated"]
	status.state[state]
	not object.get(status.state[state], "reason", "") in starting
}

# starting are waiting reasons of a container that is about to run.
starting := {"ContainerCreating", "PodInitializing"}

source := "the request" if count(grace.requested) > 0

source := "the pod" if count(grace.requested) == 0

evidence := array.concat(
	[sprintf("container %s has a preStop hook, which runs within the grace period", [container.name]) |
		some container in pod.spec.containers
		container.lifecycle.preStop
	],
	[sprintf("container %s starts as a shell, which may not forward TERM: use exec", [container.name]) |
		some container in pod.spec.containers
		regex.match(`^([^ ]*/)?(ba|da|a|z|k)?sh -c `, line(container))
		not regex.match(`\bexec\b`, line(container))
	],
)

line(container) := concat(" ", array.concat(object.get(container, "command", []), object.get(container, "args", [])))
