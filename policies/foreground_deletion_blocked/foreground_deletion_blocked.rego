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
	some dependent in guarded
	lib.certain(dependent.ownership)
}

deny contains stranded_finding(pods, "will") if {
	some pods in stranded
	lib.stopped(pods.node)
}

warn contains guarded_finding(dependent) if {
	some dependent in guarded
	lib.uncertain(dependent.ownership)
}

warn contains stranded_finding(pods, "may") if {
	some pods in stranded
	not lib.stopped(pods.node)
	not lib.harmless(pods.node)
}

# guarded are the dependents with finalizers.
guarded contains object.union(group, {
	"resource": resource,
	"namespace": namespace,
	"finalizer": finalizer,
	"ownership": ownership,
}) if {
	foreground
	some uid in waited
	some namespace, finalizers in data.cluster.owners[uid].finalized
	some finalizer, resources in finalizers
	some resource, groups in resources
	some signature, group in groups
	ownership := data.cluster.finalizers[finalizer][resource][signature]
}

# stranded are the dependents that are pods of a node that is not ready.
stranded contains object.union(group, {"namespace": namespace, "name": name, "node": node}) if {
	foreground
	some uid in waited
	some namespace, nodes in data.cluster.owners[uid].pods
	some name, group in nodes
	node := data.cluster.notReady[name]
	not node.outOfService
}

# foreground is the request that waits for the dependents; it may be the second.
foreground if {
	lib.deleting
	input.request.options.propagationPolicy == "Foreground"
}

foreground if {
	lib.deleting
	"foregroundDeletion" in input.request.oldObject.metadata.finalizers
}

# waited are the UIDs of the object and of what it owns, four links down: Rego has
# no recursion, and a custom resource that owns a Deployment needs three.
waited := (((start | second) | third) | fourth) | fifth

start contains input.request.oldObject.metadata.uid

second := below(start)

third := below(second)

fourth := below(third)

fifth := below(fourth)

below(uids) := {uid | some owner in uids; some uid, _ in data.cluster.owners[owner].dependents}

guarded_finding(dependent) := {
	"msg": sprintf(
		"foreground deletion waits for %d %s with finalizer %s: %s",
		[dependent.count, dependent.resource, dependent.finalizer, lib.reason(dependent.ownership)],
	),
	"objects": [{"resource": dependent.resource, "namespace": dependent.namespace, "name": name} | some name in dependent.names],
	"evidence": object.get(dependent.ownership, "evidence", []),
	"remedy": sprintf(
		concat(" ", [
			"Bring back what removes %[1]s, and the chain goes by itself.",
			"Or kubectl delete %[2]s %[3]s%[4]s --cascade=background: then only the dependent stays Terminating.",
			"Last, take %[1]s out of the dependent by hand: what it guards stays behind.",
		]),
		[dependent.finalizer, lib.resource, lib.name, lib.in_namespace],
	),
}

stranded_finding(pods, certainty) := {
	"msg": sprintf(
		"foreground deletion waits for %d %s that %s stay: node %s is not ready (%s)",
		[pods.count, lib.plural(pods.count, "pod", "pods"), certainty, pods.name, pods.node.reason],
	),
	"objects": [{"resource": "pods", "namespace": pods.namespace, "name": name} | some name in pods.names],
	"evidence": [sprintf("node %s has Ready=%s, %s", [pods.name, pods.node.ready, lib.explained(pods.node)])],
	"remedy": sprintf(
		concat(" ", [
			"Bring node %[1]s back, and the chain goes by itself; if the machine is off for good, kubectl delete node %[1]s.",
			"Or kubectl delete %[2]s %[3]s%[4]s --cascade=background: then only the pods stay Terminating.",
			"Last, kubectl delete pod --force --grace-period=0 removes only the object: what runs there lives on.",
		]),
		[pods.name, lib.resource, lib.name, lib.in_namespace],
	),
}
