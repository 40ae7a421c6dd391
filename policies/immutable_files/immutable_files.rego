# METADATA
# title: Files that cannot be removed
# description: >-
#   The kubelet removes an emptyDir file by file. A file with the attribute immutable or
#   append-only (chattr +i, +a) cannot be removed, not even by root: the pod stays
#   Terminating until the attribute is cleared. Only the kubelet's log shows the cause.
# related_resources:
#   - ref: https://man7.org/linux/man-pages/man1/chattr.1.html
#     description: The attributes a and i.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/volume/emptydir/empty_dir.go
#     description: How an emptyDir is removed (teardownDefault).
# custom:
#   id: immutable-files
#   severity: high
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.kubeletEvents, data.cluster.hazards.$NAMESPACE, data.cluster.probes]
#   remedy: >-
#     Clear the attribute while the pod still runs (chattr -R -i -a DIRECTORY in the
#     container), or afterwards on its node, below /var/lib/kubelet/pods/UID/volumes. The
#     kubelet retries within two minutes, and the deletion finishes by itself. As a last
#     resort, kubectl delete pod --force --grace-period=0 removes only the object: the files
#     stay on the node's disk.
#   manifest:
#     remedy: >-
#       Do not set the attribute in a volume of the pod, or clear it in a preStop hook
#       (chattr -R -i -a DIR).
#   limits: >-
#     Without node probes (termguard probe), the policy sees only chattr in the command of
#     a container that may use it, not a program that sets the attribute by itself. With
#     containerd, files in a container's own layer do not block the pod; they stay on the
#     disk.
package termguard.immutable_files

import data.termguard.lib.pods
import data.termguard.lib.probes
import data.termguard.lib.steps
import data.termguard.lib.teardown
import data.termguard.lib.wording

deny contains teardown.finding("immutable", "will", node, held, plan(held)) if {
	some node, held in teardown.will("immutable")
}

# Files that a probe sees on the node before the delete.
deny contains teardown.probed("immutable", "will", node, held, plan(held)) if {
	some node, held in probes.will("immutable")
}

warn contains teardown.finding("immutable", "may", node, held, plan(held)) if {
	some node, held in teardown.may("immutable")
}

warn contains teardown.probed("immutable", "may", node, held, plan(held)) if {
	some node, held in probes.may("immutable")
}

# Files that the manifest makes immutable.
warn contains teardown.hazard(msg, evidence, held, plan(held)) if {
	some held in pods.hazardous("immutable")
	msg := sprintf(
		"%s makes files in an emptyDir immutable or append-only, which may keep %s",
		[wording.plural(held.count, "a command of this pod", sprintf("a command of %d pods", [held.count])), pods.them(held)],
	)
	evidence := "a container may use the attribute (CAP_LINUX_IMMUTABLE or privileged), and its command runs chattr"
}

plan(held) := array.concat(
	[
		steps.mend("While the pod still runs, clear the attribute in its container: chattr -R -i -a DIRECTORY.", []),
		steps.mend(
			concat(" ", [
				"Afterwards, clear the attribute on the node: lsattr -R /var/lib/kubelet/pods/UID/volumes shows the files (UID is the pod's),",
				"chattr -R -i -a clears it. The kubelet retries within two minutes.",
			]),
			[],
		),
	],
	steps.hearsay("events of the kubelet", steps.forced(held.namespace, held.names)),
)
