# METADATA
# description: Whether a node stops pods (data.cluster.nodes, data.cluster.notReady).
package termguard.lib.nodes

# stopped nodes stop no pod: their kubelet is silent, or has no runtime.
stopped(node) if node.ready == "Unknown"

stopped(node) if contains(node.message, "container runtime is down")

# harmless is what makes a node not ready while its kubelet still stops pods.
# Whatever else the message names outweighs it.
harmless(node) if {
	some excuse in ["NetworkPluginNotReady", "cni plugin not initialized", "CSINode is not yet initialized", "missing node capacity"]
	contains(explained(node), excuse)
	every problem in ["is not healthy", "container runtime not ready", "runtime status check", "shutting down"] {
		not contains(explained(node), problem)
	}
}

# explained is why a node is not ready.
explained(node) := sprintf("%s: %s", [node.reason, node.message])

# exists is true for a node, by name, that is there: pods on another, or on one that
# is out of service, are collected.
exists(node) if {
	data.cluster.nodes[node]
	not data.cluster.nodes[node].outOfService
}

# serves is true for a node that is there and stops pods: what is late on another
# has another reason.
serves(node) if {
	exists(node)
	not data.cluster.notReady[node]
}
