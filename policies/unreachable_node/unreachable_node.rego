# METADATA
# title: Pod on a node that cannot stop it
# description: >-
#   A running pod is deleted only after its kubelet has stopped it. On a node that does not
#   answer, or whose container runtime is down, the pod stays Terminating, and its namespace
#   with it. The API server itself removes pods that are not scheduled yet, have finished,
#   or have no grace period. Pod garbage collection removes pods on a node that no longer
#   exists or is tainted out-of-service.
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
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.notReady]
#   relies_on:
#     - kinds: [nodes]
#   remedy: >-
#     Repair or restart the node, and the deletion finishes by itself. If the machine is
#     off, taint the node with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute: its
#     pods are then removed, and their volumes detached, within a minute or two. If the
#     machine will not return, delete the Node. As a last resort, kubectl delete pod --force
#     --grace-period=0 removes only the object: containers may keep running beside their
#     replacement.
#   limits: >-
#     A kubelet that died within the last 50 seconds: its node still counts as
#     ready. A runtime that hangs without being reported.
package termguard.unreachable_node

import data.termguard.lib.nodes
import data.termguard.lib.pods
import data.termguard.lib.steps

deny contains finding(name, node, held, "will") if {
	some name, held in pods.waiting(data.cluster.notReady)
	node := data.cluster.notReady[name]
	not node.outOfService
	nodes.stopped(node)
}

warn contains finding(name, node, held, "may") if {
	some name, held in pods.waiting(data.cluster.notReady)
	node := data.cluster.notReady[name]
	not node.outOfService
	not nodes.stopped(node)
	not nodes.harmless(node)
}

finding(name, node, held, certainty) := {
	"msg": pods.stay(name, state(node), held, certainty),
	"cause": pods.because(name, state(node)),
	"objects": pods.on(name, held),
	"evidence": [sprintf("node %s has Ready=%s since %s, %s", [name, node.ready, node.since, nodes.explained(node)])],
	"steps": steps.pods_off(name, held.namespace, held.names),
}

state(node) := sprintf("does not answer (%s)", [node.reason]) if node.ready == "Unknown"

state(node) := "has no container runtime" if {
	node.ready != "Unknown"
	nodes.stopped(node)
}

state(node) := sprintf("is not ready (%s)", [node.reason]) if not nodes.stopped(node)
