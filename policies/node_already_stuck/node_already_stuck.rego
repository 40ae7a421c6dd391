# METADATA
# title: Pod on a node that is stuck already
# description: >-
#   A node that counts as ready may still be unable to remove a pod: its runtime does not
#   answer, a process cannot be killed, a cgroup or a directory cannot be removed. The
#   signs are pods that should have been gone for longer than a minute, and events of a
#   kubelet that cannot stop a container. A namespace with such a pod stays Terminating
#   with it, and other pods on the node may hang, too.
# related_resources:
#   - ref: https://github.com/kubernetes/node-problem-detector/blob/master/config/kernel-monitor.json
#     description: Conditions by which node-problem-detector tells of a node that is stuck.
#   - ref: https://github.com/containerd/containerd/issues/3617
#     description: A shim that hangs.
#   - ref: https://github.com/containerd/containerd/issues/8847
#     description: A container that cannot be killed.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kubelet.go
#     description: What the kubelet does before it lets a pod go (SyncTerminatingPod, SyncTerminatedPod).
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
#     Look at the log of the kubelet on that node: from verbosity 3 on it names the
#     reason. Restart the container runtime there, which ends most shims that hang. Reboot
#     the node if processes in state D or Z cannot be killed. The deletion then finishes
#     by itself. Last, kubectl delete pod --force --grace-period=0 removes only the
#     object: what runs there keeps running.
#   limits: >-
#     Without node probes (termguard probe), the first pod that hangs on a node comes
#     without a sign. Events are lost after an
#     hour, and in a Terminating namespace new ones are refused. Only five pods of a node
#     or a namespace are looked at, those whose deadline came first.
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
	events.lasting(told(node))
}

# Processes that a probe sees on the node before the delete.
deny contains probed(node, held, "will") if {
	some node, held in probes.will("stuck")
}

warn contains finding(node, held, "may") if {
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	count(told(node)) > 0
	not events.lasting(told(node))
}

# Other pods on the node: one whose containers have ended may have its own reason, several share
# that of the node.
warn contains {
	"msg": sprintf(
		"%s on node %s, where other pods should have been gone for %s, so %s may stay Terminating",
		[pods.who(held), node, times.duration(times.since(others[0].deadline)), pods.they(held)],
	),
	"cause": pods.because(
		node,
		sprintf("where other pods should have been gone for %s", [times.duration(times.since(others[0].deadline))]),
	),
	"objects": pods.on(node, held),
	"evidence": array.concat(
		[sprintf("pods that are being deleted on node %s: %d", [node, leaving.count])],
		[sprintf("one should have been gone by %s: %s", [pod.deadline, stage(pod)]) | some pod in others],
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
}

warn contains probed(node, held, "may") if {
	some node, held in probes.may("stuck")
}

warn contains probes.finding(msg, "whose container runtime does not answer", node, held, plan(node, held)) if {
	some node, held in probes.everywhere({"runtime"})
	msg := sprintf(
		"%s on node %s, whose container runtime does not answer, so %s may stay Terminating",
		[pods.who(held), node, pods.they(held)],
	)
}

warn contains probes.finding(msg, why, node, held, plan(node, held)) if {
	some node, held in probes.everywhere({"readOnly"})
	why := "where a file system of kubelet or runtime is read-only"
	msg := sprintf(
		"%s on node %s, where a file system of kubelet or runtime is read-only, so %s may stay Terminating",
		[pods.who(held), node, pods.they(held)],
	)
}

# What node-problem-detector says, where it is installed.
warn contains {
	"msg": sprintf(
		"%s on node %s, whose condition %s is True, so %s may stay Terminating",
		[pods.who(held), node, problems[0].type, pods.they(held)],
	),
	"cause": pods.because(node, sprintf("whose condition %s is True", [problems[0].type])),
	"objects": pods.on(node, held),
	"evidence": [sprintf("condition %s of the node since %s: %s: %s", [p.type, p.since, p.reason, p.message]) |
		some p in problems
	],
	"steps": plan(node, held),
} if {
	some node, held in pods.waiting(data.cluster.nodeProblems)
	nodes.serves(node)
	problems := data.cluster.nodeProblems[node]
}

telling(others) if count(others) > 1

telling(others) if {
	some pod in others
	not pod.ended
}

# stuck_here lists the overdue pods of the namespace under review.
stuck_here := [pod |
	request.deletes_namespace
	some pod in grace.overdue(data.cluster.leaving.namespaces[request.name])
	nodes.serves(pod.node)
]

lingering := {
	"msg": sprintf(
		"%d %s Terminating already, for %s longer than %s grace period: %s",
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
	"evidence": [sprintf("pod %s should have been gone by %s: %s", [pod.name, pod.deadline, stage(pod)]) |
		some pod in stuck_here
	],
	"steps": plan(concat(", ", on), held),
} if {
	held := {"namespace": request.name, "names": [pod.name | some pod in stuck_here], "count": count(stuck_here)}
	on := {pod.node | some pod in stuck_here}
}

stage(pod) := "its containers have ended, but its node has not cleaned up after it" if pod.ended

stage(pod) := "its containers still run" if not pod.ended

# told lists the events of a node about containers that cannot be stopped.
told(node) := [event |
	nodes.serves(node)
	some event in events.of(node, {"stuck"})
]

finding(node, held, certainty) := {
	"msg": sprintf(
		"%s on node %s, whose kubelet fails to stop containers (%s), so %s %s stay Terminating",
		[pods.who(held), node, told(node)[0].reason, pods.they(held), certainty],
	),
	"cause": pods.because(node, sprintf("whose kubelet fails to stop containers (%s)", [told(node)[0].reason])),
	"objects": pods.on(node, held),
	"evidence": events.evidence(told(node)),
	"steps": plan(node, held),
}

probed(node, held, certainty) := probes.finding(
	sprintf(
		"%s on node %s, where processes cannot be killed, so %s %s stay Terminating",
		[pods.who(held), node, pods.they(held), certainty],
	),
	"where processes cannot be killed", node, held, plan(node, held),
)

plan(node, held) := array.concat(
	[
		steps.mend(sprintf("Look at the log of the kubelet on node %s: from verbosity 3 on it names the reason.", [node]), []),
		steps.mend(sprintf("Restart the container runtime on node %s: running containers survive that.", [node]), []),
		steps.mend(sprintf("Drain and reboot node %s, if processes there cannot be killed (state D or Z).", [node]), []),
	],
	steps.hearsay("events of the kubelet", steps.forced(held.namespace, held.names)),
)
