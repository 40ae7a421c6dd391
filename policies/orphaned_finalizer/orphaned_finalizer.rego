# METADATA
# title: Finalizer that no controller removes
# description: >-
#   An object is deleted only when each of its finalizers is removed, by the software that
#   put it there. If that does not run, the object stays Terminating, and its namespace
#   with it. The policy checks the finalizers of the object itself, both kinds of
#   finalizers of a namespace, and all objects in the namespace. Some software must first
#   create another object there, such as a Job or a pod, which the API server refuses in a
#   Terminating namespace. Some software runs on each node, for the pods there and for
#   custom resources that name the node (spec.nodeName, spec.node or status.nodeName):
#   objects on a deleted node, or on one without it, stay.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
#   - ref: https://github.com/kubernetes/kubernetes/issues/77086
#     description: Unknown finalizers in spec.finalizers of a namespace.
#   - ref: https://github.com/ray-project/kuberay/issues/3388
#     description: A running owner that must create a Job in a deleted namespace.
# custom:
#   id: orphaned-finalizer
#   aliases: [unowned-finalizer]
#   severity: high
#   class: broken
#   triggers: [delete]
#   needs:
#     - input.ownership.*.state unless alive or unasked
#     - data.cluster.finalized.$NAMESPACE.*.*.*.ownership.state unless alive or unasked for namespaces
#     - data.cluster.finalized.$NAMESPACE.*.*.*.ownership.creates for namespaces
#     - data.cluster.tasks.$NAMESPACE
#     - input.ownership.*.workloads for pods
#     - data.cluster.finalized.$NAMESPACE.*.pods for namespaces
#     - data.cluster.finalizers.*.pods for nodes
#     - data.cluster.onNode.$NAMESPACE and input.ownership.*.workloads
#     - data.cluster.onNode.$NAMESPACE for namespaces
#     - data.cluster.onNode.*.*.*.$NAME for nodes
#   relies_on:
#     - kinds: [$CONTENT]
#       except: [events] # evidence only: no deletion waits for an event
#       for: [namespaces]
#     - kinds:
#         - pods
#         - deployments.apps
#         - statefulsets.apps
#         - daemonsets.apps
#         - roles.rbac.authorization.k8s.io
#         - clusterroles.rbac.authorization.k8s.io
#         - rolebindings.rbac.authorization.k8s.io
#         - clusterrolebindings.rbac.authorization.k8s.io
#       for: [$FINALIZERS]
#     - kinds: [$ELSEWHERE] # owners of finalizers may have any kind
#       except: [secrets] # reported one by one
#       for: [$FINALIZERS, nodes]
#     - kinds: [daemonsets.apps] # only their pods may remove finalizers there
#       for: [nodes]
#   remedy: >-
#     Reinstall or restart the software that removes the finalizer, and the deletion
#     finishes by itself. If it will not run again, clean up the resources that the
#     finalizer protects, then remove the finalizer by hand: anything not cleaned up is
#     leaked. If the owner must create an object in the namespace, delete its objects before
#     their namespace.
#   manifest:
#     remedy: >-
#       Ship the owner of the finalizer with at least one replica, or remove the finalizer
#       or the object from the manifests.
#   limits: >-
#     Software that runs and still fails to remove its finalizer. The objects that an
#     owner must create are known only for a few entries of the catalog, and otherwise
#     guessed from the Jobs, RoleBindings and pods that end that it created before. Software
#     outside the cluster that is not declared as owner: the finding then says "may".
package termguard.orphaned_finalizer

import data.termguard.lib.finalizers
import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

deny contains own(field, finalizer, ownership) if {
	some field, finalizer in fields
	ownership := input.ownership[finalizer]
	owners.certain(ownership)
}

deny contains object.remove(own("metadata.finalizers", finalizer, ownership), ["field"]) if {
	request.evicting
	some finalizer, ownership in input.ownership
	owners.certain(ownership)
}

deny contains content(finalizer, resource, bucket) if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.finalized[request.name]
	some resource, buckets in resources
	some bucket in buckets
	owners.certain(bucket.ownership)
}

warn contains own(field, finalizer, ownership) if {
	some field, finalizer in fields
	ownership := input.ownership[finalizer]
	owners.uncertain(ownership)
}

# An eviction carries no object: input.ownership has its finalizers.
warn contains object.remove(own("metadata.finalizers", finalizer, ownership), ["field"]) if {
	request.evicting
	some finalizer, ownership in input.ownership
	owners.uncertain(ownership)
}

warn contains content(finalizer, resource, bucket) if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.finalized[request.name]
	some resource, buckets in resources
	some bucket in buckets
	owners.uncertain(bucket.ownership)
}

# A running owner can no longer create an object in the namespace.
warn contains thwarted(finalizer, resource, bucket) if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.finalized[request.name]
	some resource, buckets in resources
	some bucket in buckets
	bucket.ownership.state == "alive"
	bucket.ownership.creates
}

# An owner outside the catalog created such objects before.
warn contains thwarted(finalizer, resource, tasked) if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.tasks[request.name]
	some resource, tasked in resources
}

# The owner runs on each node, but not on a deleted node or one that does not answer.
warn contains {
	"msg": sprintf(
		"finalizer %s is not removed: only a pod of %s on node %s removes it, and none runs there",
		[finalizer, agents.name, node],
	),
	"cause": owners.cause(finalizer, on_its_node(agents)),
	"objects": [request.target, {"resource": "nodes", "namespace": "", "name": node}],
	"evidence": ownership.evidence,
	"field": field,
	"steps": without_agent(node, finalizer, ownership),
} if {
	some field, finalizer in fields
	ownership := input.ownership[finalizer]
	agents := owners.agents(ownership)
	node := home(finalizer)
	not node in agents.on
}

# The same for an eviction.
warn contains {
	"msg": sprintf("finalizer %s is not removed: only a pod of %s on node %s removes it, and none runs there", [finalizer, agents.name, node]),
	"cause": owners.cause(finalizer, on_its_node(agents)),
	"objects": [request.target, {"resource": "nodes", "namespace": "", "name": node}],
	"evidence": ownership.evidence,
	"steps": without_agent(node, finalizer, ownership),
} if {
	request.evicting
	some finalizer, ownership in input.ownership
	agents := owners.agents(ownership)
	node := data.cluster.pods[request.namespace][request.name].node
	not node in agents.on
}

warn contains {
	"msg": sprintf(
		"%s on node %s %s finalizer %s: only a pod of %s there removes it, and none runs",
		[wording.counted(it.count, it.resource), it.node, wording.plural(it.count, "has", "have"), it.finalizer, it.agents.name],
	),
	"cause": owners.cause(it.finalizer, on_its_node(it.agents)),
	"objects": array.concat(members(it), [{"resource": "nodes", "namespace": "", "name": it.node}]),
	"evidence": it.ownership.evidence,
	"steps": without_agent(it.node, it.finalizer, it.ownership),
} if {
	request.deletes_namespace
	some it in located
	not it.node in it.agents.on
}

# Without the node, no agent handles its pods.
warn contains {
	"msg": sprintf(
		"%s on this node %s finalizer %s, which only a pod of %s here removes",
		[wording.counted(it.count, it.resource), wording.plural(it.count, "has", "have"), it.finalizer, it.agents.name],
	),
	"cause": owners.cause(it.finalizer, on_its_node(it.agents)),
	"objects": members(it),
	"evidence": it.ownership.evidence,
	"steps": [leaving_first(it)],
} if {
	on_this_node
	some it in located
	it.node == request.name
}

on_this_node if {
	request.deleting
	request.resource == "nodes"
}

home(_) := input.request.oldObject.spec.nodeName if request.resource == "pods"

home(finalizer) := named[0] if {
	request.resource != "pods"
	named := [node |
		some path in [["spec", "nodeName"], ["spec", "node"], ["status", "nodeName"]]
		node := object.get(input.request.oldObject, path, "")
		is_node(request.namespace, node, finalizer, request.resource)
	]
}

# is_node reports whether a value is the name of a node: this one exists, or another that objects
# name.
is_node(_, node, _, _) if data.cluster.nodes[node]

is_node(ns, _, finalizer, of) if {
	some other, _ in data.cluster.onNode[ns][finalizer][of]
	data.cluster.nodes[other]
}

members(it) := [{"resource": it.resource, "namespace": it.namespace, "name": name} | some name in it.names]

leaving_first(it) := steps.mend(
	sprintf(
		"Drain node %s first; continue after its pods with finalizer %s are deleted, while its agents still run",
		[request.name, it.finalizer],
	),
	[],
) if {
	it.resource == "pods"
}

leaving_first(it) := steps.mend(
	sprintf(
		"First delete the %[2]s on node %[1]s while its agents still run, if their data may be deleted",
		[request.name, it.resource],
	),
	[],
) if {
	it.resource != "pods"
}

located contains {
	"namespace": ns, "node": node, "finalizer": finalizer, "resource": "pods",
	"names": names, "count": count(names), "ownership": bucket.ownership, "agents": agents,
} if {
	some ns in spots
	some finalizer, resources in data.cluster.finalized[ns]
	some bucket in resources.pods
	agents := owners.agents(bucket.ownership)
	some node in ({on | some name in bucket.names; on := data.cluster.pods[ns][name].node} - {""})
	names := [name | some name in bucket.names; data.cluster.pods[ns][name].node == node]
}

located contains {
	"namespace": ns, "node": node, "finalizer": finalizer, "resource": of,
	"names": group.names, "count": group.count, "ownership": ownership, "agents": agents,
} if {
	some ns in spots
	some finalizer, resources in data.cluster.onNode[ns]
	some of, nodes in resources
	some ownership in owners.at_work(ns, finalizer, of)
	agents := owners.agents(ownership)
	some node, group in within(nodes)
	is_node(ns, node, finalizer, of)
}

within(nodes) := nodes if request.deletes_namespace

within(nodes) := {request.name: nodes[request.name]} if on_this_node

spots := {request.name} if request.deletes_namespace

spots := object.keys(data.cluster.finalized) if on_this_node

on_its_node(agents) := sprintf("only a pod of %s on its node removes it", [agents.name])

without_agent(node, finalizer, ownership) := [
	steps.then("itself", sprintf("Restore node %s and its pod of %s", [node, owners.name(ownership)]), []),
	steps.remove(
		sprintf(
			"If node %s will not return, clean up the resources that the finalizer protects%s, then remove %s: %s",
			[node, owners.cleared(ownership), finalizer, finalizers.left_behind],
		),
		[],
	),
]

fields[sprintf("metadata.finalizers[%d]", [i])] := finalizer if {
	request.deleting
	some i, finalizer in input.request.oldObject.metadata.finalizers
}

# The namespace controller removes its own finalizer after the content.
fields[sprintf("spec.finalizers[%d]", [i])] := finalizer if {
	request.deletes_namespace
	some i, finalizer in input.request.oldObject.spec.finalizers
	finalizer != "kubernetes"
}

own(field, finalizer, ownership) := {
	"msg": sprintf("finalizer %s%s is not removed: %s", [finalizer, in_spec(field), why]),
	"cause": owners.cause(finalizer, why),
	"objects": [request.target],
	"evidence": object.get(ownership, "evidence", []),
	"field": field,
	"steps": array.concat(finalizers.bringing_back(ownership), [by_hand(field, finalizer, ownership)]),
} if {
	why := owners.reason(ownership)
}

content(finalizer, resource, bucket) := {
	"msg": sprintf(
		"%s %s finalizer %s: %s",
		[wording.counted(bucket.count, resource), wording.plural(bucket.count, "has", "have"), finalizer, why],
	),
	"cause": owners.cause(finalizer, why),
	"objects": [{"resource": resource, "namespace": request.name, "name": name} | some name in bucket.names],
	"evidence": object.get(bucket.ownership, "evidence", []),
	"steps": array.concat(
		finalizers.bringing_back(bucket.ownership),
		finalizers.giving_up(finalizer, resource, bucket.ownership),
	),
} if {
	why := owners.reason(bucket.ownership)
}

thwarted(finalizer, resource, bucket) := {
	"msg": sprintf(
		"%s %s finalizer %s: %s",
		[wording.counted(bucket.count, resource), wording.plural(bucket.count, "has", "have"), finalizer, why],
	),
	"cause": owners.cause(finalizer, why),
	"objects": [{"resource": resource, "namespace": request.name, "name": name} | some name in bucket.names],
	"evidence": object.get(bucket.ownership, "evidence", []),
	"steps": finalizers.going_first(request.name, finalizer, resource, bucket),
} if {
	why := sprintf("%s, which is refused in a Terminating namespace", [creating(bucket)])
}

creating(bucket) := sprintf("%s must create %s here to remove it", [owners.its(bucket.ownership), bucket.ownership.creates]) if {
	bucket.ownership.creates
}

creating(bucket) := sprintf("%s creates %s for them here, maybe also to remove it", [owners.its(bucket.ownership), bucket.creates]) if {
	bucket.creates
}

by_hand(field, finalizer, ownership) := finalizers.with_source(ownership, [steps.remove(
	sprintf(
		"%s (the API server ignores kubectl patch and edit of spec.finalizers)",
		[finalizers.without_owner(finalizer, ownership)],
	),
	{"verb": "finalize", "objects": [request.word], "finalizers": [finalizer]},
)])[0] if {
	startswith(field, "spec.")
}

by_hand(field, _, ownership) := finalizers.giving_up_own(ownership) if {
	startswith(field, "metadata.")
	request.deleting
}

# An eviction does not show the indexes of finalizers.
by_hand(_, finalizer, ownership) := steps.remove(finalizers.without_owner(finalizer, ownership), []) if request.evicting

in_spec(field) := " in spec.finalizers" if startswith(field, "spec.")

in_spec(field) := "" if not startswith(field, "spec.")
