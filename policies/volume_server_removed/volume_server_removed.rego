# METADATA
# title: Server of volumes that pods have mounted
# description: >-
#   A file server that runs in the cluster, such as one for NFS, is reached by a Service.
#   Where that goes, by itself or with its namespace, a kubelet that has a volume of it
#   mounted waits for ever to unmount it: the pod stays Terminating. In a namespace that
#   is deleted the server and the pods that mount from it are stopped at the same time.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/51835
#     description: Server and client in one file, deleted at once; the client stays Terminating.
#   - ref: https://github.com/kubernetes/kubernetes/issues/72048
#     description: A kubelet that unmounts NFS whose server is gone.
#   - ref: https://github.com/rook/rook/issues/6327
#     description: The same of a namespace with a server by Rook.
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
#     Stop the pods that mount from the server first, and wait until they are gone; then
#     delete the server. If one hangs already, bring the server back at the same address,
#     or unmount on its node with umount -f -l.
#   manifest:
#     remedy: >-
#       Keep the server in a folder, or a release, of its own, which is deleted after the pods
#       that mount from it, or mount with the option soft, where an error is better than
#       waiting.
#   limits: >-
#     Only the node knows whether it waits, so the finding says "may". Servers are found by
#     the DNS name or the cluster IP of a Service, in nfs and in the attribute server of a CSI
#     volume, and in a namespace by the IP of a pod that declares port 2049; not where the
#     workload behind a Service goes and the Service stays.
package termguard.volume_server_removed

import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

warn contains {
	"msg": sprintf("%s in namespace %s %s a volume mounted from %s%s: once that is gone, %s may stay Terminating%s", [
		wording.counted(held.count, "pods"), namespace, wording.plural(held.count, "has", "have"),
		called(resource, server), along, pods.they(held), later(namespace, held),
	]),
	"objects": array.concat(
		[{"resource": resource, "namespace": home, "name": server}],
		pods.named(object.union(held, {"namespace": namespace})),
	),
	"evidence": [sprintf("%s is the server of a volume, and a kubelet waits for it to unmount that", [called(resource, server)])],
	"steps": [steps.mend(way_out(resource, server, namespace), [])],
} if {
	some [resource, server, clients] in removed
	some namespace, held in clients
}

# home is the namespace of the deleted servers.
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

along := ", which goes with the namespace" if request.deletes_namespace

# later is the time at which pods stay that are not deleted with the server.
later(namespace, held) := "" if {
	request.deletes_namespace
	namespace == home
} else := sprintf(", whenever %s deleted", [wording.plural(held.count, "it is", "they are")])

# way_out differs for pods that have stopped because their namespace is Terminating.
way_out(resource, server, namespace) := sprintf(
	"Unmount the volumes of %s on the nodes of the pods that are left, with umount -f -l: the kubelet does the rest",
	[called(resource, server)],
) if {
	namespace == home
	input.request.oldObject.metadata.deletionTimestamp
} else := sprintf("Stop what runs the pods that mount from the server, in namespace %s, and wait until they are gone", [namespace])
