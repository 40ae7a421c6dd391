package termguard.unreachable_node_test

import data.termguard.unreachable_node as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

node(changes) := object.union(
	{
		"ready": "Unknown",
		"reason": "NodeStatusUnknown",
		"message": "Kubelet stopped posting node status.",
		"since": "2026-11-21T07:00:00Z",
		"outOfService": false,
	},
	changes,
)

not_ready(message) := node({"ready": "False", "reason": "KubeletNotReady", "message": message})

steps(pods) := [
	{"kind": "mend", "do": "Bring node n1 back, and its pods go by themselves"},
	{
		"kind": "remove",
		"do": concat(" ", [
			"If the machine of n1 is off for good, delete its Node",
			"(or taint it node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, to keep it):",
			"its pods are then collected within a minute or two",
		]),
		"action": {"verb": "delete", "objects": ["nodes/n1"], "namespace": "", "noWait": true},
	},
	{
		"kind": "force",
		"do": concat(" ", [
			"Remove only the object: containers on a machine that still runs keep running, next to their replacement",
			"(of a StatefulSet, two of one identity), and volumes may stay attached",
		]),
		"action": {
			"verb": "delete",
			"objects": [sprintf("pods/%s", [pod]) | some pod in pods],
			"namespace": "demo",
			"noWait": true,
			"force": true,
			"graceSeconds": 0,
		},
	},
]

finding(msg, evidence, pods) := {
	"msg": msg,
	"objects": array.concat(
		[{"resource": "nodes", "namespace": "", "name": "n1"}],
		[{"resource": "pods", "namespace": "demo", "name": pod} | some pod in pods],
	),
	"evidence": [evidence],
	"steps": steps(pods),
}

silent := "node n1 has Ready=Unknown since 2026-11-21T07:00:00Z, NodeStatusUnknown: Kubelet stopped posting node status."

unready(message) := concat("", ["node n1 has Ready=False since 2026-11-21T07:00:00Z, KubeletNotReady: ", message])

# A pod.

delete_pod(old, options) := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "web-0",
	"namespace": "demo",
	"oldObject": object.union({"metadata": {"name": "web-0"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}, old),
	"options": options,
}}

test_pod_on_a_silent_node if {
	got := found with input as delete_pod({}, {}) with data.cluster.notReady as {"n1": node({})}
	got == {
		"deny": {finding("this pod is on node n1, which does not answer (NodeStatusUnknown), so it will stay Terminating", silent, ["web-0"])},
		"warn": set(),
	}
}

test_pod_on_a_node_without_runtime if {
	message := "[container runtime is down, container runtime network not ready: NetworkPluginNotReady]"
	got := found with input as delete_pod({}, {}) with data.cluster.notReady as {"n1": not_ready(message)}
	got == {
		"deny": {finding(
			"this pod is on node n1, which has no container runtime, so it will stay Terminating",
			unready(message), ["web-0"],
		)},
		"warn": set(),
	}
}

test_pod_on_a_node_in_trouble if {
	every message in [
		"PLEG is not healthy: pleg was last seen active 4m ago",
		"[PLEG is not healthy: pleg was last seen active 4m ago, NetworkPluginNotReady]",
		"something new",
	] {
		got := found with input as delete_pod({}, {}) with data.cluster.notReady as {"n1": not_ready(message)}
		got == {
			"deny": set(),
			"warn": {finding(
				"this pod is on node n1, which is not ready (KubeletNotReady), so it may stay Terminating",
				unready(message), ["web-0"],
			)},
		}
	}
}

test_pod_on_a_node_without_network if {
	got := found with input as delete_pod({}, {})
		with data.cluster.notReady as {"n1": not_ready("container runtime network not ready: reason:NetworkPluginNotReady")}
	got == nothing
}

test_pod_on_a_node_out_of_service if {
	got := found with input as delete_pod({}, {}) with data.cluster.notReady as {"n1": node({"outOfService": true})}
	got == nothing
}

test_pod_on_a_ready_or_missing_node if {
	got := found with input as delete_pod({}, {}) with data.cluster.notReady as {"n2": node({})}
	got == nothing
}

test_pod_that_the_api_server_removes_itself if {
	every request in [
		delete_pod({"status": {"phase": "Succeeded"}}, {}),
		delete_pod({"status": {"phase": "Failed"}}, {}),
		delete_pod({"spec": {"terminationGracePeriodSeconds": 0}}, {}),
		delete_pod({}, {"gracePeriodSeconds": 0}),
		delete_pod({"spec": {"nodeName": ""}}, {}),
	] {
		got := found with input as request with data.cluster.notReady as {"n1": node({})}
		got == nothing
	}
}

test_pod_with_a_grace_period_of_the_request if {
	got := found with input as delete_pod({"spec": {"terminationGracePeriodSeconds": 0}}, {"gracePeriodSeconds": 5})
		with data.cluster.notReady as {"n1": node({})}
	count(got.deny) == 1
	got.warn == set()
}

# An eviction.

evict(eviction) := {"request": {
	"operation": "CREATE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"subResource": "eviction",
	"name": "web-0",
	"namespace": "demo",
	"object": eviction,
}}

pods(changes) := {"demo": {"web-0": object.union({"node": "n1", "phase": "Running"}, changes)}}

test_eviction if {
	got := found with input as evict({"kind": "Eviction"})
		with data.cluster.pods as pods({})
		with data.cluster.notReady as {"n1": node({})}
	got == {
		"deny": {finding("this pod is on node n1, which does not answer (NodeStatusUnknown), so it will stay Terminating", silent, ["web-0"])},
		"warn": set(),
	}
}

test_eviction_of_what_the_api_server_removes_itself if {
	every eviction, pod in {
		{"kind": "Eviction", "deleteOptions": {"gracePeriodSeconds": 0}}: {},
		{"kind": "Eviction"}: {"phase": "Succeeded"},
		{"kind": "Eviction", "metadata": {}}: {"gracePeriodSeconds": 0},
	} {
		got := found with input as evict(eviction)
			with data.cluster.pods as pods(pod)
			with data.cluster.notReady as {"n1": node({})}
		got == nothing
	}
}

# A namespace.

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
	"namespace": "demo",
}}

test_namespace_from_either_side if {
	every placed in [
		{"n1": {"count": 7, "names": ["web-0", "web-1"]}},
		{"n1": {"count": 7, "names": ["web-0", "web-1"]}, "n2": {"count": 1, "names": ["web-9"]}},
	] {
		every broken in [{"n1": node({})}, {"n1": node({}), "n3": node({}), "n4": node({})}] {
			got := found with input as delete_namespace
				with data.cluster.podsByNode as {"demo": placed}
				with data.cluster.notReady as broken
			got == {
				"deny": {finding(
					"7 pods are on node n1, which does not answer (NodeStatusUnknown), so they will stay Terminating",
					silent, ["web-0", "web-1"],
				)},
				"warn": set(),
			}
		}
	}
}

test_namespace_with_one_pod if {
	got := found with input as delete_namespace
		with data.cluster.podsByNode as {"demo": {"n1": {"count": 1, "names": ["web-0"]}}}
		with data.cluster.notReady as {"n1": not_ready("something new")}
	got == {
		"deny": set(),
		"warn": {finding(
			"1 pod is on node n1, which is not ready (KubeletNotReady), so it may stay Terminating",
			unready("something new"), ["web-0"],
		)},
	}
}

test_namespace_without_pods_there if {
	got := found with input as delete_namespace
		with data.cluster.podsByNode as {"demo": {"n2": {"count": 1, "names": ["web-0"]}}}
		with data.cluster.notReady as {"n1": node({})}
	got == nothing
}
