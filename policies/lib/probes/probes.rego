# METADATA
# description: Reports of node probes (data.cluster.probes).
package termguard.lib.probes

import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times

# patience is the maximum age of a report, in seconds: five times the interval.
patience := 600

# A clock that is more than a minute ahead makes a report worthless.
current(node) if {
	age := times.since(data.cluster.probes[node].at)
	age >= -60
	age <= patience
}

# reported lists, by node, the awaited pods with a cause that a probe reported.
reported(cause) := {node: {"namespace": held.namespace, "names": names, "count": count(names), "found": found} |
	some node, held in pods.waiting(data.cluster.probes)
	current(node)
	by_pod := {name: which |
		some name, listed in data.cluster.probes[node].pods[held.namespace]
		concerned(node, name)
		which := [f | some f in listed; f.cause == cause; same(f)]
		count(which) > 0
	}
	names := sort(object.keys(by_pod))
	count(names) > 0
	found := [f | some name in names; some f in by_pod[name]]
}

# Stopping containers may undo their own doings.
will(cause) := {node: held |
	some node, held in reported(cause)
	sure(held)
}

# may lists the other pods.
may(cause) := {node: held |
	some node, held in reported(cause)
	not sure(held)
}

sure(held) if {
	some f in held.found
	f.certainty == "will"
	not undone(held, f.cause)
}

undone(held, cause) if {
	every name in held.names {
		hazards[cause] in data.cluster.pods[held.namespace][name].hazards
	}
}

hazards := {"immutable": "immutable", "busy": "mounts"}

# everywhere lists, by node, the awaited pods if a probe reported a cause that concerns the whole
# node.
everywhere(causes) := {node: object.union(held, {"found": found}) |
	some node, held in pods.waiting(data.cluster.probes)
	current(node)
	found := [f | some f in data.cluster.probes[node].all; f.cause in causes]
	count(found) > 0
}

# concerned reports whether a pod is the pod under review, or in the namespace under review.
concerned(_, name) if {
	not request.deletes_namespace
	name == request.name
}

concerned(node, name) if {
	request.deletes_namespace
	pod := data.cluster.pods[request.name][name]
	pod.node == node
	not pod.phase in pods.finished
}

# same is false for remains of an earlier pod with the same name.
same(f) if not earlier(f)

earlier(f) if {
	reviewed := pods.reviewed.metadata.uid
	f.uid != reviewed
}

# finding reports what a probe saw, with the command for the node as the first step.
finding(why, node, held, certainty, plan) := {
	"msg": pods.stay(node, why, held, certainty),
	"cause": pods.because(node, why),
	"objects": pods.on(node, held),
	"evidence": evidence(node, held.found),
	"steps": array.concat(
		[steps.mend(sprintf("On node %s, run: %s", [node, f.remedy]), []) | some f in held.found; f.remedy != ""],
		plan,
	),
}

evidence(node, found) := [sprintf("the node probe saw %s ago: %s", [age, f.evidence]) |
	age := times.duration(max([0, times.since(data.cluster.probes[node].at)]))
	some f in found
]
