# METADATA
# description: The pods that the request waits for.
package termguard.lib.pods

import data.termguard.lib.grace
import data.termguard.lib.request
import data.termguard.lib.wording

# finished are the phases without a grace period (pkg/registry/core/pod/strategy.go,
# CheckGracefulDelete).
finished := {"Succeeded", "Failed"}

# An eviction carries no pod: it comes from the facts.
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

# waiting lists the given nodes with awaited pods that only their kubelet can delete.
waiting(names) := {node: held |
	count(names) > 0
	some node, held in alone
	names[node]
} if {
	not request.deletes_namespace
}

# A namespace may have pods on all nodes, and few nodes may be broken: it walks the smaller side.
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

# alone needs a kubelet: without a node or a grace period, or finished, a pod is deleted at once.
alone[reviewed.spec.nodeName] := {"count": 1, "names": [request.name], "namespace": request.namespace} if {
	not over(reviewed)
	grace.effective(reviewed.spec) != 0
}

# over reports whether a pod had ended before it was deleted. One that ended later waits for its
# node (pkg/kubelet/status/status_manager.go).
over(pod) if {
	pod.status.phase in finished
	object.get(pod.metadata, "deletionGracePeriodSeconds", 0) == 0
}

about(pod) if {
	request.deletes_namespace
	pod.namespace == request.name
}

about(pod) if {
	not request.deletes_namespace
	pod.namespace == request.namespace
	pod.name == request.name
}

# hazardous lists the awaited pods with a hazard, by node.
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

subject(_) := "this pod" if request.resource == "pods"

subject(held) := wording.counted(held.count, "pods") if request.resource == "namespaces"

them(held) := wording.plural(held.count, "it", "them")

named(held) := [{"resource": "pods", "namespace": held.namespace, "name": name} | some name in held.names]

because(node, why) := {"node": node, "title": why}

# stay is the message about pods that stay because of their node.
stay(node, why, held, certainty) := sprintf("node %s %s, so %s %s stay Terminating", [node, why, subject(held), certainty])

on(node, held) := array.concat([{"resource": "nodes", "namespace": "", "name": node}], named(held))
