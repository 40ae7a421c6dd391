package termguard.network_plugin_removed_test

import data.termguard.lib.steps
import data.termguard.network_plugin_removed as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

delete(resource, group, name) := {"request": {
	"operation": "DELETE",
	"resource": {"group": group, "version": "v1", "resource": resource},
	"name": name,
	"namespace": "cni",
}}

delete_pod(own_network) := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "web-0",
	"namespace": "shop",
	"oldObject": {
		"metadata": {"name": "web-0"},
		"spec": {"nodeName": "n1", "hostNetwork": own_network},
		"status": {"phase": "Running"},
	},
}}

installed := {
	"networks": {"cni": {"net": {"n1": {"count": 1, "names": ["net-1"]}, "n2": {"count": 1, "names": ["net-2"]}}}},
	"networkAccounts": {"cni": {"agent": {"net": {"count": 2, "names": ["net-1", "net-2"]}}}},
	"wired": {"n1": 2, "n3": 7},
	"kubeletEvents": {},
}

test_daemonset if {
	expected := {
		"msg": "DaemonSet cni/net set up the network of 2 pods on 1 node, and without it they may stay Terminating",
		"objects": [
			{"resource": "daemonsets.apps", "namespace": "cni", "name": "net"},
			{"resource": "nodes", "namespace": "", "name": "n1"},
		],
		"evidence": ["node n1: 2 pods that are not in the network of their node"],
		"steps": [{"kind": "mend", "do": "Delete the pods that it connected first, or move them to nodes with another plugin"}],
	}
	every request in [delete("daemonsets", "apps", "net"), delete("namespaces", "", "cni")] {
		got := found with input as request with data.cluster as installed
		got == {"deny": set(), "warn": {expected}}
	}
}

test_service_account if {
	every account in ["agent", "calico-cni-plugin"] {
		got := found with input as delete("serviceaccounts", "", account) with data.cluster as installed
		{finding.msg | some finding in got.warn} == {concat(" ", [
			"DaemonSet cni/net set up the network of 2 pods on 1 node,",
			"and without its service account they may stay Terminating",
		])}
		got.deny == set()
	}
	other := found with input as delete("serviceaccounts", "", "metrics") with data.cluster as installed
	other == nothing
}

test_nothing_connected if {
	every case in [
		[delete("daemonsets", "apps", "other"), installed],
		[delete("deployments", "apps", "net"), installed],
		[delete("daemonsets", "apps", "net"), object.union(object.remove(installed, ["wired"]), {"wired": {"n3": 7}})],
	] {
		got := found with input as case[0] with data.cluster as case[1]
		got == nothing
	}
}

event(times, message) := {
	"now": "2026-11-21T08:00:00Z",
	"pods": {"shop": {"web-0": {"node": "n1", "phase": "Running"}}},
	"networks": {},
	"kubeletEvents": {"n1": {"shop/e": {
		"kind": "Pod", "namespace": "shop", "name": "web-0", "reason": "FailedKillPod",
		"message": message, "count": times, "last": "2026-11-21T07:59:00Z",
	}}},
}

refused := `failed to "KillPodSandbox" for "1": failed to destroy network for sandbox "2": refused`

failing(stays, times) := {
	"msg": sprintf("this pod is on node n1, which fails to tear the network of a pod down, so it %s Terminating", [stays]),
	"objects": [
		{"resource": "nodes", "namespace": "", "name": "n1"},
		{"resource": "pods", "namespace": "shop", "name": "web-0"},
	],
	"evidence": [sprintf("event FailedKillPod x%d: %s", [times, refused])],
	"steps": array.concat(
		[{"kind": "mend", "do": "Bring the network plugin back on node n1, or mend what the event names"}],
		steps.hearsay("events of the kubelet", steps.forced("shop", ["web-0"])),
	),
}

test_failing if {
	once := found with input as delete_pod(false) with data.cluster as event(1, refused)
	once == {"deny": set(), "warn": {failing("may stay", 1)}}
	lasting := found with input as delete_pod(false) with data.cluster as event(10, refused)
	lasting == {"deny": {failing("stays", 10)}, "warn": set()}
}

test_failing_elsewhere if {
	every case in [[delete_pod(true), event(10, refused)], [delete_pod(false), event(10, "error killing pod")]] {
		got := found with input as case[0] with data.cluster as case[1]
		got == nothing
	}
}
