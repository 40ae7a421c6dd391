# METADATA
# description: >-
#   Pods that have stopped and that their kubelet cannot clean up after: its events name
#   the cause, or a hazard in the manifest may become one.
package termguard.lib.teardown

import data.termguard.lib.events
import data.termguard.lib.pods
import data.termguard.lib.probes

# will lists the pods that stay, by node: repeated events about them name the cause.
will(cause) := {node: held |
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	events.lasting(told(node, cause))
}

# may lists the pods that may stay: an event about them named the cause.
may(cause) := {node: held |
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	count(told(node, cause)) > 0
	not events.lasting(told(node, cause))
}

# told lists the events of a node that name the cause, about the pods that are deleted.
told(node, cause) := [event |
	some event in events.of(node, {cause})
	pods.about(event)
]

# finding reports pods of a node by the error of the kubelet.
finding(cause, certainty, node, held, plan) := {
	"msg": message(cause, certainty, node, held),
	"cause": pods.because(node, why(cause, certainty, held)),
	"objects": pods.on(node, held),
	"evidence": events.evidence(told(node, cause)),
	"steps": plan,
}

# probed reports the same, seen by a probe on the node.
probed(cause, certainty, node, held, plan) := probes.finding(
	message(cause, certainty, node, held), why(cause, certainty, held),
	node, held, plan,
)

message(cause, certainty, node, held) := sprintf("%s on node %s, %s", [pods.who(held), node, why(cause, certainty, held)])

why(cause, certainty, held) := sprintf(
	"which %s not be able to clean up after %s: %s",
	[certainty, pods.them(held), errors[cause]],
)

errors := {
	"busy": "device or resource busy",
	"immutable": "operation not permitted",
}

# hazard reports pods whose manifest may lead to the error.
hazard(msg, evidence, held, plan) := {
	"msg": sprintf("%s Terminating", [msg]),
	"objects": pods.named(held),
	"evidence": [evidence],
	"steps": plan,
}
