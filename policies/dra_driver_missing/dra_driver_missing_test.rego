package termguard.dra_driver_missing_test

import data.termguard.dra_driver_missing as policy
import data.termguard.lib.steps

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

delete_pod := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "train-0",
	"namespace": "demo",
	"oldObject": {"metadata": {"name": "train-0"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}},
}}

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
	"namespace": "demo",
}}

without(how) := {
	"pods": {"demo": {"train-0": {"node": "n1", "phase": "Running", "missingPlugins": [{"driver": "gpu.example.com", "how": how}]}}},
	"podsByNode": {"demo": {"n1": {"count": 1, "names": ["train-0"]}}},
	"undriven": {"demo": {"n1": {"gpu.example.com": {how: {"count": 1, "names": ["train-0"]}}}}},
	"nodes": {"n1": {"outOfService": false}},
	"plugins": {},
}

finding(who, certainty, whose) := {
	"msg": sprintf(
		"%s on node n1, where DRA driver gpu.example.com has no devices any more, so it %s stay Terminating",
		[who, certainty],
	),
	"objects": [
		{"resource": "nodes", "namespace": "", "name": "n1"},
		{"resource": "pods", "namespace": "demo", "name": "train-0"},
	],
	"evidence": [
		"a ResourceClaim has a device of DRA driver gpu.example.com, which its plugin on node n1 has to give back",
		sprintf("no ResourceSlice of DRA driver gpu.example.com is for node n1, and %s registers a plugin there", [whose]),
	],
	"steps": array.concat(
		[{"kind": "mend", "do": concat(" ", [
			"Bring the plugin of DRA driver gpu.example.com back on node n1:",
			"its pod there, usually one of a DaemonSet, registers it.",
		])}],
		steps.forced("demo", ["train-0"]),
	),
}

test_uninstalled if {
	every case in [[delete_pod, "this pod is"], [delete_namespace, "1 pod is"]] {
		got := found with input as case[0] with data.cluster as without("alone")
		got == {"deny": {finding(case[1], "will", "no pod")}, "warn": set()}
	}
}

test_others_have_the_claim if {
	every case in [[delete_pod, "this pod is"], [delete_namespace, "1 pod is"]] {
		got := found with input as case[0] with data.cluster as without("shared")
		got == {"deny": set(), "warn": {finding(case[1], "may", "no pod")}}
	}
}

test_about_to_register if {
	back := object.union(without("alone"), {"plugins": {"n1": {"gpu": {"count": 1, "names": ["plugin"]}}}})
	got := found with input as delete_pod with data.cluster as back
	got == {"deny": set(), "warn": {finding("this pod is", "may", "a pod")}}
}

test_node_that_is_gone_or_slices_unseen if {
	gone := object.union(object.remove(without("alone"), ["nodes"]), {"nodes": {}})
	unseen := {"resource": "resourceslices.resource.k8s.io", "namespaced": false, "reason": "forbidden"}
	hidden := object.union(without("alone"), {"unseen": [unseen]})
	every facts in [gone, hidden] {
		every request in [delete_pod, delete_namespace] {
			got := found with input as request with data.cluster as facts
			got == nothing
		}
	}
}
