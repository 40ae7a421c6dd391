# METADATA
# title: Finalizer that its running owner does not remove
# description: >-
#   The owner of a finalizer runs, but objects have been Terminating for much longer than
#   it usually takes. In a deleted namespace, or of a deleted definition, they block the
#   deletion; elsewhere they show that other objects may stay, too. The finding says "may"
#   after three times the longest observed time, and at least two minutes, and "will"
#   after six times as long as that. Without observations, it says "may" after
#   data.params["finalizer-already-stuck"].seconds, 600 by default.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
#   - ref: https://kubernetes.io/docs/tasks/administer-cluster/namespaces/#deleting-a-namespace
#     description: A namespace waits for its whole content.
# custom:
#   id: finalizer-already-stuck
#   severity: high
#   class: broken
#   triggers: [delete]
#   needs: [data.cluster.terminating]
#   relies_on:
#     - kinds: [$CONTENT]
#       except: [events] # evidence only: no deletion waits for an event
#       for: [namespaces]
#     - kinds: [$INSTANCES]
#       for: [customresourcedefinitions.apiextensions.k8s.io]
#   remedy: >-
#     Find out why the objects stay Terminating, from their events, their conditions, and
#     the log of the software that removes the finalizer. Fix that: while its owner runs,
#     the finalizer protects resources that are not cleaned up yet.
#   limits: >-
#     Finalizers of Kubernetes itself, and pods whose kubelet has not finished with them:
#     other policies report these. Software that takes longer than an hour by design. The
#     command line sees most kinds in one namespace only; the webhook reports stuck
#     objects in others.
package termguard.finalizer_already_stuck

import data.termguard.lib.durations
import data.termguard.lib.finalizers
import data.termguard.lib.owners
import data.termguard.lib.reports
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times
import data.termguard.lib.wording

deny contains stuck(group) if {
	some group in content
	surely(group)
}

deny contains {
	"msg": sprintf("Terminating for %s: %s%s", [times.duration(times.since(since)), blame(finalizer, ownership), reports.saying(quotes)]),
	"cause": object.union(owners.cause(finalizer, blame(finalizer, ownership)), {"elapsed": true}),
	"objects": [request.target],
	"evidence": array.flatten([
		[reports.quoted(said) | some said in quotes], durations.evidence(finalizer, request.resource, request.namespace),
		object.get(ownership, "evidence", []),
	]),
	"field": sprintf("metadata.finalizers[%d]", [i]),
	"steps": array.concat(reports.mending(quotes), [look(ownership)]),
} if {
	request.deleting
	request.resource != "pods" # their kubelets may not have finished
	since := input.request.oldObject.metadata.deletionTimestamp
	some i, finalizer in input.request.oldObject.metadata.finalizers
	data.cluster.terminating[finalizer][request.resource] # without finalizers that Kubernetes removes
	ownership := input.ownership[finalizer]
	ownership.state == "alive"
	times.since(since) > patience(finalizer, request.resource, request.namespace) * 6
	quotes := reports.quotes(reports.own)
}

warn contains stuck(group) if {
	some group in content
	group.ownership.state == "alive"
	overdue(group.finalizer, group.resource, group.terminating.objects[0])
	not surely(group)
}

warn contains warned(finalizer, request.resource, ownership, others, [request.target]) if {
	request.deleting
	not input.request.oldObject.metadata.deletionTimestamp
	some finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
	ownership.state == "alive"
	others := data.cluster.terminating[finalizer][request.resource].objects
	overdue(finalizer, request.resource, others[0])
	not delivers(finalizer, request.resource, request.namespace, others[0])
}

warn contains warned(finalizer, resource, bucket.ownership, others, objects) if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.terminating
	some resource, terminating in resources
	some bucket in data.cluster.finalized[request.name][finalizer][resource]
	bucket.ownership.state == "alive"
	not holds_up(finalizer, resource, bucket)
	others := [o | some o in terminating.objects; o.namespace != request.name]
	overdue(finalizer, resource, others[0])
	not delivers(finalizer, resource, request.name, others[0])
	objects := [{"resource": resource, "namespace": request.name, "name": name} | some name in bucket.names]
}

# Other policies report finalizers without a running owner (orphaned-finalizer,
# crd-removed-with-finalizers).
content contains {
	"finalizer": finalizer, "resource": resource, "ownership": bucket.ownership,
	"terminating": bucket.terminating,
} if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.terminating
	some resource, _ in resources
	some bucket in data.cluster.finalized[request.name][finalizer][resource]
	bucket.terminating
	not owners.certain(bucket.ownership)
}

content contains {
	"finalizer": finalizer, "resource": request.name, "ownership": possible[0],
	"terminating": resources[request.name],
} if {
	request.deletes_definition
	some finalizer, resources in data.cluster.terminating
	possible := [ownership |
		some ownership in data.cluster.finalizers[finalizer][request.name]
		not owners.certain(ownership)
	]
}

waited(terminating) := times.since(terminating.objects[0].since)

holds_up(finalizer, resource, group) if overdue(finalizer, resource, group.terminating.objects[0])

overdue(finalizer, resource, held) if times.since(held.since) > patience(finalizer, resource, held.namespace)

surely(group) if {
	oldest := group.terminating.objects[0]
	waited(group.terminating) > patience(group.finalizer, group.resource, oldest.namespace) * 6
}

patience(finalizer, resource, ns) := measured if {
	measured := durations.patience(finalizer, resource, ns)
} else := unmeasured

unmeasured := object.get(data.params, ["finalizer-already-stuck", "seconds"], 600)

# delivers reports whether the owner has removed the finalizer from another object meanwhile.
delivers(finalizer, resource, ns, held) if {
	seen := durations.of(finalizer, resource, ns)
	times.since(held.since) - times.since(seen.last) > patience(finalizer, resource, held.namespace)
}

stuck(group) := {
	"msg": sprintf("%s %s %s: %s", [
		wording.counted(n, group.resource), wording.plural(n, "has been Terminating for", "have been Terminating, the oldest for"),
		times.duration(waited(group.terminating)), blame(group.finalizer, group.ownership),
	]),
	"cause": owners.cause(group.finalizer, blame(group.finalizer, group.ownership)),
	"objects": [{"resource": group.resource, "namespace": o.namespace, "name": o.name} | some o in late],
	"evidence": array.flatten([
		[sprintf("%s: %s", [name, reports.quoted(said)]) | some name, said in quotes],
		dated(late), durations.evidence(group.finalizer, group.resource, late[0].namespace),
		object.get(group.ownership, "evidence", []),
	]),
	"steps": array.flatten([[step | some said in quotes; some step in reports.mending([said])], look(group.ownership), by_hand(group, late)]),
} if {
	n := group.terminating.count
	late := [o | some o in group.terminating.objects; overdue(group.finalizer, group.resource, o)]
	quotes := {o.name: reports.quotes(reports.of(o.namespace, group.resource, o.name))[0] | some o in array.slice(late, 0, 3)}
}

warned(finalizer, resource, ownership, others, objects) := {
	"msg": sprintf("other %s are Terminating, the oldest for %s: %s", [resource, times.duration(oldest), blame(finalizer, ownership)]),
	"cause": owners.cause(finalizer, blame(finalizer, ownership)),
	"objects": objects,
	"evidence": array.flatten([
		dated([o | some o in others; overdue(finalizer, resource, o)]),
		durations.evidence(finalizer, resource, others[0].namespace), object.get(ownership, "evidence", []),
	]),
	"steps": [look(ownership)],
} if {
	oldest := times.since(others[0].since)
}

blame(finalizer, ownership) := sprintf("%s runs, but does not remove finalizer %s", [owners.its(ownership), finalizer]) if {
	ownership.state == "alive"
}

blame(finalizer, ownership) := sprintf("no controller removes finalizer %s", [finalizer]) if ownership.state != "alive"

# dated lists the times since which the first few are Terminating.
dated(list) := [sprintf("%s has been Terminating since %s", [whole, o.since]) |
	some o in array.slice(list, 0, 5)
	whole := concat("/", [part | some part in [o.namespace, o.name]; part != ""])
]

look(ownership) := steps.mend(
	sprintf(
		"Find out why the finalizer stays, in the log of %s and the events and conditions of the Terminating objects",
		[finalizers.owner_or(ownership)],
	),
	[],
)

by_hand(group, _) := [] if group.ownership.state == "alive"

by_hand(group, late) := [steps.force(
	sprintf("Remove %s by hand: %s", [group.finalizer, finalizers.left_behind]),
	finalizers.removing(objects, ns, [[at, group.finalizer]]),
) |
	some ns in {o.namespace | some o in late}
	some at in {o.at | some o in late; o.at >= 0}
	some objects in steps.batches(group.resource, [o.name | some o in late; o.namespace == ns; o.at == at])
] if {
	group.ownership.state != "alive"
}
