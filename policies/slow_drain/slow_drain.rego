# METADATA
# title: Drain that a PodDisruptionBudget holds up for a time
# description: >-
#   Karpenter evicts the pods of a node before it gives a NodeClaim up, and lets budgets hold
#   that up for the NodeClaim's terminationGracePeriod at most: what is left then is
#   deleted. This is slow, but it does not hang.
# related_resources:
#   - ref: https://karpenter.sh/docs/concepts/disruption/#terminationgraceperiod
#     description: How long Karpenter lets budgets hold up a node.
# custom:
#   id: slow-drain
#   severity: info
#   class: rule
#   triggers: [delete]
#   resources: [nodeclaims.karpenter.sh]
#   needs: [data.cluster.unevictableOn]
#   remedy: >-
#     Wait, or let the budget allow a disruption. Last, delete the pods: that asks no budget,
#     and the application runs without them until others are ready.
#   limits: >-
#     The estimate is an upper bound. The time in which the cloud takes the machine away
#     comes on top of it.
package termguard.slow_drain

import data.termguard.lib.drains
import data.termguard.lib.times

warn contains {
	"msg": sprintf(
		"%s, and %s waits for up to %s",
		[drains.held_up(drain, held.namespace, held.held), drain.who, times.duration(drains.bound(drain))],
	),
	"objects": drains.objects(held.namespace, held.held),
	"evidence": drains.evidence(held.namespace, held.held),
	"estimate_seconds": drains.bound(drain),
	"steps": array.concat(
		[drains.mended(held.namespace, held.held)],
		drains.removed(held.namespace, held.held.names),
	),
} if {
	some held in drains.blocked
	drain := held.drain
	drains.slow(drain)
}
