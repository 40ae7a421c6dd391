# METADATA
# title: CustomResourceDefinition with objects left
# description: >-
#   A definition takes all its objects along, in every namespace, whoever they belong to.
#   It is deleted last, when there are none.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/
#     description: What a definition is.
# custom:
#   id: definition-in-use
#   severity: high
#   triggers: [delete]
#   resources: [customresourcedefinitions.apiextensions.k8s.io]
#   relies_on:
#     - kinds: [$INSTANCES]
#   remedy: >-
#     Delete the objects first, or tell those they belong to.
#   limits: >-
#     Objects of a kind that nobody may list are not counted.
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
		"msg": sprintf("%s still has objects (%d), and takes them all along", [request.name, total]),
		"objects": [request.target],
		"evidence": [sprintf("%d in namespace %q", [n, namespace]) | some namespace, n in held],
	}
}
