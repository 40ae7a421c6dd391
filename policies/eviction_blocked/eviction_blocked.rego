# METADATA
# title: Drain that a PodDisruptionBudget holds up
# description: >-
#   kubectl drain, Karpenter and Cluster API evict the pods of a node one by one. The API
#   server refuses an eviction while the pod's PodDisruptionBudget allows no disruption, and
#   whenever two budgets cover one pod. They ask again and again: the drain does not end,
#   and neither does the deletion of a NodeClaim or Machine that waits for it. A budget that
#   allows nothing even while all its pods are healthy never allows it. A plain delete of a
#   pod or of a Node asks no budget.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/registry/core/pod/storage/eviction.go
#     description: What the API server asks before it evicts a pod.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/disruption/disruption.go
#     description: How many disruptions a budget allows.
#   - ref: https://karpenter.sh/docs/concepts/disruption/#terminationgraceperiod
#     description: How long Karpenter lets budgets hold up a node.
# custom:
#   id: eviction-blocked
#   severity: high
#   class: rule
#   triggers: [delete]
#   resources: [pods/eviction, nodes, nodeclaims.karpenter.sh, machines.cluster.x-k8s.io]
#   needs: [data.cluster.unevictableOn]
#   relies_on:
#     - kinds: [poddisruptionbudgets.policy, pods]
#       for: [nodes, nodeclaims.karpenter.sh, machines.cluster.x-k8s.io]
#   remedy: >-
#     Let the workload run one replica more than its budget needs, or let the budget allow
#     a disruption, and the drain goes on by itself. Last, delete the pods: that asks no
#     budget, and the application runs without them until others are ready.
#   limits: >-
#     A budget that allows one disruption while two of its pods are on the node is not
#     told: the second eviction waits until another pod is ready elsewhere. Whether a pod
#     finds a place elsewhere. Exceptions of those who drain (Karpenter's do-not-disrupt,
#     Cluster API's MachineDrainRules).
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

# A single eviction is refused at once, and its client retries. Software would only log the
# warning each time.
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

waits(drain, held) := "does not end" if {
	not drains.bound(drain)
	sure(drain, held)
}

waits(drain, held) := "may not end" if {
	not drains.bound(drain)
	not sure(drain, held)
}
