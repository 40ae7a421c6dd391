# METADATA
# description: What events of kubelets tell of a node (data.cluster.kubeletEvents).
package termguard.lib.events

import data.termguard.lib.pods
import data.termguard.lib.times

# of are the events of a node that count now and tell of one of some causes.
of(node, causes) := [event |
	some event in data.cluster.kubeletEvents[node]
	current(event, node)
	cause(event) in causes
]

# current is true for an event that still counts as evidence: it is not older
# than an hour, and what it is about is still on its node.
current(event, node) if {
	times.since(event.last) <= 3600
	event.kind == "Pod"
	data.cluster.pods[event.namespace][event.name].node == node
}

current(event, _) if {
	times.since(event.last) <= 3600
	event.kind != "Pod"
}

# cause is what an event tells of, by the words that kubelets use.
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

# untied is true for what runtimes say of a network that cannot be torn down:
# containerd, dockershim and CRI-O.
untied(event) if {
	some text in ["failed to destroy network for sandbox", "failed to teardown pod", "from CNI network"]
	contains(event.message, text)
}

# misled is true for an event that has the reason of a stop that failed, and may
# be about anything else.
misled(event) if {
	event.reason == "FailedSync"
	not regex.match(`DeadlineExceeded|context deadline exceeded`, event.message)
}

# failing are the reasons of events about stopping a pod and cleaning up after it.
failing := {
	"FailedKillPod", "KillContainerError", "FailedSync", "Killing", "ExceededGracePeriod",
	"FailedUnmount", "FailedUnMount", "FailedUnmountDevice", "FailedUnmapDevice",
}

# lasting is true where an event is about a pod that the request waits for, and has
# come so often within its hour that it will not pass by itself.
lasting(told) if {
	some event in told
	pods.about(event)
	event.count >= 10
}

# evidence are events as the evidence of a finding. They name no pod: that may be
# somebody else's.
evidence(told) := [line(event) | some event in told]

line(event) := sprintf("event %s x%d: %s", [event.reason, event.count, event.message])
