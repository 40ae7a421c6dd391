# METADATA
# title: Drain blocked by a PodDisruptionBudget
# description: >-
#   kubectl drain, Karpenter and Cluster API evict the pods of a node one by one. The API
#   server refuses an eviction while the pod's PodDisruptionBudget allows no disruption,
#   and if two budgets select one pod. The clients retry: the drain does not end, and
#   neither does the deletion of a NodeClaim or Machine that waits for it. A plain delete
#   of a pod or of a Node ignores budgets.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/registry/core/pod/storage/eviction.go
#     description: Checks of the API server before it evicts a pod.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/disruption/disruption.go
#     description: How many disruptions a budget allows.
#   - ref: https://karpenter.sh/docs/concepts/disruption/#terminationgraceperiod
#     description: How long budgets can delay Karpenter.
# custom:
#   id: eviction-blocked
#   severity: high
#   class: rule
#   triggers: [delete]
#   resources: [pods/eviction, nodes, nodeclaims.karpenter.sh, machines.cluster.x-k8s.io]
#   needs: [data.cluster.budgets]
#   relies_on:
#     - kinds: [poddisruptionbudgets.policy, pods]
#       for: [nodes, nodeclaims.karpenter.sh, machines.cluster.x-k8s.io]
#   remedy: >-
#     Run one replica more than the budget needs, or allow a disruption in the budget, and
#     the drain continues by itself. As a last resort, delete the pods: a delete ignores
#     budgets, and the application runs without the pods until their replacements are ready.
#   limits: >-
#     A budget that allows one disruption while two of its pods are on the node is not
#     reported: the second eviction waits until another pod is ready elsewhere. Whether a
#     pod can be scheduled elsewhere. Exceptions of the clients (Karpenter's
#     do-not-disrupt, Cluster API's MachineDrainRules).
package termguard.eviction_blocked

import data.termguard.lib.drains
import data.termguard.lib.request
import data.termguard.lib.times

deny contains finding(pods.drain, pods.namespace, pods.held) if {
	some pods in drains.blocked
	sure(pods.drain, pods.held)
}

warn contains finding(pods.drain, pods.namespace, pods.held) if {
	some pods in drains.blocked
	not drains.slow(pods.drain)
	not sure(pods.drain, pods.held)
}

# A single eviction is refused at once: software would log the warning at each retry.
warn contains {
	"msg": sprintf("the API server refuses to evict this pod: %s", [drains.because(request.namespace, held)]),
	"objects": array.concat([request.target], drains.covering(request.namespace, held)),
	"evidence": drains.evidence(request.namespace, held),
	"steps": array.concat([drains.mended(request.namespace, held)], drains.removed(request.namespace, [request.name])),
} if {
	request.evicting
	request.person
	held := data.cluster.unevictable[request.namespace][request.name]
}

# sure reports whether only a change of the budget or its workload helps.
sure(drain, held) if {
	drain.patient
	held.why != "now"
}

finding(drain, ns, held) := object.union(
	{
		"msg": sprintf("%s, so %s %s", [drains.held_up(drain, ns, held), drain.who, waits(drain, held)]),
		"objects": drains.objects(ns, held),
		"evidence": drains.evidence(ns, held),
		"steps": array.concat([drains.mended(ns, held)], drains.removed(ns, held.names)),
	},
	estimate(drain),
)

estimate(drain) := {"estimate_seconds": drains.bound(drain)} if drains.bound(drain)

estimate(drain) := {} if not drains.bound(drain)

waits(drain, _) := sprintf("waits for up to %s", [times.duration(drains.bound(drain))])

waits(drain, held) := "waits forever" if {
	not drains.bound(drain)
	sure(drain, held)
}

waits(drain, held) := "may wait forever" if {
	not drains.bound(drain)
	not sure(drain, held)
}
