# METADATA
# title: Namespace that still holds data
# description: >-
#   A namespace takes its PersistentVolumeClaims along, and most volumes with them.
#   Whoever deletes it says first that the data is saved, with the annotation
#   example.com/data-saved on the namespace.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reclaiming
#     description: What becomes of a volume when its claim goes.
# custom:
#   id: claims-in-namespace
#   severity: high
#   triggers: [delete]
#   resources: [namespaces]
#   relies_on:
#     - kinds: [persistentvolumeclaims]
#   remedy: >-
#     Save the data, and annotate the namespace with example.com/data-saved and where it
#     is.
#   limits: >-
#     Volumes with reclaim policy Retain stay. Whether there is a backup, it takes from
#     the annotation.
package termguard.claims_in_namespace

import data.termguard.lib.request

deny contains finding if {
	request.deletes_namespace
	claims := data.cluster.counts[request.name].persistentvolumeclaims
	claims > 0
	not input.request.oldObject.metadata.annotations["example.com/data-saved"]
	finding := {
		"kind": "forbidden",
		"msg": sprintf("namespace %s holds data (claims: %d) that nobody says is saved", [request.name, claims]),
		"objects": [request.target],
		"evidence": ["there is no annotation example.com/data-saved"],
	}
}
