# METADATA
# title: Forced deletion of a pod
# description: >-
#   With a grace period of 0 the API server removes the object of a pod at once, and its
#   node learns of it later, or never. Containers may keep running, with their ports,
#   locks and volumes; a StatefulSet creates a second pod of the same identity. The
#   deletion does not hang; the finding warns about the price. Pods that have finished, or
#   were never scheduled, have none.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-forced
#     description: Forced pod termination.
#   - ref: https://kubernetes.io/docs/tasks/run-application/force-delete-stateful-set-pod/
#     description: Force delete StatefulSet pods.
# custom:
#   id: force-delete
#   severity: info
#   class: rule
#   triggers: [delete]
#   resources: [pods]
#   needs:
#     - input.request.options.gracePeriodSeconds unless 30 and input.request.oldObject.spec.nodeName
#     - input.request.object.deleteOptions.gracePeriodSeconds
#   remedy: >-
#     Delete without --force first: kubectl delete pod NAME. If that hangs, kubectl
#     termguard check pods/NAME names the cause. For a node that is off for good, the taint
#     node.kubernetes.io/out-of-service removes its pods and detaches their volumes. Force a
#     deletion only when you know that no container of the pod runs any more.
#   limits: >-
#     Whether the containers keep running: only the node shows that.
package termguard.force_delete

import data.termguard.lib.grace
import data.termguard.lib.nodes
import data.termguard.lib.pods
import data.termguard.lib.request

warn contains {
	"msg": concat("", [sprintf("forced deletion removes only the object: %s", [runs_on]), double]),
	"objects": array.concat(
		[request.target],
		[{"resource": "nodes", "namespace": "", "name": pod.node} | data.cluster.nodes[pod.node]],
	),
	"evidence": array.concat(
		[sprintf("the grace period is 0, and pod %s is %s on node %s", [request.name, pod.phase, pod.node])],
		[sprintf("node %s has Ready=%s since %s, %s", [pod.node, node.ready, node.since, nodes.explained(node)]) |
			node := data.cluster.notReady[pod.node]
		],
	),
} if {
	forced
}

pod := {"node": node, "phase": phase} if {
	node := pods.reviewed.spec.nodeName
	node != ""
	phase := object.get(pods.reviewed, ["status", "phase"], "Unknown")
	not phase in pods.finished
}

# A pod with its own grace period of 0 is intended.
forced if {
	pod
	0 in grace.requested
}

runs_on := sprintf("node %s does not stop its containers, which keep running if the machine does", [pod.node]) if {
	silent
}

runs_on := sprintf("its containers on node %s may keep running for a while", [pod.node]) if {
	data.cluster.nodes[pod.node]
	not silent
}

runs_on := sprintf("node %s does not exist, and its containers may still run", [pod.node]) if not data.cluster.nodes[pod.node]

silent if nodes.stopped(data.cluster.notReady[pod.node])

default double := ""

double := sprintf(", beside a second pod of the same name from StatefulSet %s", [owner.name]) if {
	owner.kind == "StatefulSet"
}

owner := ref if {
	request.deleting
	some ref in input.request.oldObject.metadata.ownerReferences
	ref.controller
}

owner := data.cluster.pods[request.namespace][request.name].owner if request.evicting
