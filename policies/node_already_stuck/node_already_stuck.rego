# METADATA
# title: Pod on a node that is stuck already
# description: >-
#   A node that counts as ready may still be unable to remove a pod: its runtime does not
#   answer, a process cannot be killed, a cgroup or a directory cannot be removed. The
#   signs are pods that are overdue for more than a minute, and events of a kubelet that
#   cannot stop a container. Other pods on the node, and their namespaces, may hang, too.
# related_resources:
#   - ref: https://github.com/kubernetes/node-problem-detector/blob/master/config/kernel-monitor.json
#     description: Conditions that node-problem-detector sets on a stuck node.
#   - ref: https://github.com/containerd/containerd/issues/3617
#     description: A shim that hangs.
#   - ref: https://github.com/containerd/containerd/issues/8847
#     description: A container that cannot be killed.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kubelet.go
#     description: The work of the kubelet before a pod is deleted (SyncTerminatingPod, SyncTerminatedPod).
# custom:
#   id: node-already-stuck
#   severity: high
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs:
#     - data.cluster.kubeletEvents and data.cluster.podsByNode.$NAMESPACE for namespaces
#     - data.cluster.leaving.nodes and data.cluster.podsByNode.$NAMESPACE for namespaces
#     - data.cluster.kubeletEvents and input.request.oldObject.spec.nodeName
#     - data.cluster.leaving.nodes and input.request.oldObject.spec.nodeName
#     - data.cluster.kubeletEvents and input.request.subResource # evictions carry no pod
#     - data.cluster.leaving.nodes and input.request.subResource
#     - data.cluster.probes
#     - data.cluster.nodeProblems
#   remedy: >-
#     Look at the log of the kubelet on that node: from verbosity 3 on it names the reason.
#     Restart the container runtime there, which ends most shims that hang. Reboot the node
#     if processes in state D or Z cannot be killed. The deletion then finishes by itself.
#     As a last resort, kubectl delete pod --force --grace-period=0 removes only the object:
#     its processes keep running.
#   limits: >-
#     Without node probes (termguard probe), there is no sign before the first pod hangs
#     on a node. Events are deleted after an hour, and a Terminating namespace accepts no
#     new ones. The policy reads only the five pods of a node or a namespace with the
#     earliest deadlines.
package termguard.node_already_stuck

import data.termguard.lib.events
import data.termguard.lib.grace
import data.termguard.lib.nodes
import data.termguard.lib.pods
import data.termguard.lib.probes
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times
import data.termguard.lib.wording

deny contains lingering if {
	count(stuck_here) > 0
}

deny contains finding(node, held, "will") if {
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	events.lasting(failures(node))
}

# Processes that a probe sees on the node before the delete.
deny contains probed(node, held, "will") if {
	some node, held in probes.will("stuck")
}

warn contains finding(node, held, "may") if {
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	count(failures(node)) > 0
	not events.lasting(failures(node))
}

# One pod whose containers have ended may have its own reason; several share the node's.
warn contains {
	"msg": pods.stay(node, why, held, "may"),
	"cause": pods.because(node, why),
	"objects": pods.on(node, held),
	"evidence": array.concat(
		[sprintf("Terminating pods on node %s: %d", [node, leaving.count])],
		[sprintf("one has been overdue since %s: %s", [pod.deadline, stage(pod)]) | some pod in others],
	),
	"steps": plan(node, held),
} if {
	some node, held in pods.waiting(data.cluster.leaving.nodes)
	nodes.serves(node)
	leaving := data.cluster.leaving.nodes[node]
	others := [pod |
		some pod in grace.overdue(leaving)
		not pods.about(pod)
	]
	telling(others)
	why := sprintf("has other pods overdue for %s", [times.duration(times.since(others[0].deadline))])
}

warn contains probed(node, held, "may") if {
	some node, held in probes.may("stuck")
}

warn contains probes.finding(why, node, held, "may", plan(node, held)) if {
	some cause, why in {
		"runtime": "has a container runtime that does not answer",
		"readOnly": "has a read-only file system of kubelet or runtime",
	}
	some node, held in probes.everywhere({cause})
}

# Conditions of node-problem-detector.
warn contains {
	"msg": pods.stay(node, why, held, "may"),
	"cause": pods.because(node, why),
	"objects": pods.on(node, held),
	"evidence": [sprintf("condition %s of the node since %s: %s: %s", [p.type, p.since, p.reason, p.message]) |
		some p in problems
	],
	"steps": plan(node, held),
} if {
	some node, held in pods.waiting(data.cluster.nodeProblems)
	nodes.serves(node)
	problems := data.cluster.nodeProblems[node]
	why := sprintf("has condition %s", [problems[0].type])
}

telling(others) if count(others) > 1

telling(others) if {
	some pod in others
	not pod.ended
}

stuck_here := [pod |
	request.deletes_namespace
	some pod in grace.overdue(data.cluster.leaving.namespaces[request.name])
	nodes.serves(pod.node)
]

lingering := {
	"msg": sprintf(
		"%d %s already Terminating, %s longer than %s grace period: %s",
		[
			held.count, wording.plural(held.count, "pod is", "pods are"),
			times.duration(times.since(stuck_here[0].deadline)), wording.plural(held.count, "its", "their"),
			stage(stuck_here[0]),
		],
	),
	"objects": array.concat(
		pods.named(held),
		[{"resource": "nodes", "namespace": "", "name": node} | some node in on],
	),
	"evidence": [sprintf("pod %s has been overdue since %s: %s", [pod.name, pod.deadline, stage(pod)]) |
		some pod in stuck_here
	],
	"steps": plan(concat(", ", on), held),
} if {
	held := {"namespace": request.name, "names": [pod.name | some pod in stuck_here], "count": count(stuck_here)}
	on := {pod.node | some pod in stuck_here}
}

stage(pod) := "its containers have ended, but its node has not cleaned up after it" if pod.ended

stage(pod) := "its containers still run" if not pod.ended

failures(node) := [event |
	nodes.serves(node)
	some event in events.of(node, {"stuck"})
]

finding(node, held, certainty) := {
	"msg": pods.stay(node, why, held, certainty),
	"cause": pods.because(node, why),
	"objects": pods.on(node, held),
	"evidence": events.evidence(failures(node)),
	"steps": plan(node, held),
} if {
	why := sprintf("fails to stop containers (%s)", [failures(node)[0].reason])
}

probed(node, held, certainty) := probes.finding(
	"has processes that cannot be killed",
	node, held, certainty, plan(node, held),
)

plan(node, held) := array.concat(
	[
		steps.mend(sprintf("Look at the log of the kubelet on node %s: from verbosity 3 on it names the reason.", [node]), []),
		steps.mend(sprintf("Restart the container runtime on node %s: running containers survive that.", [node]), []),
		steps.mend(sprintf("Drain and reboot node %s if processes there cannot be killed (state D or Z).", [node]), []),
	],
	steps.hearsay("events of the kubelet", steps.forced(held.namespace, held.names)),
)
