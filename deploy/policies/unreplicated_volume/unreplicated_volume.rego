# METADATA
# title: StatefulSet whose volumes exist once
# description: >-
#   The claims of a StatefulSet with persistentVolumeClaimRetentionPolicy whenDeleted:
#   Delete are deleted with it. A volume on the disk of one node has no copy elsewhere:
#   its data is lost. The storage classes are in
#   data.params["unreplicated-volume"].classes.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#persistentvolumeclaim-retention
#     description: Claims that are deleted with a StatefulSet.
# custom:
#   id: unreplicated-volume
#   severity: high
#   triggers: [delete]
#   resources: [statefulsets.apps]
#   remedy: >-
#     Save the data, or set whenDeleted to Retain first; then delete the StatefulSet.
#   limits: >-
#     It uses the name of the storage class: it does not know whether the application
#     keeps copies.
package termguard.unreplicated_volume

import data.termguard.lib.request

usual := ["local-path", "local-storage", "openebs-hostpath", "topolvm-provisioner"]

single := object.get(data.params, ["unreplicated-volume", "classes"], usual)

deny contains finding if {
	request.deleting
	not request.orphaning
	spec := input.request.oldObject.spec
	spec.persistentVolumeClaimRetentionPolicy.whenDeleted == "Delete"
	some i, template in spec.volumeClaimTemplates
	template.spec.storageClassName in single
	finding := {
		"kind": "forbidden",
		"msg": sprintf("the volumes %s of %s exist once, and are deleted with it", [template.metadata.name, request.word]),
		"objects": [request.target],
		"evidence": [sprintf("storage class %s keeps one copy", [template.spec.storageClassName])],
		"field": sprintf("spec.volumeClaimTemplates[%d].spec.storageClassName", [i]),
	}
}
