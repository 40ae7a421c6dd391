package termguard.volume_driver_missing_test

import data.termguard.lib.steps
import data.termguard.volume_driver_missing as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

delete_pod := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "web-0",
	"namespace": "demo",
	"oldObject": {"metadata": {"name": "web-0"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}},
}}

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
	"namespace": "demo",
}}

evict := {"request": {
	"operation": "CREATE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"subResource": "eviction",
	"name": "web-0",
	"namespace": "demo",
	"object": {"kind": "Eviction"},
}}

base := {
	"now": "2026-11-21T08:00:00Z",
	"pods": {"demo": {"web-0": {"node": "n1", "phase": "Running"}}, "other": {"x": {"node": "n1", "phase": "Running"}}},
	"podsByNode": {"demo": {"n1": {"count": 1, "names": ["web-0"]}}},
	"nodes": {"n1": {"outOfService": false}},
	"notReady": {},
}

facts(changes) := object.union(base, changes)

target := {"resource": "pods", "namespace": "demo", "name": "web-0"}

finding(who, certainty, listed, reason) := {
	"msg": sprintf("%s on node n1, where CSI driver d1 is not registered, so it %s stay Terminating", [who, certainty]),
	"objects": [{"resource": "csinodes.storage.k8s.io", "namespace": "", "name": "n1"}, target],
	"evidence": ["a volume needs CSI driver d1 to be unmounted", sprintf("CSINode n1 lists: %s", [listed]), reason],
	"steps": array.concat(
		[{"kind": "mend", "do": "Bring CSI driver d1 back on node n1: its pod there, usually one of a DaemonSet, registers it."}],
		steps.forced("demo", ["web-0"]),
	),
}

uninstalled := "CSIDriver d1 does not exist, and no pod on node n1 registers it"

without := facts({
	"pods": {"demo": {"web-0": {"missingDrivers": ["d1"]}}},
	"driverless": {"demo": {"n1": {"d1": {"count": 1, "names": ["web-0"]}}}},
	"csinodes": {"n1": {"drivers": []}},
	"csidrivers": {},
	"registrars": {},
})

test_uninstalled if {
	every case in [
		[delete_pod, {"deny": {finding("this pod is", "will", "no driver", uninstalled)}, "warn": set()}],
		[delete_namespace, {"deny": {finding("1 pod is", "will", "no driver", uninstalled)}, "warn": set()}],
		[evict, {"deny": {finding("this pod is", "will", "no driver", uninstalled)}, "warn": set()}],
	] {
		got := found with input as case[0] with data.cluster as without
		got == case[1]
	}
}

test_not_on_the_node if {
	others := {"csidrivers": {"d1": {}}, "csinodes": {"n1": {"drivers": ["d2", "d3"]}}}
	got := found with input as delete_pod with data.cluster as object.union(without, others)
	got == {
		"deny": {finding("this pod is", "will", "d2, d3", "CSIDriver d1 exists, and no pod on node n1 registers it")},
		"warn": set(),
	}
}

test_about_to_register if {
	may := finding("this pod is", "may", "no driver", "a pod on node n1 is about to register a driver")
	every directory in ["d1", "whatever"] {
		got := found with input as delete_pod with data.cluster as object.union(without, {"registrars": {"n1": {directory: {}}}})
		got == {"deny": set(), "warn": {may}}
	}
}

test_others_register if {
	every changes in [
		{"csidrivers": {"d2": {}}, "registrars": {"n1": {"d2": {}}}},
		{"csinodes": {"n1": {"drivers": ["d2"]}}, "registrars": {"n1": {"d2": {}}}},
	] {
		got := found with input as delete_pod with data.cluster as object.union(without, changes)
		count(got.deny) == 1
		got.warn == set()
	}
}

test_node_that_is_gone_or_off if {
	gone := object.union(object.remove(without, ["nodes"]), {"nodes": {}})
	off := object.union(without, {"nodes": {"n1": {"outOfService": true}}})
	every case in [[delete_pod, gone], [delete_namespace, gone], [delete_pod, off], [delete_namespace, off]] {
		got := found with input as case[0] with data.cluster as case[1]
		got == nothing
	}
}
