# METADATA
# title: Node with a kubelet or runtime that is known to hang
# description: >-
#   Some releases of the kubelet, docker and containerd have bugs that keep a pod
#   Terminating. The policy reports a node with one of them if there are signs of the bug:
#   the kubelet fails to stop containers, pods are overdue, or a node probe sees a runtime
#   or processes that make no progress. Without signs most deletions finish.
# related_resources:
#   - ref: https://github.com/moby/moby/issues/31768
#     description: docker 17, device or resource busy.
#   - ref: https://github.com/containerd/containerd/issues/3617
#     description: containerd before 1.2.8, a shim that hangs.
# custom:
#   id: known-bad-runtime
#   severity: medium
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.buggy]
#   remedy: >-
#     Upgrade the component, or move the node to containerd: drain the node first. For one
#     pod, restart the container runtime on its node, and with docker 17 run docker
#     container prune afterwards. Forcing is not advised: on these nodes the container
#     usually keeps running.
#   limits: >-
#     Bugs that are not in the list of versions. A build that carries a fix without a new
#     version.
package termguard.known_bad_runtime

import data.termguard.lib.events
import data.termguard.lib.grace
import data.termguard.lib.pods
import data.termguard.lib.probes
import data.termguard.lib.steps

warn contains {
	"msg": pods.stay(node, why, held, "may"),
	"cause": pods.because(node, why),
	"objects": pods.on(node, held),
	"evidence": array.concat([sprintf("%s (affected: %s; fixed in: %s; %s)", [bug.symptom, bug.affected, bug.fixedIn, bug.source])], signs),
	"steps": [
		steps.mend(sprintf("Restart the container runtime on node %s%s.", [node, prune(bug)]), []),
		steps.mend(
			concat(" ", [
				sprintf("Drain node %s and upgrade its %s (fixed in: %s).", [node, bug.component, bug.fixedIn]),
				"Forcing is not advised: kubectl delete pod --force --grace-period=0 removes only the object, and on such a node",
				"the container usually keeps running beside its replacement.",
			]),
			[],
		),
	],
} if {
	some node, held in pods.waiting(data.cluster.buggy)
	signs := array.flatten([events.evidence(events.of(node, {"stuck", "busy"})), overdue(node), probed(node)])
	count(signs) > 0
	some bug in data.cluster.buggy[node].bugs
	why := sprintf("shows a known bug of %s %s", [bug.component, array.reverse(split(bug.version, "://"))[0]])
}

# probed lists the signs that a probe saw on the node, even before a pod is deleted.
probed(node) := array.concat(
	[line | some line in probes.evidence(node, probes.everywhere({"runtime"})[node].found)],
	[line | some line in probes.evidence(node, probes.reported("stuck")[node].found)],
)

prune(bug) := ", then docker container prune" if bug.component == "docker"

prune(bug) := "" if bug.component != "docker"

overdue(node) := [sprintf("pods on the node that are overdue since %s: %d", [late[0].deadline, count(late)]) |
	late := grace.overdue(data.cluster.leaving.nodes[node])
	count(late) > 0
]
