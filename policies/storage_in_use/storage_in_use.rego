# METADATA
# title: Storage in use
# description: >-
#   A PersistentVolumeClaim stays Terminating while a pod that is scheduled to a node uses
#   it, even a finished pod. A PersistentVolume stays Terminating while it is bound to its
#   claim. In a deleted namespace, pods are deleted first, so its claims follow.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection
#     description: Storage object in use protection.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/volume/pvcprotection/pvc_protection_controller.go
#     description: Which pods block a claim (podUsesPVCForDeletion).
# custom:
#   id: storage-in-use
#   severity: medium
#   class: order
#   triggers: [delete]
#   resources: [persistentvolumeclaims, persistentvolumes]
#   needs: [data.cluster.storage.claims.$NAMESPACE.$NAME, input.request.oldObject.status.phase for persistentvolumes]
#   remedy: >-
#     Delete the users of the storage first: the pods of a claim, through their workload
#     (finished pods, too). A volume is released by its reclaim policy when its claim is
#     deleted, which may delete its data.
#   manifest:
#     severity: none
#   limits: >-
#     Whether the pods themselves can be deleted: other policies report that. Whether a
#     dynamic volume can be removed from its storage.
package termguard.storage_in_use

import data.termguard.lib.nodes
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

deny contains claim_finding if {
	not leaving
}

deny contains {
	"msg": "this volume is bound, and stays Terminating until its claim is deleted",
	"objects": array.concat(
		[request.target],
		[{"resource": "persistentvolumeclaims", "namespace": claim.namespace, "name": claim.name} |
			claim := input.request.oldObject.spec.claimRef
		],
	),
	"evidence": ["status.phase Bound, finalizer kubernetes.io/pv-protection"],
	"field": "status.phase",
	"steps": [steps.mend(
		"Delete the claim in the finding instead: its reclaim policy then decides about the volume and its data",
		[],
	)],
} if {
	request.deleting
	request.resource == "persistentvolumes"
	input.request.oldObject.status.phase == "Bound"
	"kubernetes.io/pv-protection" in input.request.oldObject.metadata.finalizers
}

# Its pods are Terminating: the claim follows if they are deleted.
warn contains claim_finding if {
	leaving
}

users := data.cluster.storage.claims[request.namespace][request.name] if {
	request.deleting
	request.resource == "persistentvolumeclaims"
	"kubernetes.io/pvc-protection" in input.request.oldObject.metadata.finalizers
}

default leaving := false

leaving if {
	count(users.names) == users.count
	every name in users.names {
		terminating(name)
	}
}

claim_finding := {
	"msg": sprintf(
		"%d %s this claim, which stays Terminating until %s deleted",
		[users.count, wording.plural(users.count, "pod uses", "pods use"), wording.plural(users.count, "it is", "they are")],
	),
	"objects": array.concat(
		[request.target],
		[{"resource": "pods", "namespace": request.namespace, "name": name} | some name in users.names],
	),
	"evidence": [sprintf("pod %s is %s%s", [name, pod.phase, note]) |
		some name in users.names
		pod := data.cluster.pods[request.namespace][name]
		note := noted(pod)
	],
	"steps": array.flatten([going_on, [steps.remove(
		"Delete the pods that use the claim, preferably through their workload",
		steps.deletion(objects, request.namespace),
	) |
		some objects in steps.batches("pods", [name | some name in users.names; not terminating(name)])
	]]),
}

going_on := array.flatten([array.concat(
	[step |
		some node in {data.cluster.pods[request.namespace][name].node | some name in users.names; terminating(name)}
		nodes.stopped(data.cluster.notReady[node])
		names := [name | some name in users.names; terminating(name); data.cluster.pods[request.namespace][name].node == node]
		some step in steps.pods_off(node, request.namespace, names)
	],
	[steps.mend(
		sprintf("Find the blocker of pod %[1]s, which is Terminating: kubectl termguard check pods/%[1]s -n %[2]s", [name, request.namespace]),
		[],
	) |
		some name in users.names
		terminating(name)
		not on_stopped(name)
	],
)])

on_stopped(name) if nodes.stopped(data.cluster.notReady[data.cluster.pods[request.namespace][name].node])

terminating(name) if object.get(data.cluster.pods[request.namespace][name], "deletionTimestamp", "") != ""

noted(pod) := sprintf(" by the last report of node %s, which does not answer", [pod.node]) if {
	nodes.stopped(data.cluster.notReady[pod.node])
} else := object.get(notes, pod.phase, "")

notes := {
	"Succeeded": ": it blocks the claim until it is deleted",
	"Failed": ": it blocks the claim until it is deleted",
}
