# METADATA
# title: Pod whose volume is mounted from a server that is down
# description: >-
#   A kubelet that unmounts NFS waits for its server. If the server is a Service of this
#   cluster and no pod behind it is ready (scaled to zero, not starting, or deleted), a
#   pod with the volume stays Terminating until the server runs again.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/72048
#     description: A kubelet that unmounts NFS without its server.
#   - ref: https://github.com/kubernetes/kubernetes/issues/90593
#     description: A dead server; while the kubelet waits for it, it does not handle other pods either.
# custom:
#   id: volume-server-down
#   severity: medium
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, pods]
#   needs: [data.cluster.unserved.$NAMESPACE]
#   remedy: >-
#     Restart the server, and the deletion finishes by itself; or unmount the volume on its
#     node with umount -f -l. As a last resort, kubectl delete pod --force --grace-period=0
#     removes only the object: the volume stays mounted on the node.
#   manifest:
#     remedy: >-
#       Mount with the option soft if an error is better than waiting.
#   limits: >-
#     Only the node knows whether it waits, so the finding says "may"; it may not notice a
#     server that was down for less than a minute. The policy finds servers by the DNS
#     name or the cluster IP of an existing Service, in nfs and in the attribute server of
#     a CSI volume. It does not check whether a ready server answers.
package termguard.volume_server_down

import data.termguard.lib.nodes
import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps

warn contains {
	"msg": sprintf(
		"Service %s, the server of a volume, has no ready endpoint, so %s on node %s may stay Terminating",
		[server, pods.subject(held), node],
	),
	"objects": array.concat([{"resource": "services", "namespace": home, "name": name}], pods.named(held)),
	"evidence": [
		sprintf("no EndpointSlice of Service %s has a ready endpoint", [server]),
		"a kubelet waits for the server of a volume before it unmounts it",
	],
	"steps": array.concat(
		[
			steps.then("itself", sprintf("Restart the pods behind Service %s", [server]), []),
			steps.mend(sprintf("Or unmount its volumes on node %s with umount -f -l: the kubelet does the rest", [node]), []),
		],
		steps.forced(held.namespace, held.names),
	),
} if {
	some node, servers in unserved
	nodes.exists(node)
	some server, held in servers
	[home, name] := split(server, "/")
}

# volume-server-removed reports servers that are deleted with their namespace.
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
