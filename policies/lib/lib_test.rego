package termguard.lib_test

import data.termguard.lib

request(operation, group, resource, extra) := {"request": object.union(
	{"operation": operation, "resource": {"group": group, "version": "v1", "resource": resource}},
	extra,
)}

test_target_of_a_namespaced_object if {
	found := lib.target with input as request("DELETE", "apps", "deployments", {"name": "web", "namespace": "demo"})
	found == {"resource": "deployments.apps", "namespace": "demo", "name": "web"}
}

test_a_namespace_is_not_in_itself if {
	found := lib.target with input as request("DELETE", "", "namespaces", {"name": "demo", "namespace": "demo"})
	found == {"resource": "namespaces", "namespace": "", "name": "demo"}
}

test_items_of_a_deletecollection_are_named_by_the_old_object if {
	old := {"metadata": {"name": "web-0"}}
	found := lib.target with input as request("DELETE", "", "pods", {"name": "", "namespace": "demo", "oldObject": old})
	found == {"resource": "pods", "namespace": "demo", "name": "web-0"}
}

test_what_is_missing_is_empty if {
	found := lib.target with input as {"request": {"operation": "DELETE"}}
	found == {"resource": "", "namespace": "", "name": ""}
}

test_deleting_a_part_is_not_deleting if {
	lib.deleting with input as request("DELETE", "", "pods", {})
	not lib.deleting with input as request("DELETE", "", "pods", {"subResource": "status"})
	not lib.deleting with input as request("UPDATE", "", "pods", {})
}

test_deletes_namespace if {
	lib.deletes_namespace with input as request("DELETE", "", "namespaces", {})
	not lib.deletes_namespace with input as request("DELETE", "", "pods", {})
	not lib.deletes_namespace with input as request("DELETE", "example.com", "namespaces", {})
}

test_evicting if {
	lib.evicting with input as request("CREATE", "", "pods", {"subResource": "eviction"})
	not lib.evicting with input as request("CREATE", "", "pods", {})
}

test_plural if {
	lib.plural(1, "pod", "pods") == "pod"
	lib.plural(0, "pod", "pods") == "pods"
}

test_person if {
	lib.person with input as {"request": {}}
	every name in ["", "ada", "system:admin"] {
		lib.person with input as {"request": {"userInfo": {"username": name}}}
	}
	every name in ["system:serviceaccount:ops:op", "system:kube-controller-manager", "system:node:n1"] {
		not lib.person with input as {"request": {"userInfo": {"username": name}}}
	}
}

# Steps.

test_names_cannot_break_out_of_a_command if {
	every word, quoted in {
		"system:node:n1": "system:node:n1",
		"it's": `'it'\''s'`,
		"$(reboot)": "'$(reboot)'",
		"a b": "'a b'",
		"": "''",
		"`x`;y": "'`x`;y'",
	} {
		lib.quoted(word) == quoted
	}
}

test_objects_in_batches if {
	lib.batches("pods", []) == []
	names := [sprintf("p%d", [i]) | some i in numbers.range(1, 21)]
	[count(batch) | some batch in lib.batches("pods", names)] == [10, 10, 1]
	lib.batches("pods", names)[2] == ["pods/p21"]
}

pod_request(old, options) := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "web-0",
	"namespace": "demo",
	"oldObject": object.union({"metadata": {"name": "web-0"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}, old),
	"options": options,
}}

namespace_request := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
	"namespace": "demo",
}}

eviction_request := {"request": {
	"operation": "CREATE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"subResource": "eviction",
	"name": "web-0",
	"namespace": "demo",
	"object": {"kind": "Eviction"},
}}

here := {"n1": {"count": 1, "names": ["web-0"], "namespace": "demo"}}

test_waiting if {
	got := lib.waiting({"n1": {}, "n2": {}}) with input as pod_request({}, {})
	got == here
	evicted := lib.waiting({"n1": {}}) with input as eviction_request
		with data.cluster.pods as {"demo": {"web-0": {"node": "n1", "phase": "Running"}}}
	evicted == here
	elsewhere := lib.waiting({"n2": {}}) with input as pod_request({}, {})
	elsewhere == {}
	forced := lib.waiting({"n1": {}}) with input as pod_request({}, {"gracePeriodSeconds": 0})
	forced == {}
	finished := lib.waiting({"n1": {}}) with input as pod_request({"status": {"phase": "Failed"}}, {})
	finished == {}
	ended := lib.waiting({"n1": {}}) with input as pod_request(
		{"metadata": {"name": "web-0", "deletionGracePeriodSeconds": 30}, "status": {"phase": "Failed"}},
		{},
	)
	ended == here
}

test_waiting_of_a_namespace_from_either_side if {
	every placed in [
		{"n1": {"count": 1, "names": ["web-0"]}},
		{"n1": {"count": 1, "names": ["web-0"]}, "n2": {"count": 9, "names": []}},
	] {
		every nodes in [{"n1": {}}, {"n1": {}, "n3": {}, "n4": {}}] {
			got := lib.waiting(nodes) with input as namespace_request with data.cluster.podsByNode as {"demo": placed}
			got == here
		}
	}
}

test_duration if {
	got := [lib.duration(seconds) | some seconds in [1, 119, 120, 7199, 7200]]
	got == ["1 s", "119 s", "2 minutes", "119 minutes", "2 hours"]
}

test_late if {
	pods := [{"deadline": "2026-11-21T07:58:59Z"}, {"deadline": "2026-11-21T07:59:00Z"}]
	got := lib.late({"count": 2, "pods": pods}) with data.cluster.now as "2026-11-21T08:00:00Z"
	got == [{"deadline": "2026-11-21T07:58:59Z"}]
}

test_serves if {
	got := [node |
		some node in ["up", "down", "gone", "off"]
		lib.serves(node) with data.cluster.nodes as object.union(
			{name: {"outOfService": false} | some name in ["up", "down"]},
			{"off": {"outOfService": true}},
		)
			with data.cluster.notReady as {"down": {}}
	]
	got == ["up"]
}

test_current if {
	event := {"kind": "Pod", "namespace": "demo", "name": "web-0", "last": "2026-11-21T07:30:00Z"}
	got := [case |
		some case, changes in {
			"current": {},
			"old": {"last": "2026-11-21T06:59:00Z"},
			"of a pod that is gone": {"name": "web-9"},
			"of the node": {"kind": "Node", "name": "n1"},
			"of the node, old": {"kind": "Node", "name": "n1", "last": "2026-11-14T07:00:00Z"},
		}
		lib.current(object.union(event, changes), "n1") with data.cluster.now as "2026-11-21T08:00:00Z"
			with data.cluster.pods as {"demo": {"web-0": {"node": "n1"}}}
	]
	got == ["current", "of the node"]
	not lib.current(event, "n2") with data.cluster.now as "2026-11-21T08:00:00Z"
		with data.cluster.pods as {"demo": {"web-0": {"node": "n1"}}}
}

test_cause if {
	every want, symptoms in {
		"full": [["FailedCreatePodSandBox", "mkdir x: no space left on device"], ["FailedKillPod", "no space left on device"]],
		"busy": [["FailedUnmount", "umount: device or resource busy"]],
		"immutable": [["FailedSync", "unlinkat f: operation not permitted"]],
		"stuck": [
			["FailedKillPod", "error killing pod"], ["Killing", "Stopping container web"],
			["FailedSync", "error determining status: rpc error: code = DeadlineExceeded"],
			["FailedSync", "context deadline exceeded"],
		],
	} {
		every symptom in symptoms {
			lib.cause({"reason": symptom[0], "message": symptom[1]}) == want
		}
	}
	every symptom in [
		["ImageGCFailed", "operation not permitted"], ["FailedMount", "device or resource busy"],
		["FailedSync", "secret not found"], ["ContainerGCFailed", "context deadline exceeded"],
	] {
		not lib.cause({"reason": symptom[0], "message": symptom[1]})
	}
}

test_about if {
	lib.about({"namespace": "demo", "name": "web-0"}) with input as pod_request({}, {})
	not lib.about({"namespace": "demo", "name": "web-1"}) with input as pod_request({}, {})
	not lib.about({"namespace": "other", "name": "web-0"}) with input as pod_request({}, {})
	lib.about({"namespace": "demo", "name": "web-1"}) with input as namespace_request
	not lib.about({"namespace": "other", "name": "web-0"}) with input as namespace_request
}

test_hazardous if {
	of_pod := lib.hazardous("immutable") with input as pod_request({}, {})
		with data.cluster.pods as {"demo": {"web-0": {"hazards": ["immutable"]}}}
	of_pod == here
	of_another := lib.hazardous("mounts") with input as pod_request({}, {})
		with data.cluster.pods as {"demo": {"web-0": {"hazards": ["immutable"]}}}
	of_another == {}
	of_namespace := lib.hazardous("immutable") with input as namespace_request
		with data.cluster.hazards as {"demo": {"immutable": {"n1": {"count": 1, "names": ["web-0"]}}}}
	of_namespace == here
}
