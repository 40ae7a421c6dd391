package termguard.force_delete_test

import data.termguard.force_delete as policy

delete_pod(old, options) := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "web-0",
	"namespace": "demo",
	"oldObject": object.union({"metadata": {"name": "web-0"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}, old),
	"options": options,
}}

forced(old) := delete_pod(old, {"gracePeriodSeconds": 0})

evict(options) := {"request": {
	"operation": "CREATE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"subResource": "eviction",
	"name": "web-0",
	"namespace": "demo",
	"object": {"kind": "Eviction", "deleteOptions": options},
}}

finding(msg, evidence, nodes) := {
	"msg": msg,
	"objects": array.concat(
		[{"resource": "pods", "namespace": "demo", "name": "web-0"}],
		[{"resource": "nodes", "namespace": "", "name": name} | some name in nodes],
	),
	"evidence": array.concat(["the grace period is 0, and pod web-0 is Running on node n1"], evidence),
}

for_a_while := "forced deletion removes only the object: its containers on node n1 may keep running for a while"

test_forced if {
	got := policy.warn with input as forced({}) with data.cluster.nodes as {"n1": {}}
	got == {finding(for_a_while, [], ["n1"])}
	evicted := policy.warn with input as evict({"gracePeriodSeconds": 0})
		with data.cluster.nodes as {"n1": {}}
		with data.cluster.pods as {"demo": {"web-0": {"node": "n1", "phase": "Running"}}}
	evicted == {finding(for_a_while, [], ["n1"])}
}

test_forced_on_a_silent_node if {
	silent := {"ready": "Unknown", "since": "2026-11-21T07:00:00Z", "reason": "NodeStatusUnknown", "message": "no answer"}
	got := policy.warn with input as forced({}) with data.cluster.nodes as {"n1": silent} with data.cluster.notReady as {"n1": silent}
	got == {finding(
		"forced deletion removes only the object: node n1 does not stop its containers, which keep running if the machine does",
		["node n1 has Ready=Unknown since 2026-11-21T07:00:00Z, NodeStatusUnknown: no answer"],
		["n1"],
	)}
}

test_forced_without_a_node if {
	got := policy.warn with input as forced({}) with data.cluster.nodes as {}
	got == {finding("forced deletion removes only the object: node n1 is gone, and whether its containers run is unknown", [], [])}
}

test_forced_and_replaced if {
	msg := concat("", [for_a_while, ", beside a second pod of the same name from StatefulSet web"])
	owners := [{"kind": "ConfigMap", "name": "x"}, {"kind": "StatefulSet", "name": "web", "controller": true}]
	got := policy.warn with input as forced({"metadata": {"name": "web-0", "ownerReferences": owners}}) with data.cluster.nodes as {"n1": {}}
	got == {finding(msg, [], ["n1"])}
	evicted := policy.warn with input as evict({"gracePeriodSeconds": 0})
		with data.cluster.nodes as {"n1": {}}
		with data.cluster.pods as {"demo": {"web-0": {"node": "n1", "phase": "Running", "owner": {"kind": "StatefulSet", "name": "web"}}}}
	evicted == {finding(msg, [], ["n1"])}
}

test_nothing_to_lose if {
	every request in [
		delete_pod({}, {}),
		delete_pod({}, {"gracePeriodSeconds": 1}),
		delete_pod({"spec": {"terminationGracePeriodSeconds": 0}}, {}),
		forced({"status": {"phase": "Succeeded"}}),
		forced({"spec": {"nodeName": ""}}),
		evict({"gracePeriodSeconds": 5}),
	] {
		got := policy.warn with input as request
			with data.cluster.nodes as {"n1": {}}
			with data.cluster.pods as {"demo": {"web-0": {"node": "n1", "phase": "Running"}}}
		got == set()
	}
}
