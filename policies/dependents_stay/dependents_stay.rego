# METADATA
# title: Dependents that stay Terminating
# description: >-
#   In the background, an object is deleted at once, and the garbage collector deletes its
#   dependents afterwards. Some may stay: a pod on a node that does not answer, an object
#   whose finalizer no controller removes.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/architecture/garbage-collection/#background-deletion
#     description: Deletion in the background.
# custom:
#   id: dependents-stay
#   severity: info
#   class: order
#   triggers: [delete]
#   needs: [data.cluster.owners.$UID]
#   remedy: >-
#     Check the dependents that stay: their blockers have their own steps. A recreated
#     StatefulSet of the same name creates no pod in the place of one that stays.
#   limits: >-
#     Dependents without blockOwnerDeletion, or with more than one owner, objects that a pod
#     owns, and chains of more than five owner references.
package termguard.dependents_stay

import data.termguard.lib.nodes
import data.termguard.lib.owners
import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

warn contains {
	"msg": sprintf("%s Terminating: node %s does not answer (%s)", [owned(held.count, "pods"), name, node.reason]),
	"objects": pods.named(object.union(held, {"namespace": namespace})),
	"evidence": [sprintf("node %s has Ready=%s since %s", [name, node.ready, node.since])],
	"steps": look("pods", namespace, held.names),
} if {
	background
	some uid in owners.chain
	some namespace, on in data.cluster.owners[uid].pods
	some name, held in on
	node := data.cluster.notReady[name]
	nodes.stopped(node)
	not node.outOfService
}

warn contains {
	"msg": sprintf("%s Terminating: finalizer %s: %s", [owned(held.count, held.resource), held.finalizer, owners.reason(held.ownership)]),
	"objects": [{"resource": held.resource, "namespace": held.namespace, "name": name} | some name in held.names],
	"evidence": object.get(held.ownership, "evidence", []),
	"steps": look(held.resource, held.namespace, held.names),
} if {
	background
	some held in owners.owned
	owners.certain(held.ownership)
}

background if {
	request.deleting
	not request.foreground
	not request.orphaning
}

owned(n, resource) := sprintf("%s that it owns %s", [wording.counted(n, resource), wording.plural(n, "stays", "stay")])

look(resource, namespace, names) := [steps.mend(
	sprintf("Find the blocker of the dependent: kubectl termguard check %s/%s -n %s", [resource, names[0], namespace]),
	[],
)]
