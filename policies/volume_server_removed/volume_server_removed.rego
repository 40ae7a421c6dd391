# METADATA
# title: Server of volumes that pods have mounted
# description: >-
#   Pods reach a file server in the cluster, such as one for NFS, through a Service. If
#   the Service is deleted, alone or with its namespace, a kubelet with a volume mounted
#   from it waits forever to unmount it: the pod stays Terminating. In a deleted namespace
#   the server and its clients stop at the same time.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/51835
#     description: Server and client in one file, deleted at once; the client stays Terminating.
#   - ref: https://github.com/kubernetes/kubernetes/issues/72048
#     description: A kubelet that unmounts NFS without its server.
#   - ref: https://github.com/rook/rook/issues/6327
#     description: The same for a namespace with a server of Rook.
# custom:
#   id: volume-server-removed
#   severity: medium
#   class: order
#   triggers: [delete]
#   resources: [namespaces, services]
#   needs: [data.cluster.served.$NAMESPACE, data.cluster.servedByPods.$NAMESPACE]
#   relies_on:
#     - kinds: [persistentvolumes, pods, services]
#       for: [namespaces, services]
#   remedy: >-
#     Stop the pods that mount from the server first, and wait until they are deleted; then
#     delete the server. If a pod hangs already, restore the server at the same address, or
#     unmount the volume on the node of the pod with umount -f -l.
#   manifest:
#     remedy: >-
#       Keep the server in a folder, or a release, of its own, which is deleted after the
#       pods that mount from it, or mount with the option soft if an error is better than
#       waiting.
#   limits: >-
#     Only the node knows whether it waits, so the finding says "may". The policy finds
#     servers by the DNS name or the cluster IP of a Service, in nfs and in the attribute
#     server of a CSI volume, and in a namespace by the IP of a pod that declares port 2049.
#     It does not report the deletion of the workload behind a Service that stays.
package termguard.volume_server_removed

import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

warn contains {
	"msg": sprintf("%s%s is the server of a volume: without it, %s in namespace %s may stay Terminating%s", [
		called(resource, server), along, wording.counted(held.count, "pods"),
		namespace, later(namespace, held),
	]),
	"objects": array.concat(
		[{"resource": resource, "namespace": home, "name": server}],
		pods.named(object.union(held, {"namespace": namespace})),
	),
	"evidence": [sprintf(
		"%s is the server of a volume, and a kubelet waits for it before it unmounts the volume",
		[called(resource, server)],
	)],
	"steps": [steps.mend(way_out(resource, server, namespace), [])],
} if {
	some [resource, server, clients] in removed
	some namespace, held in clients
}

home := request.name if request.deletes_namespace

else := request.namespace

removed contains ["services", server, clients] if {
	request.deletes_namespace
	some server, clients in data.cluster.served[home]
}

removed contains ["pods", server, clients] if {
	request.deletes_namespace
	some server, clients in data.cluster.servedByPods[home]
}

removed contains ["services", request.name, data.cluster.served[home][request.name]] if {
	request.deleting
	request.resource == "services"
}

called(resource, server) := sprintf("%s %s/%s", [{"services": "Service", "pods": "pod"}[resource], home, server])

default along := ""

along := ", deleted with the namespace," if request.deletes_namespace

# later is when pods stay that are not deleted with the server.
later(namespace, held) := "" if {
	request.deletes_namespace
	namespace == home
} else := sprintf(" when %s deleted", [wording.plural(held.count, "it is", "they are")])

# way_out differs for pods of a Terminating namespace.
way_out(resource, server, namespace) := sprintf(
	"Unmount the volumes of %s on the nodes of the remaining pods with umount -f -l: the kubelet does the rest",
	[called(resource, server)],
) if {
	namespace == home
	input.request.oldObject.metadata.deletionTimestamp
} else := sprintf("Stop the workloads that mount from the server in namespace %s, and wait until their pods are deleted", [namespace])
