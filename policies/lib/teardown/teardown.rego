# METADATA
# description: >-
#   Pods that have stopped and whose kubelet cannot clean up after them: its events name the
#   cause, or the manifest has a hazard.
package termguard.lib.teardown

import data.termguard.lib.events
import data.termguard.lib.pods
import data.termguard.lib.probes

# will lists, by node, the pods that repeated events name.
will(cause) := {node: held |
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	events.lasting(about(node, cause))
}

# may lists, by node, the pods that an event names.
may(cause) := {node: held |
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	count(about(node, cause)) > 0
	not events.lasting(about(node, cause))
}

about(node, cause) := [event |
	some event in events.of(node, {cause})
	pods.about(event)
]

# finding reports pods of a node by the error of the kubelet, and probed by a probe.
finding(cause, certainty, node, held, plan) := {
	"msg": pods.stay(node, why(cause, certainty), held, certainty),
	"cause": pods.because(node, why(cause, certainty)),
	"objects": pods.on(node, held),
	"evidence": events.evidence(about(node, cause)),
	"steps": plan,
}

probed(cause, certainty, node, held, plan) := probes.finding(why(cause, certainty), node, held, certainty, plan)

why(cause, certainty) := sprintf("%s to remove volumes (%s)", [fails[certainty], errors[cause]])

fails := {"may": "may fail", "will": "fails"}

errors := {
	"busy": "device or resource busy",
	"immutable": "operation not permitted",
}

hazard(msg, evidence, held, plan) := {
	"msg": sprintf("%s Terminating", [msg]),
	"objects": pods.named(held),
	"evidence": [evidence],
	"steps": plan,
}
