# METADATA
# title: Pod on a node whose disk is full
# description: >-
#   With containerd 2 and a current kubelet, pods on a full disk cannot start, but they
#   can be deleted (seen with kubelet 1.36.3 and containerd 2.4.2, both disks full). Older
#   runtimes and other layouts may fail to stop a container, or to clean up after it. The
#   policy reports that only with a sign: the kubelet fails to stop a container with "no
#   space left on device", or the disk is full and Terminating pods are overdue.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
#     description: What DiskPressure means.
# custom:
#   id: node-disk-full
#   severity: high
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs:
#     - data.cluster.kubeletEvents and data.cluster.podsByNode.$NAMESPACE for namespaces
#     - data.cluster.leaving.nodes and data.cluster.podsByNode.$NAMESPACE for namespaces
#     - data.cluster.kubeletEvents and input.request.oldObject.spec.nodeName
#     - data.cluster.leaving.nodes and input.request.oldObject.spec.nodeName
#     - data.cluster.kubeletEvents and input.request.subResource # evictions carry no pod
#     - data.cluster.leaving.nodes and input.request.subResource
#   remedy: >-
#     Free space on that node: crictl rmi --prune removes unused images; look for large logs
#     and emptyDirs below /var/log/pods and /var/lib/kubelet/pods. The deletion then
#     finishes by itself; restart the container runtime if it does not within a few minutes.
#     As a last resort, kubectl delete pod --force --grace-period=0 removes only the object:
#     it frees nothing on the disk.
#   limits: >-
#     A disk that has filled up before an event or the condition says so, for example
#     because the runtime's disk is not the kubelet's.
package termguard.node_disk_full

import data.termguard.lib.events
import data.termguard.lib.grace
import data.termguard.lib.pods
import data.termguard.lib.probes
import data.termguard.lib.steps

warn contains finding(node, held, failed) if {
	some node, held in pods.waiting(data.cluster.kubeletEvents)
	failed := events.evidence([event | some event in events.of(node, {"full"}); event.reason in events.failing])
	count(failed) > 0
}

warn contains finding(node, held, array.concat(signs(node), [late(node)])) if {
	some node, held in pods.waiting(data.cluster.leaving.nodes)
	count(signs(node)) > 0
}

signs(node) := array.flatten([
	[sprintf("node %s has DiskPressure since %s: %s", [node, pressure.since, pressure.message]) |
		pressure := data.cluster.nodes[node].diskPressure
	],
	events.evidence([event | some event in events.of(node, {"full"}); not event.reason in events.failing]),
	[line | some line in probes.evidence(node, probes.everywhere({"full"})[node].found)],
])

late(node) := sprintf("pods on it that are overdue since %s: %d", [overdue[0].deadline, count(overdue)]) if {
	overdue := grace.overdue(data.cluster.leaving.nodes[node])
	count(overdue) > 0
}

finding(node, held, evidence) := {
	"msg": pods.stay(node, "has a full disk", held, "may"),
	"cause": pods.because(node, "has a full disk"),
	"objects": pods.on(node, held),
	"evidence": evidence,
	"steps": array.concat(
		[
			steps.mend(
				sprintf(
					concat(" ", [
						"Free space on node %s: crictl rmi --prune removes unused images; look for large logs and emptyDirs below",
						"/var/log/pods and /var/lib/kubelet/pods.",
					]),
					[node],
				),
				[],
			),
			steps.mend(sprintf("Restart the container runtime on node %s if its pods are not deleted within a few minutes.", [node]), []),
		],
		steps.hearsay("events of the kubelet", steps.forced(held.namespace, held.names)),
	),
}
