# METADATA
# title: Node that is deleted while another is down
# description: >-
#   The pods of a deleted node move to the other nodes. While another node is not ready,
#   these already run its pods.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/architecture/nodes/#condition
#     description: Conditions of a node.
# custom:
#   id: one-node-at-a-time
#   severity: medium
#   triggers: [delete]
#   resources: [nodes]
#   relies_on:
#     - kinds: [nodes]
#   remedy: >-
#     Repair the other node, or delete it first if it will not return.
#   limits: >-
#     The free capacity of the other nodes.
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
