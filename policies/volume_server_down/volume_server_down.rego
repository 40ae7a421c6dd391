# METADATA
# title: Pod whose volume is mounted from a server that is down
# description: >-
#   A kubelet that unmounts NFS waits for its server. Where that is a Service of this cluster
#   and no pod behind it is ready, since it was scaled to zero, does not start or was
#   deleted, the containers of a pod that has the volume mounted end, and the pod stays
#   Terminating until the server is back.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/72048
#     description: A kubelet that unmounts NFS whose server is gone.
#   - ref: https://github.com/kubernetes/kubernetes/issues/90593
#     description: The server has died; what it waits for keeps the kubelet from other pods, too.
# custom:
#   id: volume-server-down
#   severity: medium
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.unserved.$NAMESPACE]
#   remedy: >-
#     Bring the server back, and the deletion finishes by itself; or unmount the volume on its
#     node with umount -f -l. Last, kubectl delete pod --force --grace-period=0 removes only
#     the object: the volume stays mounted on the node.
#   manifest:
#     remedy: >-
#       Mount with the option soft, where an error is better than waiting.
#   limits: >-
#     Only the node knows whether it waits, so the finding says "may": a server that was away
#     for less than a minute may not have been missed. Servers are found by the DNS name or
#     the cluster IP of a Service that exists, in nfs and in the attribute server of a CSI
#     volume; whether one that is ready answers, nobody asks.
package termguard.volume_server_down

import data.termguard.lib.nodes
import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps

warn contains {
	"msg": sprintf(
		"%s on node %s with a volume mounted from Service %s, which has no ready endpoint, so %s may stay Terminating",
		[pods.who(held), node, server, pods.they(held)],
	),
	"objects": array.concat([{"resource": "services", "namespace": home, "name": name}], pods.named(held)),
	"evidence": [
		sprintf("no EndpointSlice of Service %s has a ready endpoint", [server]),
		"a kubelet waits for the server of a volume to unmount that",
	],
	"steps": array.concat(
		[
			steps.then("itself", sprintf("Bring back what serves Service %s", [server]), []),
			steps.mend(sprintf("Or unmount its volumes on node %s, with umount -f -l: the kubelet does the rest", [node]), []),
		],
		steps.forced(held.namespace, held.names),
	),
} if {
	some node, servers in unserved
	nodes.exists(node)
	some server, held in servers
	[home, name] := split(server, "/")
}

# unserved lists the pods whose server is down, by node and server. volume-server-removed
# reports servers that are deleted with their namespace.
unserved[node][server] := object.union(held, {"namespace": request.name}) if {
	request.deletes_namespace
	some node, servers in data.cluster.unserved[request.name]
	some server, held in servers
	not startswith(server, sprintf("%s/", [request.name]))
}

unserved[node][server] := held if {
	some node, held in pods.alone
	some server in data.cluster.pods[request.namespace][request.name].missingServers
}
