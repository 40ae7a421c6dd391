# METADATA
# title: Foreground deletion that waits for its dependents
# description: >-
#   An object that is deleted in the foreground stays, with the finalizer
#   foregroundDeletion, until the garbage collector has deleted each object that it
#   owns and whose owner reference has blockOwnerDeletion, and those that they
#   own. One that cannot go, because nobody removes its finalizer or because it is
#   a pod of a node that cannot stop it, holds the whole chain.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/architecture/garbage-collection/#foreground-deletion
#     description: Deletion in the foreground.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/garbagecollector/garbagecollector.go
#     description: What the garbage collector waits for (processDeletingDependentsItem).
# custom:
#   id: foreground-deletion-blocked
#   severity: medium
#   triggers: [delete]
#   needs: [data.cluster.owners.$UID]
#   remedy: >-
#     Mend what holds the dependent (bring back the software that removes its
#     finalizer, or its node), and the chain goes by itself. Or delete in the
#     background: the owner then goes at once, and only the dependent stays
#     Terminating. Last, take out the finalizer of the dependent by hand: what it
#     guards stays behind.
#   limits: >-
#     Dependents with more than one owner, objects that a pod owns, chains of more
#     than five links, and objects that the garbage collector cannot list.
package termguard.foreground_deletion_blocked

import data.termguard.lib

deny contains guarded_finding(dependent) if {
	some dependent in lib.guarded
	lib.certain(dependent.ownership)
}

deny contains stranded_finding(pods, "will") if {
	some pods in stranded
	lib.stopped(pods.node)
}

warn contains guarded_finding(dependent) if {
	some dependent in lib.guarded
	lib.uncertain(dependent.ownership)
}

warn contains stranded_finding(pods, "may") if {
	some pods in stranded
	not lib.stopped(pods.node)
	not lib.harmless(pods.node)
}

# stranded are the dependents that are pods of a node that is not ready.
stranded contains object.union(group, {"namespace": namespace, "name": name, "node": node}) if {
	lib.foreground
	some uid in lib.waited
	some namespace, nodes in data.cluster.owners[uid].pods
	some name, group in nodes
	node := data.cluster.notReady[name]
	not node.outOfService
}

guarded_finding(dependent) := {
	"msg": sprintf(
		"foreground deletion waits for %d %s with finalizer %s: %s",
		[dependent.count, dependent.resource, dependent.finalizer, lib.reason(dependent.ownership)],
	),
	"objects": [{"resource": dependent.resource, "namespace": dependent.namespace, "name": name} | some name in dependent.names],
	"evidence": object.get(dependent.ownership, "evidence", []),
	"steps": array.flatten([
		lib.bringing_back(dependent.ownership),
		lib.giving_up(dependent.finalizer, dependent.resource, dependent.ownership),
		leave("dependent"),
	]),
}

stranded_finding(pods, certainty) := {
	"msg": sprintf(
		"foreground deletion waits for %d %s that %s stay: node %s is not ready (%s)",
		[pods.count, lib.plural(pods.count, "pod", "pods"), certainty, pods.name, pods.node.reason],
	),
	"objects": [{"resource": "pods", "namespace": pods.namespace, "name": name} | some name in pods.names],
	"evidence": [sprintf("node %s has Ready=%s, %s", [pods.name, pods.node.ready, lib.explained(pods.node)])],
	"steps": array.flatten([lib.pods_off(pods.name, pods.namespace, pods.names), leave("pods")]),
}

# leave lets the target go without what it waits for.
leave(dependents) := lib.force(
	sprintf("Delete in the background: then the %s alone %s Terminating", [dependents, stay[dependents]]),
	array.concat(lib.deletion([lib.target_word], lib.namespace), ["--cascade=background"]),
)

stay := {"dependent": "stays", "pods": "stay"}
