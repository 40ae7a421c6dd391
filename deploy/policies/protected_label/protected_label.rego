# METADATA
# title: Protected objects stay
# description: >-
#   Namespaces, claims and workloads with the label example.com/protected=true are deleted
#   only after the label was removed: a second step, which does not happen by mistake.
# related_resources:
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
#     description: The requests of admission webhooks.
# custom:
#   id: protected-label
#   severity: high
#   triggers: [delete]
#   resources: [namespaces, persistentvolumeclaims, deployments.apps, statefulsets.apps]
#   remedy: >-
#     Ask the author of the label. Then remove it, and delete.
#   limits: >-
#     The content of a namespace is deleted with it: only the label of the deleted object
#     counts.
package termguard.protected_label

import data.termguard.lib.request

deny contains finding if {
	request.deleting
	input.request.oldObject.metadata.labels["example.com/protected"] == "true"
	finding := {
		"kind": "forbidden",
		"msg": sprintf("%s is protected by its label example.com/protected", [request.word]),
		"objects": [request.target],
		"field": "metadata.labels",
	}
}
