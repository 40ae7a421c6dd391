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
#   triggers: [delete]
#   resources: [pods, nodes, nodeclaims.karpenter.sh, machines.cluster.x-k8s.io]
#   needs: [data.cluster.unevictable.$NAMESPACE, data.cluster.unevictableOn]
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

import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times
import data.termguard.lib.wording

deny contains finding(pods.drain, pods.namespace, pods.held) if {
	some pods in blocked
	sure(pods.drain, pods.held)
}

warn contains finding(pods.drain, pods.namespace, pods.held) if {
	some pods in blocked
	not sure(pods.drain, pods.held)
}

# An eviction by itself is refused at once: who asks for it asks again. Software reads
# the answer, and would only log the warning each time.
warn contains {
	"msg": sprintf("the API server refuses to evict this pod: %s", [because(request.namespace, held)]),
	"objects": array.concat([request.target], covering(request.namespace, held)),
	"evidence": evidence(request.namespace, held),
	"steps": array.concat([mended(request.namespace, held)], removed(request.namespace, [request.name])),
} if {
	request.evicting
	request.person
	held := data.cluster.unevictable[request.namespace][request.name]
}

# blocked are the pods that a drain cannot evict, and why.
blocked contains {"drain": drain, "namespace": ns, "held": held} if {
	some drain in drains
	some ns, reasons in data.cluster.unevictableOn[drain.node]
	some held in reasons
}

# drains are the drains that the request waits for: those of the nodes that the
# owners of its finalizers evict all pods from first.
drains contains {"node": request.name, "who": "the drain", "patient": true} if request.draining

drains contains {"node": node, "who": who(ownership), "patient": patient(ownership.drains), "seconds": limits(ownership.drains)} if {
	request.deleting
	some finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
	node := drained(ownership.drains)
}

who(ownership) := object.get(ownership, "owner", "the owner of the finalizer")

drained(_) := request.name if request.resource == "nodes"

drained(drain) := object.get(input.request.oldObject, drain.node, "") if request.resource != "nodes"

# patient is true of who asks budgets for ever, in this cluster, as far as the object tells.
default patient(_) := false

patient(drain) if {
	request.resource != "nodes" # whose NodeClaim may bound it
	not drain.elsewhere
	count(limits(drain)) == 0
}

# limits are after how many seconds it goes on, whatever budgets say.
limits(drain) := {seconds |
	some path in drain.bounded
	seconds := in_seconds(object.get(input.request.oldObject, path, null))
}

in_seconds(value) := value if is_number(value)

in_seconds(value) := floor(time.parse_duration_ns(value) / 1000000000) if is_string(value)

# sure is true where nothing but a change of the budget or its workload helps.
sure(drain, held) if {
	drain.patient
	held.why != "now"
}

finding(drain, ns, held) := object.union(
	{
		"msg": sprintf("%d %s of namespace %s on node %s cannot be evicted: %s, so %s %s", [
			held.count, wording.plural(held.count, "pod", "pods"), ns, drain.node,
			because(ns, held), drain.who, waits(drain, held),
		]),
		"objects": array.concat(covering(ns, held), [{"resource": "pods", "namespace": ns, "name": name} | some name in held.names]),
		"evidence": evidence(ns, held),
		"steps": array.concat([mended(ns, held)], removed(ns, held.names)),
	},
	estimate(object.get(drain, "seconds", set())),
)

estimate(bounds) := {} if count(bounds) == 0

estimate(bounds) := {"estimate_seconds": min(bounds)} if count(bounds) > 0

waits(drain, _) := sprintf("waits for up to %s", [times.duration(min(drain.seconds))]) if count(object.get(drain, "seconds", set())) > 0

waits(drain, held) := "does not end" if {
	count(object.get(drain, "seconds", set())) == 0
	sure(drain, held)
}

waits(drain, held) := "may not end" if {
	count(object.get(drain, "seconds", set())) == 0
	not sure(drain, held)
}

because(_, held) := sprintf("PodDisruptionBudget %s never allows a disruption", [held.budgets[0]]) if held.why == "never"

because(_, held) := sprintf("PodDisruptionBudgets %s both cover it, which evictions do not support", [concat(" and ", held.budgets)]) if {
	held.why == "several"
}

because(_, held) := sprintf("PodDisruptionBudget %s fails to sync, and allows no disruption until it does", [held.budgets[0]]) if {
	held.why == "unsynced"
}

because(ns, held) := text if {
	held.why == "now"
	known := data.cluster.budgets[ns][held.budgets[0]]
	text := sprintf(
		"PodDisruptionBudget %s allows no disruption now (%d healthy, %d needed)",
		[held.budgets[0], known.healthy, known.needed],
	)
}

evidence(ns, held) := [text |
	some name in held.budgets
	known := data.cluster.budgets[ns][name]
	text := sprintf(
		"PodDisruptionBudget %s: %d of %d pods healthy, %d must stay so, %d disruptions allowed",
		[name, known.healthy, known.expected, known.needed, known.allowed],
	)
]

covering(ns, held) := [{"resource": "poddisruptionbudgets.policy", "namespace": ns, "name": name} | some name in held.budgets]

mended(_, held) := steps.mend(
	sprintf("Let PodDisruptionBudget %s allow a disruption, or let its workload run more replicas", [held.budgets[0]]),
	[],
) if {
	held.why == "never"
}

mended(ns, held) := steps.mend("Leave one PodDisruptionBudget for these pods, and delete the others", steps.deletion(
	array.slice(steps.batches("poddisruptionbudgets.policy", array.slice(held.budgets, 1, count(held.budgets)))[0], 0, 10),
	ns,
)) if {
	held.why == "several"
}

mended(ns, held) := steps.mend(
	sprintf("See why PodDisruptionBudget %s fails to sync: often its pods have no controller to count from", [held.budgets[0]]),
	array.flatten(["kubectl", "describe", sprintf("poddisruptionbudgets.policy/%s", [held.budgets[0]]), steps.option(ns)]),
) if {
	held.why == "unsynced"
}

mended(_, held) := steps.mend(
	sprintf("Wait until the other pods of PodDisruptionBudget %s are healthy, or mend them", [held.budgets[0]]),
	[],
) if {
	held.why == "now"
}

removed(ns, names) := [steps.remove(
	"Or delete the pods, which asks no budget: the application runs without them until others are ready",
	steps.deletion(objects, ns),
) |
	some objects in steps.batches("pods", names)
]
