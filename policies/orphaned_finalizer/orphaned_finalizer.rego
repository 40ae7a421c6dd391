# METADATA
# title: Finalizer that nobody removes
# description: >-
#   An object with finalizers is deleted only when each of them is removed, by the
#   software that put it there. If that software is uninstalled, or does not run, the
#   object stays Terminating, and its namespace with it. The policy looks at the
#   finalizers of the object itself, at both kinds of finalizers of a namespace, and at
#   everything in the namespace. Some software must first create something beside the
#   object, a Job or a pod. That is refused in a namespace that is being deleted, so the
#   finalizer stays there although the software runs. Some runs on each node, for the pods
#   there: those on a node without it stay, and those on a node that is deleted.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
#   - ref: https://github.com/kubernetes/kubernetes/issues/77086
#     description: Unknown finalizers in spec.finalizers of a namespace.
#   - ref: https://github.com/ray-project/kuberay/issues/3388
#     description: An owner that runs and must create a Job in a namespace that is deleted.
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
#     - kinds: [$ELSEWHERE] # who removes them, and what for, may be any kind
#       except: [secrets] # which are told of one by one
#       for: [$FINALIZERS]
#     - kinds: [daemonsets.apps] # whose pods may be the only ones to remove them there
#       for: [nodes]
#   remedy: >-
#     Bring back the software that removes the finalizer, and the deletion finishes by
#     itself. If it is gone for good, clean up what the finalizer protects, then remove
#     the finalizer by hand: anything that nobody cleaned up stays behind. If the owner
#     must create something beside its objects, delete them before their namespace.
#   manifest:
#     remedy: >-
#       Ship what removes the finalizer, scaled to at least one, or take the finalizer, or
#       the object, out of the manifests.
#   limits: >-
#     Software that runs and still fails to remove its finalizer. What it must create
#     first is known for a few entries of the catalog only, and of owners that the catalog does
#     not know from the Jobs and RoleBindings that they made for their objects, for whatever. Software that runs outside of
#     the cluster and is not declared as owner: the finding then says "may".
package termguard.orphaned_finalizer

import data.termguard.lib.finalizers
import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

# The object's own finalizers.
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

# What is in a namespace.
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

# An eviction carries no object: its finalizers are those whose ownership is known.
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

# An owner that runs, and needs what it can no longer have in the namespace. The
# object alone it can clear.
warn contains thwarted(finalizer, resource, bucket) if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.finalized[request.name]
	some resource, buckets in resources
	some bucket in buckets
	bucket.ownership.state == "alive"
	bucket.ownership.creates
}

# One that the catalog does not know, and that did make such things for its objects.
warn contains thwarted(finalizer, resource, tasked) if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.tasks[request.name]
	some resource, tasked in resources
}

# The owner runs on each node, for what is on that: on one that is gone, or does not answer, nobody
# does it.
warn contains {
	"msg": sprintf(
		"finalizer %s in metadata.finalizers is not removed: only the pod of %s on node %s does, and none runs there",
		[finalizer, agents.name, node],
	),
	"cause": owners.cause(finalizer, ownership, on_its_node(agents)),
	"objects": [request.target, {"resource": "nodes", "namespace": "", "name": node}],
	"evidence": ownership.evidence,
	"field": field,
	"steps": without_agent(node, finalizer, ownership),
} if {
	request.resource == "pods"
	some field, finalizer in fields
	ownership := input.ownership[finalizer]
	agents := owners.agents(ownership)
	node := input.request.oldObject.spec.nodeName
	not node in agents.on
}

warn contains {
	"msg": sprintf(
		"%s on node %s %s finalizer %s: only the pod of %s there removes it, and none runs",
		[wording.counted(count(names), "pods"), node, wording.plural(count(names), "has", "have"), finalizer, agents.name],
	),
	"cause": owners.cause(finalizer, bucket.ownership, on_its_node(agents)),
	"objects": array.concat(
		[{"resource": "pods", "namespace": request.name, "name": name} | some name in names],
		[{"resource": "nodes", "namespace": "", "name": node}],
	),
	"evidence": bucket.ownership.evidence,
	"steps": without_agent(node, finalizer, bucket.ownership),
} if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.finalized[request.name]
	some bucket in resources.pods
	agents := owners.agents(bucket.ownership)
	some node in ({on | some name in bucket.names; on := data.cluster.pods[request.name][name].node} - (agents.on | {""}))
	names := [name | some name in bucket.names; data.cluster.pods[request.name][name].node == node]
}

# Without the node, there is no agent for what is on it.
warn contains {
	"msg": sprintf(
		"%s on this node %s finalizer %s, which only the pod of %s here removes",
		[wording.counted(count(names), "pods"), wording.plural(count(names), "has", "have"), finalizer, agents.name],
	),
	"cause": owners.cause(finalizer, bucket.ownership, on_its_node(agents)),
	"objects": [{"resource": "pods", "namespace": ns, "name": name} | some name in names],
	"evidence": bucket.ownership.evidence,
	"steps": [steps.mend(
		sprintf("Drain node %s first, and go on when its pods with finalizer %s are gone, while its agents still run", [request.name, finalizer]),
		[],
	)],
} if {
	request.deleting
	request.resource == "nodes"
	some ns, finalizers in data.cluster.finalized
	some finalizer, resources in finalizers
	some bucket in resources.pods
	agents := owners.agents(bucket.ownership)
	names := [name | some name in bucket.names; data.cluster.pods[ns][name].node == request.name]
	count(names) > 0
}

on_its_node(agents) := sprintf("only the pod of %s on its node removes it", [agents.name])

without_agent(node, finalizer, ownership) := [
	steps.then("itself", steps.mend(sprintf("Bring back node %s and its pod of %s", [node, owners.name(ownership)]), [])),
	steps.remove(
		sprintf(
			"If node %s is gone for good, clean up what the finalizer protects%s, then remove %s: %s",
			[node, owners.cleared(ownership), finalizer, finalizers.left_behind],
		),
		[],
	),
]

# fields are the finalizers of the object, by where each stands.
fields[sprintf("metadata.finalizers[%d]", [i])] := finalizer if {
	request.deleting
	some i, finalizer in input.request.oldObject.metadata.finalizers
}

# The namespace controller removes its own once the content is gone.
fields[sprintf("spec.finalizers[%d]", [i])] := finalizer if {
	request.deletes_namespace
	some i, finalizer in input.request.oldObject.spec.finalizers
	finalizer != "kubernetes"
}

own(field, finalizer, ownership) := {
	"msg": sprintf("finalizer %s in %s is not removed: %s", [finalizer, split(field, "[")[0], why]),
	"cause": owners.cause(finalizer, ownership, why),
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
	"cause": owners.cause(finalizer, bucket.ownership, why),
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
	"cause": owners.cause(finalizer, bucket.ownership, why),
	"objects": [{"resource": resource, "namespace": request.name, "name": name} | some name in bucket.names],
	"evidence": object.get(bucket.ownership, "evidence", []),
	"steps": finalizers.going_first(request.name, finalizer, resource, bucket),
} if {
	why := sprintf("%s, which is refused once the namespace is Terminating", [creating(bucket)])
}

creating(bucket) := sprintf("%s must create %s here to clear it", [owners.its(bucket.ownership), bucket.ownership.creates]) if {
	bucket.ownership.creates
}

creating(bucket) := sprintf("%s creates %s for them here, maybe also to clear it", [owners.its(bucket.ownership), bucket.creates]) if {
	bucket.creates
}

by_hand(field, finalizer, ownership) := finalizers.as_told(ownership, [steps.remove(
	sprintf(
		"%s (to patch or edit spec.finalizers is silently ignored)",
		[finalizers.gone_for_good(finalizer, ownership)],
	),
	{"verb": "finalize", "objects": [request.word], "finalizers": [finalizer]},
)])[0] if {
	startswith(field, "spec.")
}

by_hand(field, _, ownership) := finalizers.giving_up_own(ownership) if {
	startswith(field, "metadata.")
	request.deleting
}

# Where an evicted pod holds its finalizers is not told.
by_hand(_, finalizer, ownership) := steps.remove(finalizers.gone_for_good(finalizer, ownership), []) if request.evicting
