# METADATA
# title: Drain delayed by a PodDisruptionBudget
# description: >-
#   Karpenter evicts the pods of a node before it deletes the NodeClaim. Budgets can delay
#   that for the NodeClaim's terminationGracePeriod at most: the remaining pods are then
#   deleted. This is slow, but it does not hang.
# related_resources:
#   - ref: https://karpenter.sh/docs/concepts/disruption/#terminationgraceperiod
#     description: How long budgets can delay Karpenter.
# custom:
#   id: slow-drain
#   severity: info
#   class: rule
#   triggers: [delete]
#   resources: [nodeclaims.karpenter.sh]
#   needs: [data.cluster.budgets]
#   remedy: >-
#     Wait, or allow a disruption in the budget. As a last resort, delete the pods: a delete
#     ignores budgets, and the application runs without the pods until their replacements
#     are ready.
#   limits: >-
#     The estimate is an upper bound, without the time that the cloud needs to delete the
#     machine.
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
