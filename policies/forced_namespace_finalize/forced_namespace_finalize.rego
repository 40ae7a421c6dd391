# METADATA
# title: Namespace finalized by force
# description: >-
#   The namespace controller removes kubernetes from spec.finalizers of an empty
#   namespace. If a user removes it sooner, by namespaces/finalize, the namespace is
#   deleted and its content stays without one: nothing deletes these objects or removes
#   their finalizers, and they reappear in a new namespace of that name.
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
#     Find the blockers of the namespace (kubectl termguard check namespaces/NAME), repair
#     them, and the deletion finishes by itself. Or delete its remaining content first. As a
#     last resort, if you finalize it by force anyway, save the list of its content: these
#     objects stay in etcd, and the resources behind them (load balancers, volumes,
#     machines) are leaked.
#   limits: >-
#     The numbers are a moment old. One ConfigMap and one ServiceAccount count as
#     kube-root-ca.crt and default, which every namespace has. Events, leases, and objects
#     of an unreadable API are not counted. Software that finalizes namespaces by force.
package termguard.forced_namespace_finalize

import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

warn contains {
	"msg": sprintf(
		"finalizing namespace %s by force orphans %d %s: %s",
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

orphans[resource] := left if {
	some resource, n in data.cluster.counts[request.name]
	left := n - object.get(always, resource, 0)
	left > 0
}

# always counts kube-root-ca.crt and default, which every namespace has.
default always := {}

always := {"configmaps": 1, "serviceaccounts": 1} if data.cluster.counts[request.name].serviceaccounts > 0

described := [wording.counted(pair[1], pair[2]) | some pair in sort([[0 - n, n, resource] | some resource, n in orphans])]

listed := concat(", ", described) if count(described) <= 3

listed := sprintf("%s and %d more kinds", [concat(", ", array.slice(described, 0, 2)), count(described) - 2]) if count(described) > 3

plan := [
	steps.then(
		"itself", sprintf("Fix the blockers of the namespace (kubectl termguard check namespaces/%s)", [request.name]),
		[],
	),
	steps.force(
		concat(" ", [
			"Finalize the namespace by force, after saving the list of its content:",
			"these objects stay in etcd without a namespace, and the resources behind them are leaked",
		]),
		[],
	),
]
