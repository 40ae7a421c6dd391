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

# current reports whether an event still counts as evidence: it is at most an hour old, and its
# object is still on the node.
current(event, node) if {
	times.since(event.last) <= 3600
	event.kind == "Pod"
	data.cluster.pods[event.namespace][event.name].node == node
}

current(event, _) if {
	times.since(event.last) <= 3600
	event.kind != "Pod"
}

# cause classifies an event by the words that kubelets use.
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

# untied reports whether a runtime (containerd, dockershim, CRI-O) could not tear down a
# network.
untied(event) if {
	some text in ["failed to destroy network for sandbox", "failed to teardown pod", "from CNI network"]
	contains(event.message, text)
}

# misled reports whether an event with the reason of a failed stop may be about anything else.
misled(event) if {
	event.reason == "FailedSync"
	not regex.match(`DeadlineExceeded|context deadline exceeded`, event.message)
}

# failing lists the reasons of events about failures to stop a pod or to clean up after it.
failing := {
	"FailedKillPod", "KillContainerError", "FailedSync", "Killing", "ExceededGracePeriod",
	"FailedUnmount", "FailedUnMount", "FailedUnmountDevice", "FailedUnmapDevice",
}

# lasting reports whether an event about a pod that the request waits for was repeated so often
# within its hour that the failure will not pass by itself.
lasting(list) if {
	some event in list
	pods.about(event)
	event.count >= 10
}

# evidence is the events as evidence. It names no pod, which may belong to another tenant.
evidence(list) := [line(event) | some event in list]

line(event) := sprintf("event %s x%d: %s", [event.reason, event.count, event.message])
