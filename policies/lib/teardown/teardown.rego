# METADATA
# description: >-
#   Pods that have stopped and that their kubelet cannot clean up after: its events name
#   the cause, or a hazard in the manifest may become one.
package termguard.lib.teardown

import data.termguard.lib.events
import data.termguard.lib.pods
import data.termguard.lib.probes

# will are the pods that stay, by node: events about them name the cause again and again.
will(cause) := {node: held |
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	events.lasting(told(node, cause))
}

# may are those that may stay: events about them have named the cause.
may(cause) := {node: held |
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	count(told(node, cause)) > 0
	not events.lasting(told(node, cause))
}

# told are the events of a node about what is deleted that name the cause.
told(node, cause) := [event |
	some event in events.of(node, {cause})
	pods.about(event)
]

# finding is about pods of a node, by the error that the kubelet meets.
finding(cause, certainty, node, held, plan) := {
	"msg": message(cause, certainty, node, held),
	"cause": pods.because(node, why(cause, certainty, held)),
	"objects": pods.on(node, held),
	"evidence": events.evidence(told(node, cause)),
	"steps": plan,
}

# probed is about the same, where a probe saw it on the node.
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

# hazard is about pods whose manifest shows that they may be left with the cause.
hazard(msg, evidence, held, plan) := {
	"msg": sprintf("%s Terminating", [msg]),
	"objects": pods.named(held),
	"evidence": [evidence],
	"steps": plan,
}
