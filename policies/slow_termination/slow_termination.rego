# METADATA
# title: Pod that takes long to stop
# description: >-
#   A pod may take its whole grace period to stop, and a little more. It starts
#   with the preStop hook, which is part of the grace period; then TERM is sent,
#   and KILL at the end. A container whose hook, or whose wait for its turn, has
#   used up the grace period still gets 2 seconds. A namespace waits for the slowest
#   of its pods before it deletes anything else. What is on a node that does not
#   exist any more, or is tainted out-of-service, pod garbage collection removes, at
#   its own pace. All this is slow and no hang: it is told where it takes longer than
#   data.params["slow-termination"].seconds, 60 by default.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
#     description: How a pod is stopped.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kuberuntime/kuberuntime_container.go
#     description: The arithmetic (killContainer, minimumGracePeriodInSeconds).
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/registry/core/pod/strategy.go
#     description: What the API server makes of a grace period (CheckGracefulDelete).
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/podgc/gc_controller.go
#     description: Pod garbage collection, its period and its quarantine.
# custom:
#   id: slow-termination
#   severity: info
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.podsByGrace.$NAMESPACE, input.request.oldObject.spec.containers, data.cluster.pods.$NAMESPACE]
#   remedy: >-
#     Wait: it finishes by itself. To make it faster for good, let the program
#     end on TERM (a shell as PID 1 does not pass it on: use exec, or an init such as
#     tini), shorten the preStop hook, or set a smaller
#     terminationGracePeriodSeconds. Last, kubectl delete pod --grace-period=SECONDS
#     with a smaller number: what a container has not finished by then is lost.
#   limits: >-
#     The estimate is an upper bound. Whether the program ends on TERM, and so
#     much sooner, is in its image: a PID 1 that ignores TERM cannot be told from
#     one that does not, and a shell in the manifest is only a hint. Of an
#     eviction, hooks and sidecars are not counted. Since when a node does not exist
#     is not known: what it held may go at once. Stopping a container is work: a
#     hundred pods of one small node at once take longer.
package termguard.slow_termination

import data.termguard.lib

warn contains {
	"msg": sprintf("this pod may take up to %d s to stop: its grace period is %d s", [stops, grace]),
	"objects": [lib.target],
	"evidence": array.concat([sprintf("grace period %d s, from %s", [grace, source])], evidence),
	"estimate_seconds": min([stops, longest]) + removal,
} if {
	stops > threshold
	count(collected) == 0
}

warn contains {
	"msg": sprintf(
		"%d %s may take up to %d s to stop, and the rest of the namespace waits for that",
		[slowest.pods.count, lib.plural(slowest.pods.count, "pod", "pods"), slowest.seconds],
	),
	"objects": [{"resource": "pods", "namespace": lib.name, "name": name} | some name in slowest.pods.names],
	"evidence": [],
	"estimate_seconds": (slowest.seconds + removal) + passes,
} if {
	slowest.seconds > threshold
	some node, _ in data.cluster.podsByNode[lib.name]
	not collected[node]
}

warn contains {
	"msg": sprintf(
		"%s on node %s, which %s: pod garbage collection removes %s within %d s",
		[lib.who(group.pods), node, group.state, object_pronoun(group.pods.count), group.seconds],
	),
	"objects": lib.named(group.pods),
	"evidence": [],
	"estimate_seconds": (group.seconds + removal) + again(group.seconds),
} if {
	some node, group in collected
	group.seconds > threshold
}

# collected are the pods that need no kubelet to go, by node: pod garbage
# collection looks every 20 s, and keeps a node that it misses in quarantine for 40 s
# (pkg/controller/podgc/gc_controller.go, gcCheckPeriod and quarantineTime).
collected[node] := {"pods": pods, "seconds": (20 + 40) + 20, "state": "does not exist any more"} if {
	some node, pods in lib.waiting(data.cluster.gone)
}

collected[node] := {"pods": pods, "seconds": 20, "state": "is out of service"} if {
	some node, pods in lib.waiting(data.cluster.notReady)
	data.cluster.notReady[node].outOfService
}

# again is what the namespace controller adds, in seconds: from when their grace
# period is over until the pods are gone it fails, and looks again after twice as long
# each time, a minute at most (pkg/controller/namespace/namespace_controller.go).
again(_) := 0 if not lib.deletes_namespace

again(seconds) := max([min([seconds, 60]), floor(slowest.seconds / 2)]) + passes if lib.deletes_namespace

object_pronoun(1) := "it"

object_pronoun(n) := "them" if n != 1

default threshold := 60

threshold := data.params["slow-termination"].seconds

# slowest are the pods of a namespace that take the longest.
slowest := {"seconds": seconds, "pods": data.cluster.podsByGrace[lib.name][format_int(seconds, 10)]} if {
	lib.deletes_namespace
	seconds := max([to_number(key) | some key, _ in data.cluster.podsByGrace[lib.name]])
}

# stops is the upper bound, in seconds, for the containers of a pod: without a
# grace period the API server removes it at once.
stops := max(array.concat([grace, minimum], late)) if grace > 0

# removal is what the kubelet needs after that, in seconds: to notice, to unmount
# the volumes and to remove the cgroup. It measures 0.3 to 2.2 s (docs/node.md).
removal := 1

# passes is what the namespace controller adds, in seconds: it waits 5 s before it
# begins, and looks again after half the longest grace period
# (pkg/controller/namespace/namespace_controller.go). It measures 6 to 12 s.
passes := 10

# minimum is what the kubelet leaves a container after its hook or its wait, in
# seconds (minimumGracePeriodInSeconds).
minimum := 2

# late are the seconds after which containers that start to stop late are gone.
late := array.concat(
	[seconds |
		some container in pod.spec.containers
		not container.name in idle
		seconds := min([grace, object.get(container.lifecycle.preStop, ["sleep", "seconds"], grace)]) + minimum
	],
	[seconds |
		some container in pod.spec.initContainers
		container.restartPolicy == "Always" # a sidecar, which waits for the others
		seconds := grace + minimum
	],
)

# pod is the one under review. It has finished, or no node runs it: then it has
# no grace period.
pod := input.request.oldObject if {
	lib.deleting
	lib.resource == "pods"
}

# An eviction carries no pod.
pod := {"spec": {"nodeName": known.node, "terminationGracePeriodSeconds": seconds}, "status": {"phase": known.phase}} if {
	lib.evicting
	known := data.cluster.pods[lib.namespace][lib.name]
	seconds := object.get(known, "gracePeriodSeconds", 30)
}

# longest bounds what is told, in seconds: 68 years. The API takes any number.
longest := 2147483632

default grace := 0

grace := positive(asked) if {
	object.get(pod.spec, "nodeName", "") != ""
	not object.get(pod, ["status", "phase"], "") in lib.finished
	not nothing_runs
	not mirrored
}

# mirrored is a pod that shows a static one of its node: the kubelet removes it,
# and makes it anew, as soon as it sees that it is deleted.
mirrored if pod.metadata.annotations["kubernetes.io/config.mirror"]

# nothing_runs of a pod whose containers all wait, for their image or to be
# restarted, or have ended: there is nothing to stop. Of an eviction they are not
# known.
nothing_runs if {
	every container in pod.spec.containers {
		container.name in idle
	}
	every container in object.get(pod.spec, "initContainers", []) {
		container.name in idle
	}
}

# idle are the containers that do not run.
idle contains status.name if {
	some statuses in ["containerStatuses", "initContainerStatuses"]
	some status in pod.status[statuses]
	some state in ["waiting", "terminated"]
	status.state[state]
	not object.get(status.state[state], "reason", "") in starting
}

# starting are the reasons to wait of a container that is about to run.
starting := {"ContainerCreating", "PodInitializing"}

# positive is what the API server reads a grace period as.
positive(seconds) := seconds if seconds >= 0

positive(seconds) := 1 if seconds < 0

# asked is the grace period that the request names; that of the pod, otherwise.
asked := seconds if {
	some seconds in requested
} else := object.get(pod.spec, "terminationGracePeriodSeconds", 30)

requested contains input.request.options.gracePeriodSeconds if lib.deleting

requested contains input.request.object.deleteOptions.gracePeriodSeconds if lib.evicting

source := "the request" if count(requested) > 0

source := "the pod" if count(requested) == 0

evidence := array.concat(
	[sprintf("container %s has a preStop hook, which runs within the grace period", [container.name]) |
		some container in pod.spec.containers
		container.lifecycle.preStop
	],
	[sprintf("container %s starts as a shell, which may not pass TERM on: use exec", [container.name]) |
		some container in pod.spec.containers
		regex.match(`^([^ ]*/)?(ba|da|a|z|k)?sh -c `, line(container))
		not regex.match(`\bexec\b`, line(container))
	],
)

line(container) := concat(" ", array.concat(object.get(container, "command", []), object.get(container, "args", [])))
