# METADATA
# description: Drains that the request waits for, and pods that they cannot evict (data.cluster.unevictableOn).
package termguard.lib.drains

import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

# blocked lists the pods that a drain cannot evict, and why.
blocked contains {"drain": drain, "namespace": ns, "held": held} if {
	some drain in awaited
	some ns, reasons in data.cluster.unevictableOn[drain.node]
	some held in reasons
}

# Owners of finalizers evict all pods of the node first.
awaited contains {"node": request.name, "who": "the drain", "patient": true} if request.draining

awaited contains {
	"node": node, "who": who(ownership), "patient": patient(ownership.drains),
	"seconds": limits(ownership.drains), "elsewhere": ownership.drains.elsewhere,
} if {
	request.deleting
	some finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
	node := drained(ownership.drains)
}

who(ownership) := object.get(ownership, "owner", "the owner of the finalizer")

drained(_) := request.name if request.resource == "nodes"

drained(drain) := object.get(input.request.oldObject, drain.node, "") if request.resource != "nodes"

# patient reports whether the drain retries forever, as far as the object shows.
default patient(_) := false

patient(drain) if {
	request.resource != "nodes" # whose NodeClaim may bound it
	not drain.elsewhere
	count(limits(drain)) == 0
}

# limits are the seconds after which the drain ignores budgets.
limits(drain) := {seconds |
	some path in drain.bounded
	seconds := in_seconds(object.get(input.request.oldObject, path, null))
	not unlimited(drain, seconds)
}

# 0 means no limit for Cluster API, whose nodes may be in another cluster; Karpenter then does
# not wait.
unlimited(drain, 0) if drain.elsewhere

in_seconds(value) := value if is_number(value)

in_seconds(value) := floor(time.parse_duration_ns(value) / 1000000000) if is_string(value)

# bound is undefined if the drain never ignores budgets. A drain in another cluster may wait for
# longer.
bound(drain) := min(drain.seconds) if {
	count(object.get(drain, "seconds", set())) > 0
}

# slow reports whether a drain ends by itself.
slow(drain) if {
	bound(drain)
	not drain.elsewhere
}

held_up(drain, ns, held) := sprintf(
	"%d %s of namespace %s on node %s cannot be evicted: %s",
	[held.count, wording.plural(held.count, "pod", "pods"), ns, drain.node, because(ns, held)],
)

objects(ns, held) := array.concat(covering(ns, held), [{"resource": "pods", "namespace": ns, "name": name} | some name in held.names])

because(_, held) := sprintf("PodDisruptionBudget %s never allows a disruption", [held.budgets[0]]) if held.why == "never"

because(_, held) := sprintf("PodDisruptionBudgets %s both select it, which evictions do not support", [concat(" and ", held.budgets)]) if {
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
		"PodDisruptionBudget %s: %d of %d pods healthy, %d must stay healthy, %d %s allowed",
		[name, known.healthy, known.expected, known.needed, known.allowed, wording.plural(known.allowed, "disruption", "disruptions")],
	)
]

covering(ns, held) := [{"resource": "poddisruptionbudgets.policy", "namespace": ns, "name": name} | some name in held.budgets]

mended(_, held) := steps.mend(
	sprintf("Allow a disruption in PodDisruptionBudget %s, or run more replicas of its workload", [held.budgets[0]]),
	[],
) if {
	held.why == "never"
}

mended(ns, held) := steps.mend("Keep one PodDisruptionBudget for these pods, and delete the others", steps.deletion(
	array.slice(steps.batches("poddisruptionbudgets.policy", array.slice(held.budgets, 1, count(held.budgets)))[0], 0, 10),
	ns,
)) if {
	held.why == "several"
}

mended(ns, held) := steps.mend(
	sprintf("Find out why PodDisruptionBudget %s fails to sync: often its pods have no controller", [held.budgets[0]]),
	["kubectl", "describe", sprintf("poddisruptionbudgets.policy/%s", [held.budgets[0]]), "-n", ns],
) if {
	held.why == "unsynced"
}

mended(_, held) := steps.mend(
	sprintf("Wait until the other pods of PodDisruptionBudget %s are healthy, or repair them", [held.budgets[0]]),
	[],
) if {
	held.why == "now"
}

removed(ns, names) := [steps.remove(
	"Or delete the pods, which ignores budgets: the application runs without them until their replacements are ready",
	steps.deletion(objects, ns),
) |
	some objects in steps.batches("pods", names)
]
