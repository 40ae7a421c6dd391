# METADATA
# description: What node probes found (data.cluster.probes).
package termguard.lib.probes

import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times

# patience is how old a report may be, in seconds: five times what lies between two.
patience := 600

# current is true for a node whose report counts: of a clock that is ahead by more than
# a minute nothing is known.
current(node) if {
	age := times.since(data.cluster.probes[node].at)
	age >= -60
	age <= patience
}

# told are, by node, the pods that the request waits for and that a probe found a cause
# for, with all that it found.
told(cause) := {node: {"namespace": held.namespace, "names": names, "count": count(names), "found": found} |
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

# will are those that stay: what their own containers do, they may undo when they stop.
will(cause) := {node: held |
	some node, held in told(cause)
	sure(held)
}

# may are the others.
may(cause) := {node: held |
	some node, held in told(cause)
	not sure(held)
}

sure(held) if {
	some f in held.found
	f.certainty == "will"
	not undone(held, f.cause)
}

# undone is true where the manifests of all of them say that they cause it themselves.
undone(held, cause) if {
	every name in held.names {
		hazards[cause] in data.cluster.pods[held.namespace][name].hazards
	}
}

hazards := {"immutable": "immutable", "busy": "mounts"}

# everywhere are, by node, the pods that the request waits for where a probe found a
# cause that concerns all pods of the node.
everywhere(causes) := {node: object.union(held, {"found": found}) |
	some node, held in pods.waiting(data.cluster.probes)
	current(node)
	found := [f | some f in data.cluster.probes[node].all; f.cause in causes]
	count(found) > 0
}

# concerned is true for the pod under review, or one of the namespace under review
# that is still there.
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

# same is false for what an earlier pod of the name left behind.
same(f) if not earlier(f)

earlier(f) if {
	reviewed := pods.reviewed.metadata.uid
	f.uid != reviewed
}

# finding is about what was found, which is so of the node: evidence by name, and what to run on the node before
# everything else.
finding(msg, why, node, held, plan) := {
	"msg": msg,
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
