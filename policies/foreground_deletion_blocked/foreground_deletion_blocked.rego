# METADATA
# title: Foreground deletion that waits for its dependents
# description: >-
#   An object that is deleted in the foreground has the finalizer foregroundDeletion until
#   the garbage collector has deleted all its dependents with blockOwnerDeletion, and
#   theirs. One dependent blocks the whole chain if no controller removes its finalizer,
#   or if it is a pod on a node that cannot stop it.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/architecture/garbage-collection/#foreground-deletion
#     description: Deletion in the foreground.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/garbagecollector/garbagecollector.go
#     description: How the garbage collector waits for dependents (processDeletingDependentsItem).
# custom:
#   id: foreground-deletion-blocked
#   severity: medium
#   class: broken
#   triggers: [delete]
#   needs: [data.cluster.owners.$UID]
#   remedy: >-
#     Repair the blocker of the dependent: reinstall or restart the software that removes
#     its finalizer, or its node. The chain then finishes by itself. Or delete in the
#     background: the owner is then deleted at once, and only the dependent stays
#     Terminating. As a last resort, remove the finalizer of the dependent by hand: anything
#     not cleaned up is leaked.
#   limits: >-
#     Dependents with more than one owner, objects that a pod owns, chains of more than five
#     owner references, and objects that the garbage collector cannot list.
package termguard.foreground_deletion_blocked

import data.termguard.lib.finalizers
import data.termguard.lib.nodes
import data.termguard.lib.owners
import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

deny contains guarded_finding(dependent) if {
	some dependent in owners.dependents
	owners.certain(dependent.ownership)
}

deny contains stranded_finding(held, "will") if {
	some held in stranded
	nodes.stopped(held.node)
}

warn contains guarded_finding(dependent) if {
	some dependent in owners.dependents
	owners.uncertain(dependent.ownership)
}

warn contains stranded_finding(held, "may") if {
	some held in stranded
	not nodes.stopped(held.node)
	not nodes.harmless(held.node)
}

stranded contains object.union(group, {"namespace": namespace, "name": name, "node": node}) if {
	request.foreground
	some uid in owners.chain
	some namespace, on in data.cluster.owners[uid].pods
	some name, group in on
	node := data.cluster.notReady[name]
	not node.outOfService
}

guarded_finding(dependent) := {
	"msg": sprintf(
		"foreground deletion waits for %s with finalizer %s: %s",
		[wording.counted(dependent.count, dependent.resource), dependent.finalizer, owners.reason(dependent.ownership)],
	),
	"objects": [{"resource": dependent.resource, "namespace": dependent.namespace, "name": name} | some name in dependent.names],
	"evidence": object.get(dependent.ownership, "evidence", []),
	"steps": array.flatten([
		finalizers.bringing_back(dependent.ownership),
		finalizers.giving_up(dependent.finalizer, dependent.resource, dependent.ownership),
		leave("dependent"),
	]),
}

stranded_finding(held, certainty) := {
	"msg": sprintf(
		"foreground deletion waits for %d %s that %s stay: node %s is not ready (%s)",
		[held.count, wording.plural(held.count, "pod", "pods"), certainty, held.name, held.node.reason],
	),
	"objects": pods.named(held),
	"evidence": [sprintf("node %s has Ready=%s, %s", [held.name, held.node.ready, nodes.explained(held.node)])],
	"steps": array.flatten([steps.pods_off(held.name, held.namespace, held.names), leave("pods")]),
}

leave(dependents) := steps.force(
	sprintf("Delete in the background: only the %s then %s Terminating", [dependents, stay[dependents]]),
	object.union(steps.deletion([request.word], request.namespace), {"cascade": "background"}),
)

stay := {"dependent": "stays", "pods": "stay"}
