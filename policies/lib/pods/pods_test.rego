package termguard.lib.pods_test

import data.termguard.lib.pods

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
	got := pods.waiting({"n1": {}, "n2": {}}) with input as pod_request({}, {})
	got == here
	evicted := pods.waiting({"n1": {}}) with input as eviction_request
		with data.cluster.pods as {"demo": {"web-0": {"node": "n1", "phase": "Running"}}}
	evicted == here
	elsewhere := pods.waiting({"n2": {}}) with input as pod_request({}, {})
	elsewhere == {}
	forced := pods.waiting({"n1": {}}) with input as pod_request({}, {"gracePeriodSeconds": 0})
	forced == {}
	finished := pods.waiting({"n1": {}}) with input as pod_request({"status": {"phase": "Failed"}}, {})
	finished == {}
	ended := pods.waiting({"n1": {}}) with input as pod_request(
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
			got := pods.waiting(nodes) with input as namespace_request with data.cluster.podsByNode as {"demo": placed}
			got == here
		}
	}
}

test_about if {
	pods.about({"namespace": "demo", "name": "web-0"}) with input as pod_request({}, {})
	not pods.about({"namespace": "demo", "name": "web-1"}) with input as pod_request({}, {})
	not pods.about({"namespace": "other", "name": "web-0"}) with input as pod_request({}, {})
	pods.about({"namespace": "demo", "name": "web-1"}) with input as namespace_request
	not pods.about({"namespace": "other", "name": "web-0"}) with input as namespace_request
}

test_hazardous if {
	of_pod := pods.hazardous("immutable") with input as pod_request({}, {})
		with data.cluster.pods as {"demo": {"web-0": {"hazards": ["immutable"]}}}
	of_pod == here
	of_another := pods.hazardous("mounts") with input as pod_request({}, {})
		with data.cluster.pods as {"demo": {"web-0": {"hazards": ["immutable"]}}}
	of_another == {}
	of_namespace := pods.hazardous("immutable") with input as namespace_request
		with data.cluster.hazards as {"demo": {"immutable": {"n1": {"count": 1, "names": ["web-0"]}}}}
	of_namespace == here
}
