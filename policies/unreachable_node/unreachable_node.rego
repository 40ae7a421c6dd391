# METADATA
# title: Pod on a node that cannot stop it
# description: >-
#   A pod that runs is gone only after its kubelet has stopped it. On a node
#   that does not answer, or whose container runtime is down, it stays
#   Terminating, and with it its namespace. Pods that are not scheduled yet,
#   have finished, or have no grace period are removed by the API server itself;
#   pods on a node that no longer exists, or that is tainted out-of-service, by
#   the pod garbage collector.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/71590
#     description: Namespace stuck by pods on a dead node.
#   - ref: https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown
#     description: The out-of-service taint.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/runtime.go
#     description: The runtime errors during which the kubelet stops no pod.
# custom:
#   id: unreachable-node
#   severity: high
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.notReady]
#   remedy: >-
#     Bring the node back, and the pod goes by itself. If the machine is off for
#     good, delete the Node, or taint it
#     node.kubernetes.io/out-of-service=nodeshutdown:NoExecute: its pods are
#     then collected within a minute or two. Last, kubectl delete pod --force
#     --grace-period=0 removes only the object: containers on a machine that
#     still runs live on, next to their replacement.
#   limits: >-
#     A kubelet that died within the last 50 seconds: its node still counts as
#     ready. A runtime that hangs without being reported.
package termguard.unreachable_node

import data.termguard.lib

deny contains finding(name, node, pods, "will") if {
	not lib.evicting
	some name, pods in waiting
	node := data.cluster.notReady[name]
	not node.outOfService
	lib.stopped(node)
}

# The delete that an eviction causes is not shown to admission.
warn contains finding(name, node, pods, "will") if {
	lib.evicting
	some name, pods in waiting
	node := data.cluster.notReady[name]
	not node.outOfService
	lib.stopped(node)
}

warn contains finding(name, node, pods, "may") if {
	some name, pods in waiting
	node := data.cluster.notReady[name]
	not node.outOfService
	not lib.stopped(node)
	not lib.harmless(node)
}

# waiting are the pods that need their kubelet to go, by node: how many, the
# names of some, and what the message calls them.
waiting[node] := {"count": pods.count, "names": pods.names, "namespace": lib.name} if {
	lib.deletes_namespace
	some node, pods in used
}

waiting[pod.spec.nodeName] := {"count": 1, "names": [lib.name], "namespace": lib.namespace} if {
	lib.deleting
	lib.resource == "pods"
	pod := input.request.oldObject
	not pod.status.phase in lib.finished
	grace(object.get(pod.spec, "terminationGracePeriodSeconds", 30)) != 0
}

waiting[pod.node] := {"count": 1, "names": [lib.name], "namespace": lib.namespace} if {
	lib.evicting
	pod := data.cluster.pods[lib.namespace][lib.name]
	not pod.phase in lib.finished
	grace(object.get(pod, "gracePeriodSeconds", 30)) != 0
}

# used are the nodes of a namespace that are not ready, found from the smaller
# side: few nodes are not ready, but a namespace may be on all of them.
used[node] := pods if {
	count(data.cluster.notReady) <= count(data.cluster.podsByNode[lib.name])
	some node, _ in data.cluster.notReady
	pods := data.cluster.podsByNode[lib.name][node]
}

used[node] := pods if {
	count(data.cluster.notReady) > count(data.cluster.podsByNode[lib.name])
	some node, pods in data.cluster.podsByNode[lib.name]
	data.cluster.notReady[node]
}

# grace is the grace period of the request; of the pod, if it names none.
grace(spec) := seconds if {
	some seconds in requested
} else := spec

requested contains input.request.options.gracePeriodSeconds if lib.deleting

requested contains input.request.object.deleteOptions.gracePeriodSeconds if lib.evicting

finding(name, node, pods, certainty) := {
	"msg": sprintf("%s on node %s, which %s, so %s %s stay Terminating", [who(pods), name, state(node), pronoun(pods.count), certainty]),
	"objects": array.concat(
		[{"resource": "nodes", "namespace": "", "name": name}],
		[{"resource": "pods", "namespace": pods.namespace, "name": pod} | some pod in pods.names],
	),
	"evidence": [sprintf("node %s has Ready=%s since %s, %s", [name, node.ready, node.since, lib.explained(node)])],
	"steps": lib.pods_off(name, pods.namespace, pods.names),
}

who(_) := "this pod is" if lib.resource == "pods"

who(pods) := "1 pod is" if {
	lib.resource == "namespaces"
	pods.count == 1
}

who(pods) := sprintf("%d pods are", [pods.count]) if {
	lib.resource == "namespaces"
	pods.count != 1
}

pronoun(1) := "it"

pronoun(n) := "they" if n != 1

state(node) := sprintf("does not answer (%s)", [node.reason]) if node.ready == "Unknown"

state(node) := "has no container runtime" if {
	node.ready != "Unknown"
	lib.stopped(node)
}

state(node) := sprintf("is not ready (%s)", [node.reason]) if not lib.stopped(node)
