# METADATA
# title: Disruption budget that never allows an eviction
# description: >-
#   A PodDisruptionBudget whose minAvailable is all of its pods, or whose maxUnavailable
#   is 0, refuses each eviction, even while all its pods are healthy. kubectl drain, the
#   cluster autoscaler, Karpenter and Cluster API retry, so the drain of a node with such
#   a pod does not end. A plain delete ignores budgets.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/disruption/disruption.go
#     description: How many disruptions a budget allows.
#   - ref: https://kubernetes.io/docs/tasks/run-application/configure-pdb/#think-about-how-your-application-reacts-to-disruptions
#     description: How to configure a budget.
# custom:
#   id: budget-never-allows
#   aliases: [eviction-blocked]
#   severity: low
#   triggers: [apply]
#   resources: [poddisruptionbudgets.policy]
#   remedy: >-
#     Allow one disruption in the budget (maxUnavailable 1), or run one replica more than
#     the budget needs. Otherwise delete the budget.
#   limits: >-
#     In manifests: workloads outside the set, workloads that KEDA scales to zero, and pods
#     of neither a Deployment nor a StatefulSet. Budgets that block each drain on purpose.
package termguard.budget_never_allows

import data.termguard.lib.request
import data.termguard.lib.wording

warn contains {
	"msg": sprintf(
		"PodDisruptionBudget %s allows no eviction%s: %s, so the drain of a node with such a pod does not end",
		[request.name, lasting(field), why],
	),
	"objects": [request.target],
	"evidence": [sprintf("it selects %d %s, and needs %d", [counted.expected, pods, counted.needed]) |
		counted.expected > 0
		pods := wording.plural(counted.expected, "pod", "pods")
	],
	"field": field,
} if {
	request.applying
	some {"field": field, "why": why} in reasons
}

lasting(field) := " while its autoscaler runs the minimum" if {
	field == "spec.minAvailable"
	counted.autoscaled
	input.request.object.spec.minAvailable != "100%"
} else := ", ever"

reasons contains {"field": "spec.maxUnavailable", "why": "maxUnavailable is 0"} if {
	input.request.object.spec.maxUnavailable in {0, "0", "0%"}
}

reasons contains keeps_all if input.request.object.spec.minAvailable == "100%"

reasons contains keeps_all if {
	input.request.object.spec.minAvailable
	counted.expected > 0
	counted.needed >= counted.expected
}

keeps_all := {"field": "spec.minAvailable", "why": "minAvailable is all of its pods"}

counted := object.get(data.cluster.budgets, [request.namespace, request.name], {"expected": 0, "needed": 0})
