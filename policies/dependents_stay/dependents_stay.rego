# METADATA
# title: Dependents that stay behind
# description: >-
#   An object that is deleted in the background goes at once, and the garbage collector
#   deletes what it owned afterwards. What cannot go then stays: a pod on a node that does not
#   answer, an object whose finalizer nobody removes. The deletion of the object itself
#   completes all the same.
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
#     Ask about what stays: what holds it has its own way out. A StatefulSet that is made
#     again under the same name makes no pod in the place of one that stays.
#   limits: >-
#     Dependents without blockOwnerDeletion, or with more than one owner, objects that a pod
#     owns, and chains of more than five links.
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
	"steps": ask("pods", namespace, held.names),
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
	"steps": ask(held.resource, held.namespace, held.names),
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

ask(resource, namespace, names) := [steps.mend(
	sprintf("See what holds what stays: kubectl termguard check %s/%s -n %s", [resource, names[0], namespace]),
	[],
)]
