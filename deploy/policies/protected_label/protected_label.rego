# METADATA
# title: What is labelled as protected stays
# description: >-
#   Namespaces, claims and workloads with the label example.com/protected=true are deleted
#   only when somebody has taken the label off: that is a second step, which nobody takes
#   by mistake.
# related_resources:
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
#     description: What an admission webhook is asked.
# custom:
#   id: protected-label
#   severity: high
#   triggers: [delete]
#   resources: [namespaces, persistentvolumeclaims, deployments.apps, statefulsets.apps]
#   remedy: >-
#     Ask whoever set the label. Then take it off, and delete.
#   limits: >-
#     What is in a namespace goes with it: the label counts on the object that is named.
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
