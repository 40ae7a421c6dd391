# METADATA
# description: Whether a node stops pods (data.cluster.nodes, data.cluster.notReady).
package termguard.lib.nodes

# stopped reports whether a node stops no pod.
stopped(node) if node.ready == "Unknown"

stopped(node) if contains(node.message, "container runtime is down")

# harmless reports whether a kubelet that is not ready still stops pods. Any other problem
# outweighs it.
harmless(node) if {
	some excuse in ["NetworkPluginNotReady", "cni plugin not initialized", "CSINode is not yet initialized", "missing node capacity"]
	contains(explained(node), excuse)
	every problem in ["is not healthy", "container runtime not ready", "runtime status check", "shutting down"] {
		not contains(explained(node), problem)
	}
}

explained(node) := sprintf("%s: %s", [node.reason, node.message])

# exists reports whether a node is in service: otherwise its pods are garbage-collected.
exists(node) if {
	data.cluster.nodes[node]
	not data.cluster.nodes[node].outOfService
}

# serves reports whether a node stops pods: late ones then have another reason.
serves(node) if {
	exists(node)
	not data.cluster.notReady[node]
}
