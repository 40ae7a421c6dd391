# METADATA
# title: Storage in use
# description: >-
#   A PersistentVolumeClaim stays Terminating while a pod that is scheduled to a node uses
#   it. A finished pod counts until it is deleted; a pod that is not scheduled yet does
#   not count. A PersistentVolume stays Terminating while it is bound to its claim. When a
#   namespace is deleted, its pods are deleted first, so its claims follow.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection
#     description: Storage object in use protection.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/volume/pvcprotection/pvc_protection_controller.go
#     description: Which pods hold a claim (podUsesPVCForDeletion).
# custom:
#   id: storage-in-use
#   severity: medium
#   triggers: [delete]
#   resources: [persistentvolumeclaims, persistentvolumes]
#   needs: [data.cluster.storage.claims.$NAMESPACE.$NAME, input.request.oldObject.status.phase for persistentvolumes]
#   remedy: >-
#     Delete what uses the storage first: the pods of a claim, through the workload that
#     makes them (finished pods, too), then the claim, then the volume. Last, remove the
#     finalizer by hand: the object is then deleted under a running program, which may
#     lose data that it has not written yet.
#   manifest:
#     severity: none
#   limits: >-
#     Whether the pods themselves can be deleted: other policies report that. Whether a
#     dynamic volume can be removed from its storage.
package termguard.storage_in_use

import data.termguard.lib.finalizers
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
	"steps": [
		steps.remove("Delete the pods that use its claim, then the claim: the volume then goes by itself", claim_deleted),
		unprotect(i, "kubernetes.io/pv-protection", "the claim is then Lost, and its pods are without their data"),
	],
} if {
	request.deleting
	request.resource == "persistentvolumes"
	input.request.oldObject.status.phase == "Bound"
	some i, "kubernetes.io/pv-protection" in input.request.oldObject.metadata.finalizers
}

default claim_deleted := []

claim_deleted := steps.deletion([sprintf("persistentvolumeclaims/%s", [claim.name])], claim.namespace) if {
	claim := input.request.oldObject.spec.claimRef
}

# Its pods are being deleted: the claim follows if that ends.
warn contains claim_finding if {
	leaving
}

# users are the pods that hold the claim.
users := data.cluster.storage.claims[request.namespace][request.name] if {
	request.deleting
	request.resource == "persistentvolumeclaims"
	"kubernetes.io/pvc-protection" in input.request.oldObject.metadata.finalizers
}

# leaving is true if every user is being deleted.
default leaving := false

leaving if {
	count(users.names) == users.count
	every name in users.names {
		object.get(data.cluster.pods[request.namespace][name], "deletionTimestamp", "") != ""
	}
}

claim_finding := {
	"msg": sprintf(
		"%d %s this claim, which stays Terminating until %s gone",
		[users.count, wording.plural(users.count, "pod uses", "pods use"), wording.plural(users.count, "it is", "they are")],
	),
	"objects": array.concat(
		[request.target],
		[{"resource": "pods", "namespace": request.namespace, "name": name} | some name in users.names],
	),
	"evidence": [sprintf("pod %s is %s%s", [name, pod.phase, note]) |
		some name in users.names
		pod := data.cluster.pods[request.namespace][name]
		note := object.get(notes, pod.phase, "")
	],
	"steps": array.concat(
		[steps.remove(
			"Delete the pods that use it, best by way of the workload that makes them: the claim then goes by itself",
			steps.deletion(objects, request.namespace),
		) |
			some objects in steps.batches("pods", users.names)
		],
		[unprotect(i, "kubernetes.io/pvc-protection", "the claim then goes under its pods, which may lose data") |
			some i, "kubernetes.io/pvc-protection" in input.request.oldObject.metadata.finalizers
		],
	),
}

unprotect(i, finalizer, price) := steps.force(
	sprintf("Remove finalizer %s: %s", [finalizer, price]),
	finalizers.taking_own_out({[i, finalizer]}),
)

notes := {
	"Succeeded": ": it holds the claim until it is deleted",
	"Failed": ": it holds the claim until it is deleted",
}
