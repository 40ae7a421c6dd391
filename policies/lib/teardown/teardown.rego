# METADATA
# description: >-
#   Pods that have stopped and whose kubelet cannot clean up after them: its events name the
#   cause, or the manifest has a hazard.
package termguard.lib.teardown

import data.termguard.lib.events
import data.termguard.lib.pods
import data.termguard.lib.probes

# will lists the pods that stay, by node: repeated events about them name the cause.
will(cause) := {node: held |
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	events.lasting(about(node, cause))
}

# may lists the pods that may stay: an event about them named the cause.
may(cause) := {node: held |
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	count(about(node, cause)) > 0
	not events.lasting(about(node, cause))
}

# about lists the events of a node that name the cause, about the pods that are deleted.
about(node, cause) := [event |
	some event in events.of(node, {cause})
	pods.about(event)
]

# finding reports pods of a node by the error of the kubelet.
finding(cause, certainty, node, held, plan) := {
	"msg": pods.stay(node, why(cause, certainty), held, certainty),
	"cause": pods.because(node, why(cause, certainty)),
	"objects": pods.on(node, held),
	"evidence": events.evidence(about(node, cause)),
	"steps": plan,
}

# probed reports the same, seen by a probe on the node.
probed(cause, certainty, node, held, plan) := probes.finding(why(cause, certainty), node, held, certainty, plan)

why(cause, certainty) := sprintf("%s to remove volumes (%s)", [fails[certainty], errors[cause]])

fails := {"may": "may fail", "will": "fails"}

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
