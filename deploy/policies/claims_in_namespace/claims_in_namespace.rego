# METADATA
# title: Namespace that still holds data
# description: >-
#   A namespace's PersistentVolumeClaims are deleted with it, and most volumes with them.
#   The user confirms first that the data is saved, with the annotation
#   example.com/data-saved on the namespace.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reclaiming
#     description: The volume of a deleted claim.
# custom:
#   id: claims-in-namespace
#   severity: high
#   triggers: [delete]
#   resources: [namespaces]
#   relies_on:
#     - kinds: [persistentvolumeclaims]
#   remedy: >-
#     Save the data, and annotate the namespace with example.com/data-saved and the place
#     of the backup.
#   limits: >-
#     Volumes with reclaim policy Retain stay. The policy trusts the annotation that there
#     is a backup.
package termguard.claims_in_namespace

import data.termguard.lib.request

deny contains finding if {
	request.deletes_namespace
	claims := data.cluster.counts[request.name].persistentvolumeclaims
	claims > 0
	not input.request.oldObject.metadata.annotations["example.com/data-saved"]
	finding := {
		"kind": "forbidden",
		"msg": sprintf(
			"namespace %s holds data (claims: %d) without annotation example.com/data-saved",
			[request.name, claims],
		),
		"objects": [request.target],
		"evidence": ["there is no annotation example.com/data-saved"],
	}
}
