# METADATA
# title: CustomResourceDefinition with objects left
# description: >-
#   All objects of a definition are deleted with it, in every namespace, also objects of
#   other teams. So it is deleted last, once there are none.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/
#     description: Definitions.
# custom:
#   id: definition-in-use
#   severity: high
#   triggers: [delete]
#   resources: [customresourcedefinitions.apiextensions.k8s.io]
#   relies_on:
#     - kinds: [$INSTANCES]
#   remedy: >-
#     Delete the objects first, or inform their owners.
#   limits: >-
#     Objects of a kind that termguard may not list are not counted.
package termguard.definition_in_use

import data.termguard.lib.request

deny contains finding if {
	request.deletes_definition
	held := {namespace: n |
		some namespace, counts in data.cluster.counts
		n := counts[request.name]
		n > 0
	}
	total := sum([n | some n in held])
	total > 0
	finding := {
		"kind": "forbidden",
		"msg": sprintf("%s still has objects (%d), which are deleted with it", [request.name, total]),
		"objects": [request.target],
		"evidence": [sprintf("%d in namespace %q", [n, namespace]) | some namespace, n in held],
	}
}
