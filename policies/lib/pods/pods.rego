# METADATA
# description: The pods that the request waits for.
package termguard.lib.pods

import data.termguard.lib.grace
import data.termguard.lib.request
import data.termguard.lib.wording

# finished are the phases of a pod in which the API server sets the grace period
# to 0 (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
finished := {"Succeeded", "Failed"}

# reviewed is the pod under review. An eviction carries none, so it comes from the facts.
reviewed := input.request.oldObject if {
	request.deleting
	request.resource == "pods"
}

reviewed := {
	"metadata": {},
	"spec": {"nodeName": known.node, "terminationGracePeriodSeconds": object.get(known, "gracePeriodSeconds", 30)},
	"status": {"phase": known.phase},
} if {
	request.evicting
	known := data.cluster.pods[request.namespace][request.name]
}

# waiting lists the given nodes (an object by name) with pods that the request waits for and
# that only their kubelet can delete: count, some names and namespace.
waiting(names) := {node: held |
	count(names) > 0
	some node, held in alone
	names[node]
} if {
	not request.deletes_namespace
}

# For a namespace it walks the smaller side: few nodes may be broken, but a namespace may have
# pods on all of them.
waiting(names) := {node: object.union(held, {"namespace": request.name}) |
	some node, _ in names
	held := data.cluster.podsByNode[request.name][node]
} if {
	request.deletes_namespace
	count(names) <= count(data.cluster.podsByNode[request.name])
}

waiting(names) := {node: object.union(held, {"namespace": request.name}) |
	some node, held in data.cluster.podsByNode[request.name]
	names[node]
} if {
	request.deletes_namespace
	count(names) > count(data.cluster.podsByNode[request.name])
}

# alone is the pod under review, by its node. A pod without a node or a grace period, or a
# finished one, is deleted without its kubelet.
alone[reviewed.spec.nodeName] := {"count": 1, "names": [request.name], "namespace": request.namespace} if {
	not over(reviewed)
	grace.effective(reviewed.spec) != 0
}

# over reports whether a pod had ended before it was deleted. A pod that ended later waits for
# its node to clean up, until its grace period is 0 (pkg/kubelet/status/status_manager.go).
over(pod) if {
	pod.status.phase in finished
	object.get(pod.metadata, "deletionGracePeriodSeconds", 0) == 0
}

# about reports whether the request waits for this pod.
about(pod) if {
	request.deletes_namespace
	pod.namespace == request.name
}

about(pod) if {
	not request.deletes_namespace
	pod.namespace == request.namespace
	pod.name == request.name
}

# hazardous lists the pods with a hazard that the request waits for, by node.
hazardous(hazard) := {node: object.union(held, {"namespace": request.name}) |
	some node, held in data.cluster.hazards[request.name][hazard]
} if {
	request.deletes_namespace
}

hazardous(hazard) := {node: held |
	some node, held in alone
	hazard in data.cluster.pods[request.namespace][request.name].hazards
} if {
	not request.deletes_namespace
}

# subject names the pods in a sentence.
subject(_) := "this pod" if request.resource == "pods"

subject(held) := wording.counted(held.count, "pods") if request.resource == "namespaces"

# them is the pronoun for these pods.

them(held) := wording.plural(held.count, "it", "them")

# named lists pods as objects of a finding.
named(held) := [{"resource": "pods", "namespace": held.namespace, "name": name} | some name in held.names]

# because is the cause of a finding: a node, and a predicate that says why.
because(node, why) := {"node": node, "title": why}

# stay is the message about pods that stay because of their node, with the predicate of its cause.
stay(node, why, held, certainty) := sprintf("node %s %s, so %s %s stay Terminating", [node, why, subject(held), certainty])

# on lists a node and its pods as objects of a finding.
on(node, held) := array.concat([{"resource": "nodes", "namespace": "", "name": node}], named(held))
