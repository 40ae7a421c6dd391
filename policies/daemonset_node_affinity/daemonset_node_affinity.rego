# METADATA
# title: DaemonSet that deletes its pods endlessly
# description: >-
#   Kubernetes 1.8 to 1.11 sorts the values of a node affinity in place, in the DaemonSet
#   controller's cache. If a required node affinity lists two or more values out of order,
#   the DaemonSet never matches its own revision: its pods are deleted and recreated
#   endlessly, and some are always Terminating.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/66298
#     description: The loop.
#   - ref: https://github.com/kubernetes/kubernetes/pull/66480
#     description: The fix; in 1.11.3 through pull request 67096.
#   - ref: https://github.com/kubernetes/kubernetes/issues/70458
#     description: Values in other than ascending order cause it.
# custom:
#   id: daemonset-node-affinity
#   severity: medium
#   class: broken
#   triggers: [delete, apply]
#   resources: [namespaces, daemonsets.apps, daemonsets.extensions]
#   needs: [data.cluster.version.bugs]
#   remedy: >-
#     Use a nodeSelector, a single value, or sort the values in ascending order. As a
#     permanent fix, upgrade to Kubernetes 1.11.3, 1.12 or later.
#   limits: >-
#     The update strategy is known only for an object under review: with OnDelete there is
#     no loop. A delete ends the loop, so the finding then says "may".
package termguard.daemonset_node_affinity

import data.termguard.lib.request

bug := data.cluster.version.bugs["daemonset-node-affinity"]

path := "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"

deny contains finding(request.namespace, request.name, expression) if {
	bug
	input.request.operation in {"CREATE", "UPDATE"}
	some expression in reviewed(input.request.object)
	unsorted(expression)
}

warn contains finding(request.namespace, request.name, expression) if {
	bug
	request.deleting
	some expression in reviewed(input.request.oldObject)
	unsorted(expression)
}

warn contains finding(request.name, name, expression) if {
	bug
	request.deletes_namespace
	some name, daemonset in data.cluster.daemonsets[request.name]
	some expression in daemonset.nodeAffinity
	unsorted(expression)
}

# reviewed lists the node affinity of a DaemonSet under review, as the facts have it.
reviewed(daemonset) := [expression |
	request.resource in {"daemonsets.apps", "daemonsets.extensions"}
	object.get(daemonset, ["spec", "updateStrategy", "type"], "RollingUpdate") != "OnDelete"
	some i, term in daemonset.spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
	some list in ["matchExpressions", "matchFields"]
	some j, requirement in term[list]
	expression := object.union(requirement, {"field": sprintf("%s[%d].%s[%d].values", [path, i, list, j])})
]

unsorted(expression) if {
	expression.operator in {"In", "NotIn"}
	expression.values != sort(expression.values)
}

finding(namespace, name, expression) := {
	"msg": sprintf(
		"the values of %s (%s) are out of order: Kubernetes %s deletes and recreates the pods endlessly",
		[expression.key, concat(", ", expression.values), data.cluster.version.git],
	),
	"objects": [{"resource": "daemonsets.apps", "namespace": namespace, "name": name}],
	"evidence": [
		sprintf("affected: %s; fixed in: %s", [bug.affected, bug.fixedIn]),
		sprintf("required node affinity, %s %s [%s]", [expression.key, expression.operator, concat(", ", expression.values)]),
	],
	"field": expression.field,
}
