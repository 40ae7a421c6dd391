# METADATA
# title: Mounts that keep a volume busy
# description: >-
#   The kubelet unmounts the volumes of a pod and removes its directories. A mount
#   that something made inside them, and that still stands, makes that fail with
#   "device or resource busy": the containers end, and the pod stays Terminating.
#   A container can make such mounts through a volume mounted with
#   mountPropagation Bidirectional.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/storage/volumes/#mount-propagation
#     description: Mount propagation.
#   - ref: https://github.com/moby/moby/issues/31768
#     description: device or resource busy.
# custom:
#   id: busy-mount
#   severity: high
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.symptoms, data.cluster.hazards.$NAMESPACE]
#   remedy: >-
#     Find on the node what is mounted below the pod's directory (findmnt -l | grep
#     /var/lib/kubelet/pods/UID) or who holds it (fuser -vm DIRECTORY), and unmount
#     it or stop who holds it. The kubelet tries again within two minutes and
#     finishes by itself. Last, kubectl delete pod --force --grace-period=0 removes
#     only the object: the mount stays, and its data with it.
#   limits: >-
#     Mounts that another process on the node made, before an attempt to unmount
#     has failed, and a network file system whose server is gone: neither shows in
#     the cluster.
package termguard.busy_mount

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
	"msg": sprintf("%s may leave mounts in an emptyDir (mountPropagation Bidirectional): left there, they keep %s", [whose, them]),
	"objects": lib.named(pods),
	"evidence": ["what a container mounts in a volume with mountPropagation Bidirectional is mounted on its node, too"],
	"steps": steps(pods),
} if {
	some pods in lib.hazardous("mounts")
	whose := lib.plural(pods.count, "this pod", sprintf("%d pods", [pods.count]))
	them := lib.plural(pods.count, "it Terminating", "them Terminating")
}

symptoms(node) := [symptom |
	some symptom in data.cluster.symptoms[node]
	lib.current(symptom, node)
	lib.cause(symptom) == "busy"
	lib.about(symptom)
]

lasting(node) if {
	some symptom in symptoms(node)
	symptom.count >= lib.persistent
}

finding(node, pods, certainty) := {
	"msg": sprintf(
		"%s on node %s, which %s not be able to clean up after %s: device or resource busy",
		[lib.who(pods), node, certainty, lib.plural(pods.count, "it", "them")],
	),
	"objects": array.concat([{"resource": "nodes", "namespace": "", "name": node}], lib.named(pods)),
	"evidence": [lib.told(symptom) | some symptom in symptoms(node)],
	"steps": steps(pods),
}

steps(pods) := array.concat(
	[{"kind": "mend", "do": concat(" ", [
		"Find on the node what is mounted below the pod's directory (findmnt -l | grep /var/lib/kubelet/pods/UID; UID is the",
		"pod's) or who holds it (fuser -vm DIRECTORY), and unmount it or stop who holds it. The kubelet tries again within",
		"two minutes.",
	])}],
	lib.forced(pods.namespace, pods.names),
)
