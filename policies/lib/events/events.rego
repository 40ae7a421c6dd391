# METADATA
# description: Events of kubelets about a node (data.cluster.kubeletEvents).
package termguard.lib.events

import data.termguard.lib.pods
import data.termguard.lib.times

# of lists the current events of a node with one of the causes.
of(node, causes) := [event |
	some event in data.cluster.kubeletEvents[node]
	current(event, node)
	cause(event) in causes
]

# current reports whether an event is at most an hour old, and its object still on the node.
current(event, node) if {
	times.since(event.last) <= 3600
	event.kind == "Pod"
	data.cluster.pods[event.namespace][event.name].node == node
}

current(event, _) if {
	times.since(event.last) <= 3600
	event.kind != "Pod"
}

# cause classifies an event by the kubelet's words.
cause(event) := "full" if contains(event.message, "no space left on device")

cause(event) := "busy" if {
	event.reason in failing
	contains(event.message, "device or resource busy")
}

cause(event) := "immutable" if {
	event.reason in failing
	contains(event.message, "operation not permitted")
}

cause(event) := "network" if {
	event.reason in failing
	contains(event.message, "KillPodSandbox")
	untied(event)
}

cause(event) := "stuck" if {
	event.reason in failing
	not misled(event)
	not untied(event)
	every text in ["no space left on device", "device or resource busy", "operation not permitted"] {
		not contains(event.message, text)
	}
}

# untied reports whether a runtime (containerd, dockershim, CRI-O) could not tear down a network.
untied(event) if {
	some text in ["failed to destroy network for sandbox", "failed to teardown pod", "from CNI network"]
	contains(event.message, text)
}

# misled reports whether an event with the reason of a failed stop may have another cause.
misled(event) if {
	event.reason == "FailedSync"
	not regex.match(`DeadlineExceeded|context deadline exceeded`, event.message)
}

failing := {
	"FailedKillPod", "KillContainerError", "FailedSync", "Killing", "ExceededGracePeriod",
	"FailedUnmount", "FailedUnMount", "FailedUnmountDevice", "FailedUnmapDevice",
}

# lasting reports whether an event about an awaited pod was repeated too often to pass by itself.
lasting(list) if {
	some event in list
	pods.about(event)
	event.count >= 10
}

# evidence names no pod, which may belong to another tenant.
evidence(list) := [line(event) | some event in list]

line(event) := sprintf("event %s x%d: %s", [event.reason, event.count, event.message])
