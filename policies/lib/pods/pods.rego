# METADATA
# description: The pods that the request waits for.
package termguard.lib.pods

import data.termguard.lib.grace
import data.termguard.lib.request
import data.termguard.lib.wording

# finished are the phases of a pod in which the API server sets the grace period
# to 0 (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
finished := {"Succeeded", "Failed"}

# reviewed is the pod under review. An eviction carries none: the facts know it.
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

# waiting are, of the nodes given (an object by name), those that have pods which
# the request waits for and which need their kubelet to go: how many, the names
# of some, and their namespace.
waiting(names) := {node: held |
	count(names) > 0
	some node, held in alone
	names[node]
} if {
	not request.deletes_namespace
}

# Of a namespace they are found from the smaller side: few nodes may be in
# trouble, but a namespace may be on all of them.
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

# alone is the pod under review, by its node. Without a node or a grace period,
# or finished, it needs no kubelet to go.
alone[reviewed.spec.nodeName] := {"count": 1, "names": [request.name], "namespace": request.namespace} if {
	not over(reviewed)
	grace.asked(reviewed.spec) != 0
}

# over is true for a pod that had ended before it was deleted. One that ended since
# waits for its node to clean up, until its grace period is 0
# (pkg/kubelet/status/status_manager.go).
over(pod) if {
	pod.status.phase in finished
	object.get(pod.metadata, "deletionGracePeriodSeconds", 0) == 0
}

# about is true for what is about a pod that the request waits for.
about(pod) if {
	request.deletes_namespace
	pod.namespace == request.name
}

about(pod) if {
	not request.deletes_namespace
	pod.namespace == request.namespace
	pod.name == request.name
}

# hazardous are the pods that the request waits for and that have a hazard, by
# node.
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

# who is the beginning of a sentence about pods.
who(_) := "this pod is" if request.resource == "pods"

who(held) := sprintf("%d %s", [held.count, wording.plural(held.count, "pod is", "pods are")]) if request.resource == "namespaces"

# they and them are how the sentence goes on.
they(held) := wording.plural(held.count, "it", "they")

them(held) := wording.plural(held.count, "it", "them")

# named are pods as the objects of a finding.
named(held) := [{"resource": "pods", "namespace": held.namespace, "name": name} | some name in held.names]

# because blames a node: why begins with which, whose or where.
because(node, why) := {"node": node, "title": why}

# on are a node and pods of it as the objects of a finding.
on(node, held) := array.concat([{"resource": "nodes", "namespace": "", "name": node}], named(held))
