# METADATA
# title: Files that cannot be removed
# description: >-
#   The kubelet removes an emptyDir of a pod file by file. A file with the
#   attribute immutable or append-only (chattr +i, +a) cannot be removed by anyone:
#   the containers end, and the pod stays Terminating until the attribute is taken
#   back. Nothing tells of it but the kubelet's log.
# related_resources:
#   - ref: https://man7.org/linux/man-pages/man1/chattr.1.html
#     description: The attributes a and i.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/volume/emptydir/empty_dir.go
#     description: How an emptyDir is removed (teardownDefault).
# custom:
#   id: immutable-files
#   severity: high
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.symptoms, data.cluster.hazards.$NAMESPACE]
#   remedy: >-
#     Take the attribute back while the pod still runs (chattr -R -i -a DIRECTORY in
#     the container), or afterwards on its node, below
#     /var/lib/kubelet/pods/UID/volumes. The kubelet tries again within two minutes
#     and finishes by itself. Last, kubectl delete pod --force --grace-period=0
#     removes only the object: the files stay on the node's disk.
#   limits: >-
#     A program that sets the attribute by itself: only chattr in the command of a
#     container that may use it is seen. Files in a container's own layer hold
#     nothing with containerd; they stay on the disk.
package termguard.immutable_files

import data.termguard.lib

deny contains finding(node, pods, "will") if {
	not lib.evicting
	some node, pods in lib.waiting(data.cluster.symptoms)
	lasting(node)
}

warn contains finding(node, pods, "will") if {
	lib.evicting
	some node, pods in lib.waiting(data.cluster.symptoms)
	lasting(node)
}

warn contains finding(node, pods, "may") if {
	some node, pods in lib.waiting(data.cluster.symptoms)
	count(symptoms(node)) > 0
	not lasting(node)
}

# What its manifest says.
warn contains {
	"msg": sprintf("%s makes files in an emptyDir immutable or append-only: left so, they keep %s", [whose, them]),
	"objects": lib.named(pods),
	"evidence": ["a container may use the attribute (CAP_LINUX_IMMUTABLE or privileged), and its command runs chattr"],
	"steps": steps(pods),
} if {
	some pods in lib.hazardous("immutable")
	whose := lib.plural(pods.count, "a command of this pod", sprintf("a command of %d pods", [pods.count]))
	them := lib.plural(pods.count, "it Terminating", "them Terminating")
}

symptoms(node) := [symptom |
	some symptom in data.cluster.symptoms[node]
	lib.current(symptom, node)
	lib.cause(symptom) == "immutable"
	lib.about(symptom)
]

lasting(node) if {
	some symptom in symptoms(node)
	symptom.count >= lib.persistent
}

finding(node, pods, certainty) := {
	"msg": sprintf(
		"%s on node %s, which %s not be able to clean up after %s: operation not permitted",
		[lib.who(pods), node, certainty, lib.plural(pods.count, "it", "them")],
	),
	"objects": array.concat([{"resource": "nodes", "namespace": "", "name": node}], lib.named(pods)),
	"evidence": [lib.told(symptom) | some symptom in symptoms(node)],
	"steps": steps(pods),
}

steps(pods) := array.concat(
	[
		{"kind": "mend", "do": "While the pod still runs, take the attribute back in its container: chattr -R -i -a DIRECTORY."},
		{"kind": "mend", "do": concat(" ", [
			"Afterwards, take it back on the node: lsattr -R /var/lib/kubelet/pods/UID/volumes shows the files (UID is the pod's),",
			"chattr -R -i -a mends them. The kubelet tries again within two minutes.",
		])},
	],
	lib.forced(pods.namespace, pods.names),
)
