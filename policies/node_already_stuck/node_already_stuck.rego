# METADATA
# title: Pod on a node that is stuck already
# description: >-
#   A node that counts as ready may still not get rid of a pod: its runtime does
#   not answer, a process cannot be killed, a cgroup or a directory cannot be
#   removed. What shows is pods that should have been gone for longer than a
#   minute, and events of the kubelet that cannot stop a container. A namespace
#   with such a pod stays Terminating with it; another pod on the node may meet
#   the same fate.
# related_resources:
#   - ref: https://github.com/containerd/containerd/issues/3617
#     description: A shim that hangs.
#   - ref: https://github.com/containerd/containerd/issues/8847
#     description: A container that cannot be killed.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kubelet.go
#     description: What the kubelet does before it lets a pod go (SyncTerminatingPod, SyncTerminatedPod).
# custom:
#   id: node-already-stuck
#   severity: high
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.symptoms, data.cluster.leaving.nodes, data.cluster.leaving.namespaces.$NAMESPACE]
#   remedy: >-
#     Look at the log of the kubelet on that node: from verbosity 3 on it names the
#     reason. Restart the container runtime there, which ends most shims that hang;
#     reboot the node for processes in state D or Z that nothing can kill. Pods then
#     go by themselves. Last, kubectl delete pod --force --grace-period=0 removes
#     only the object: what runs there lives on.
#   limits: >-
#     What no pod has met yet: the first pod that hangs on a node comes without a
#     sign. Events are lost after an hour, and in a Terminating namespace new ones
#     are refused. Only five pods of a node or a namespace are looked at, those
#     whose deadline came first.
package termguard.node_already_stuck

import data.termguard.lib

deny contains lingering if {
	count(stuck_here) > 0
}

deny contains told(node, pods) if {
	not lib.evicting
	some node, pods in lib.waiting(data.cluster.symptoms)
	lasting(node)
}

warn contains told(node, pods) if {
	lib.evicting
	some node, pods in lib.waiting(data.cluster.symptoms)
	lasting(node)
}

warn contains told(node, pods) if {
	some node, pods in lib.waiting(data.cluster.symptoms)
	count(symptoms(node)) > 0
	not lasting(node)
}

# Pods of others on the node: one whose containers have ended may have its own
# reason, several have that of the node.
warn contains {
	"msg": sprintf(
		"%s on node %s, where other pods should have been gone for %s, so %s may stay Terminating",
		[lib.who(pods), node, lib.duration(lib.since(others[0].deadline)), lib.pronoun(pods.count)],
	),
	"objects": array.concat([{"resource": "nodes", "namespace": "", "name": node}], lib.named(pods)),
	"evidence": array.concat(
		[sprintf("pods that are being deleted on node %s: %d", [node, leaving.count])],
		[sprintf("one should have been gone by %s: %s", [pod.deadline, stage(pod)]) | some pod in others],
	),
	"steps": steps(node, pods),
} if {
	some node, pods in lib.waiting(data.cluster.leaving.nodes)
	lib.serves(node)
	leaving := data.cluster.leaving.nodes[node]
	others := [pod |
		some pod in lib.late(leaving)
		not lib.about(pod)
	]
	telling(others)
}

telling(others) if count(others) > 1

telling(others) if {
	some pod in others
	not pod.ended
}

# stuck_here are the pods of the namespace under review that should have been gone.
stuck_here := [pod |
	lib.deletes_namespace
	some pod in lib.late(data.cluster.leaving.namespaces[lib.name])
	lib.serves(pod.node)
]

lingering := {
	"msg": sprintf(
		"%d %s Terminating already, for %s longer than %s grace period: %s",
		[
			count(stuck_here), lib.plural(count(stuck_here), "pod is", "pods are"),
			lib.duration(lib.since(stuck_here[0].deadline)), lib.plural(count(stuck_here), "its", "their"),
			stage(stuck_here[0]),
		],
	),
	"objects": array.concat(
		lib.named({"namespace": lib.name, "names": [pod.name | some pod in stuck_here]}),
		[{"resource": "nodes", "namespace": "", "name": node} | some node in {pod.node | some pod in stuck_here}],
	),
	"evidence": [sprintf("pod %s should have been gone by %s: %s", [pod.name, pod.deadline, stage(pod)]) |
		some pod in stuck_here
	],
	"steps": steps(
		concat(", ", {pod.node | some pod in stuck_here}),
		{"namespace": lib.name, "names": [pod.name | some pod in stuck_here], "count": count(stuck_here)},
	),
}

stage(pod) := "its containers have ended, but its node has not cleaned up after it" if pod.ended

stage(pod) := "its containers still run" if not pod.ended

# symptoms are the events of a node about containers that cannot be stopped.
symptoms(node) := [symptom |
	lib.serves(node)
	some symptom in data.cluster.symptoms[node]
	lib.current(symptom, node)
	lib.cause(symptom) == "stuck"
]

# lasting is true where they are about a pod that is waited for, and come again
# and again.
lasting(node) if {
	some symptom in symptoms(node)
	lib.about(symptom)
	symptom.count >= lib.persistent
}

told(node, pods) := {
	"msg": sprintf(
		"%s on node %s, whose kubelet fails to stop containers (%s), so %s %s stay Terminating",
		[lib.who(pods), node, symptoms(node)[0].reason, lib.pronoun(pods.count), certainty(node)],
	),
	"objects": array.concat([{"resource": "nodes", "namespace": "", "name": node}], lib.named(pods)),
	"evidence": [lib.told(symptom) | some symptom in symptoms(node)],
	"steps": steps(node, pods),
}

certainty(node) := "will" if lasting(node)

certainty(node) := "may" if not lasting(node)

steps(node, pods) := array.concat(
	[
		{"kind": "mend", "do": sprintf("Look at the log of the kubelet on node %s: from verbosity 3 on it names the reason.", [node])},
		{"kind": "mend", "do": sprintf("Restart the container runtime on node %s: running containers survive that.", [node])},
		{"kind": "mend", "do": sprintf("Drain and reboot node %s, if processes there cannot be killed (state D or Z).", [node])},
	],
	lib.forced(pods.namespace, pods.names),
)
