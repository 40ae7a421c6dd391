# METADATA
# title: Node that is deleted while another is down
# description: >-
#   The pods of a node that is deleted go to the others. While another node is not ready,
#   these have its pods to carry already.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/architecture/nodes/#condition
#     description: What a node says of itself.
# custom:
#   id: one-node-at-a-time
#   severity: medium
#   triggers: [delete]
#   resources: [nodes]
#   relies_on:
#     - kinds: [nodes]
#   remedy: >-
#     Bring the other node back, or delete it first if it is gone for good.
#   limits: >-
#     How much room the other nodes have.
package termguard.one_node_at_a_time

import data.termguard.lib.request

deny contains finding if {
	request.deleting
	down := object.keys(data.cluster.notReady) - {request.name}
	count(down) > 0
	not data.cluster.notReady[request.name]
	finding := {
		"kind": "forbidden",
		"msg": sprintf("%s is not deleted while other nodes are not ready (%d)", [request.word, count(down)]),
		"objects": array.concat([request.target], [{"resource": "nodes", "namespace": "", "name": name} | some name in down]),
		"evidence": [sprintf("node %s is not ready", [name]) | some name in down],
	}
}
