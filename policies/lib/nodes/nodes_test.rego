package termguard.lib.nodes_test

import data.termguard.lib.nodes

test_serves if {
	got := [node |
		some node in ["up", "down", "gone", "off"]
		nodes.serves(node) with data.cluster.nodes as object.union(
			{name: {"outOfService": false} | some name in ["up", "down"]},
			{"off": {"outOfService": true}},
		)
			with data.cluster.notReady as {"down": {}}
	]
	got == ["up"]
}
