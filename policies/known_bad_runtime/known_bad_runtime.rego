# METADATA
# title: Node with a kubelet or runtime that is known to hang
# description: >-
#   Some releases of the kubelet, docker and containerd have bugs that keep a pod
#   Terminating. On a node that runs one of them, and where something shows it, the
#   finding says "may hang" and why: the kubelet fails to stop containers, or pods
#   should have been gone. Where nothing shows it, most deletions finish, and the
#   finding is left out.
# related_resources:
#   - ref: https://github.com/moby/moby/issues/31768
#     description: docker 17, device or resource busy.
#   - ref: https://github.com/containerd/containerd/issues/3617
#     description: containerd before 1.2.8, a shim that hangs.
# custom:
#   id: known-bad-runtime
#   severity: medium
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.buggy]
#   remedy: >-
#     Upgrade it, or move the node to containerd: drain the node first. For one pod,
#     restart the container runtime on its node, and with docker 17 docker container
#     prune afterwards. Forcing is not advised: on these nodes the container usually
#     runs on.
#   limits: >-
#     Bugs that the list of versions does not have, and a build that carries a fix
#     that its version does not tell of.
package termguard.known_bad_runtime

import data.termguard.lib.events
import data.termguard.lib.grace
import data.termguard.lib.pods
import data.termguard.lib.steps

warn contains {
	"msg": sprintf(
		"%s on node %s, whose %s %s is known to hang and shows it, so %s may stay Terminating",
		[pods.who(held), node, bug.component, bug.version, pods.they(held)],
	),
	"objects": pods.on(node, held),
	"evidence": array.concat([sprintf("%s (affected: %s; fixed in: %s; %s)", [bug.symptom, bug.affected, bug.fixedIn, bug.source])], signs),
	"steps": [
		steps.mend(sprintf("Restart the container runtime on node %s%s.", [node, prune(bug)]), []),
		steps.mend(sprintf("Drain node %s and upgrade its %s (fixed in: %s).", [node, bug.component, bug.fixedIn]), []),
		steps.force(
			concat(" ", [
				"Forcing is not advised: kubectl delete pod --force --grace-period=0 removes only the object, and on such a node",
				"the container usually runs on, beside its replacement.",
			]),
			[],
		),
	],
} if {
	some node, held in pods.waiting(data.cluster.buggy)
	signs := array.concat(events.evidence(events.of(node, {"stuck", "busy"})), overdue(node))
	count(signs) > 0
	some bug in data.cluster.buggy[node].bugs
}

prune(bug) := ", then docker container prune" if bug.component == "docker"

prune(bug) := "" if bug.component != "docker"

overdue(node) := [sprintf("pods on the node that should have been gone by %s: %d", [late[0].deadline, count(late)]) |
	late := grace.overdue(data.cluster.leaving.nodes[node])
	count(late) > 0
]
