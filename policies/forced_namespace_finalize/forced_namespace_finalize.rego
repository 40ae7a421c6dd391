# METADATA
# title: Namespace finalized by force
# description: >-
#   The namespace controller removes kubernetes from spec.finalizers of a namespace when
#   nothing is left in it. If somebody removes it sooner, with an update of
#   namespaces/finalize, the namespace disappears and its content stays: objects in a
#   namespace that does not exist. Nothing deletes them any more, nobody removes their
#   finalizers, and they are back as soon as somebody creates a namespace of that name.
# related_resources:
#   - ref: https://kubernetes.io/docs/tasks/administer-cluster/namespaces/#deleting-a-namespace
#     description: How namespaces are deleted.
#   - ref: https://github.com/kubernetes/kubernetes/issues/77086
#     description: Why there is no force delete of a namespace.
# custom:
#   id: forced-namespace-finalize
#   severity: high
#   triggers: [finalizer-edit]
#   resources: [namespaces]
#   needs: [data.cluster.counts.$NAMESPACE]
#   remedy: >-
#     Find out what the namespace waits for (kubectl termguard check namespaces/NAME),
#     repair that, and the deletion finishes by itself. Or delete what is left in it
#     first. Last, if you finalize it by force anyway, save the list of what is in it:
#     those objects stay in etcd, and what they stand for (load balancers, volumes,
#     machines) continues to exist.
#   limits: >-
#     The numbers are a moment old. One ConfigMap and one ServiceAccount are taken for
#     kube-root-ca.crt and default, which every namespace has. Events, leases, and objects
#     of an API that cannot be read are not counted. Software that finalizes namespaces by
#     force.
package termguard.forced_namespace_finalize

import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

warn contains {
	"msg": sprintf(
		"ending namespace %s by force orphans %d %s: %s",
		[request.name, total, wording.plural(total, "object", "objects"), listed],
	),
	"objects": [request.target],
	"evidence": described,
	"field": sprintf("spec.finalizers[%d]", [i]),
	"steps": plan,
} if {
	request.resource == "namespaces"
	input.request.subResource == "finalize"
	input.request.operation == "UPDATE"
	request.person
	not "kubernetes" in object.get(input.request.object, ["spec", "finalizers"], [])
	some i, "kubernetes" in input.request.oldObject.spec.finalizers
	total := sum([n | some n in orphans])
	total > 0
}

# orphans is the number of remaining objects, by resource.
orphans[resource] := left if {
	some resource, n in data.cluster.counts[request.name]
	left := n - object.get(always, resource, 0)
	left > 0
}

# always is the number of objects that every namespace has: kube-root-ca.crt and default. The
# namespace controller deletes both with the rest.
default always := {}

always := {"configmaps": 1, "serviceaccounts": 1} if data.cluster.counts[request.name].serviceaccounts > 0

# described lists the orphans, the most numerous first.
described := [wording.counted(pair[1], pair[2]) | some pair in sort([[0 - n, n, resource] | some resource, n in orphans])]

listed := concat(", ", described) if count(described) <= 3

listed := sprintf("%s and %d more kinds", [concat(", ", array.slice(described, 0, 2)), count(described) - 2]) if count(described) > 3

plan := [
	steps.then(
		"itself", sprintf("Fix what the namespace waits for (kubectl termguard check namespaces/%s)", [request.name]),
		[],
	),
	steps.force(
		concat(" ", [
			"End the namespace by force, having saved the list of what is in it:",
			"those objects stay in etcd without a namespace, and what they stand for stays in existence",
		]),
		[],
	),
]
