# METADATA
# title: Mounts that keep a volume busy
# description: >-
#   The kubelet unmounts the volumes of a pod and removes its directories. If something is
#   still mounted in them, that fails with "device or resource busy", and the pod stays
#   Terminating. A container can create such mounts in a volume with mountPropagation
#   Bidirectional.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/storage/volumes/#mount-propagation
#     description: Mount propagation.
#   - ref: https://github.com/moby/moby/issues/31768
#     description: device or resource busy.
# custom:
#   id: busy-mount
#   severity: high
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.kubeletEvents, data.cluster.hazards.$NAMESPACE, data.cluster.probes]
#   remedy: >-
#     On the node, find the mounts below the pod's directory (findmnt -l | grep
#     /var/lib/kubelet/pods/UID) and the processes that use them (fuser -vm DIRECTORY).
#     Unmount them, or stop the processes. The kubelet retries within two minutes, and the
#     deletion finishes by itself. As a last resort, kubectl delete pod --force
#     --grace-period=0 removes only the object: the mount stays, and its data with it.
#   manifest:
#     remedy: >-
#       Let the pod unmount its mounts on TERM or in a preStop hook, and mount directories
#       of the node with mountPropagation HostToContainer.
#   limits: >-
#     Without node probes (termguard probe), mounts of other processes on the node show
#     only after a failed unmount. A network file system without its server.
package termguard.busy_mount

import data.termguard.lib.pods
import data.termguard.lib.probes
import data.termguard.lib.steps
import data.termguard.lib.teardown
import data.termguard.lib.wording

deny contains teardown.finding("busy", "will", node, held, plan(held)) if {
	some node, held in teardown.will("busy")
}

# Mounts that a probe sees on the node before the delete.
deny contains teardown.probed("busy", "will", node, held, plan(held)) if {
	some node, held in probes.will("busy")
}

warn contains teardown.finding("busy", "may", node, held, plan(held)) if {
	some node, held in teardown.may("busy")
}

warn contains teardown.probed("busy", "may", node, held, plan(held)) if {
	some node, held in probes.may("busy")
}

# Mounts that the manifest allows.
warn contains teardown.hazard(msg, evidence, held, plan(held)) if {
	some held in pods.hazardous("mounts")
	msg := sprintf(
		"%s may leave mounts in an emptyDir (mountPropagation Bidirectional), which keep %s",
		[wording.plural(held.count, "this pod", sprintf("%d pods", [held.count])), pods.them(held)],
	)
	evidence := "mounts of a container in a volume with mountPropagation Bidirectional appear on its node, too"
}

plan(held) := array.concat(
	[steps.mend(
		concat(" ", [
			"On the node, find the mounts below the pod's directory (findmnt -l | grep /var/lib/kubelet/pods/UID; UID is the",
			"pod's) or the processes that use them (fuser -vm DIRECTORY); unmount them or stop the processes. The kubelet retries within",
			"two minutes.",
		]),
		[],
	)],
	steps.hearsay("events of the kubelet", steps.forced(held.namespace, held.names)),
)
