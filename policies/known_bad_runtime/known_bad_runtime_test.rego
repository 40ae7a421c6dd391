package termguard.known_bad_runtime_test

import data.termguard.known_bad_runtime as policy

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

node := {"resource": "nodes", "namespace": "", "name": "n1"}

event(changes) := {"n1": {"demo/e": object.union(
	{
		"kind": "Pod", "namespace": "demo", "name": "web-0", "reason": "FailedSync",
		"message": "rpc error: code = DeadlineExceeded", "count": 3, "last": "2026-11-21T07:55:00Z",
	},
	changes,
)}}

buggy(component) := {"n1": {"bugs": {"some-bug": {
	"component": component, "version": concat("", [component, "://17.3.2"]), "affected": "<18.0.0", "fixedIn": "18.0.0",
	"symptom": "it hangs", "source": "https://example.com",
}}}}

finding(who, component, prune, sign) := {
	"msg": sprintf(
		"%[1]s on node n1, whose %[2]s %[2]s://17.3.2 has a known bug that shows here, so it may stay Terminating",
		[who, component],
	),
	"objects": [node, target],
	"evidence": ["it hangs (affected: <18.0.0; fixed in: 18.0.0; https://example.com)", sign],
	"steps": [
		{"kind": "mend", "do": sprintf("Restart the container runtime on node n1%s.", [prune])},
		{"kind": "mend", "do": concat(" ", [
			sprintf("Drain node n1 and upgrade its %s (fixed in: 18.0.0).", [component]),
			"Forcing is not advised: kubectl delete pod --force --grace-period=0 removes only the object, and on such a node",
			"the container usually runs on, beside its replacement.",
		])},
	],
}

leaving(deadline) := {"nodes": {"n1": {"count": 1, "pods": [{"deadline": deadline}]}}}

test_shown if {
	prune := ", then docker container prune"
	told := "event FailedSync x3: rpc error: code = DeadlineExceeded"
	late := "pods on the node that should have been gone by 2026-11-21T07:30:00Z: 1"
	every case in [
		[delete_pod, "docker", {"kubeletEvents": event({})}, finding("this pod is", "docker", prune, told)],
		[evict, "docker", {"kubeletEvents": event({})}, finding("this pod is", "docker", prune, told)],
		[delete_namespace, "containerd", {"kubeletEvents": event({})}, finding("1 pod is", "containerd", "", told)],
		[delete_pod, "containerd", {"leaving": leaving("2026-11-21T07:30:00Z")}, finding("this pod is", "containerd", "", late)],
	] {
		got := policy.warn with input as case[0] with data.cluster as object.union(facts({"buggy": buggy(case[1])}), case[2])
		got == {case[3]}
	}
}

test_probed if {
	runtime := {"cause": "runtime", "certainty": "may", "evidence": "E", "remedy": ""}
	stuck := {"cause": "stuck", "certainty": "may", "evidence": "F", "remedy": "", "uid": ""}
	every case in [
		["2026-11-21T07:59:00Z", [runtime], [], ["the node probe saw 60 s ago: E"]],
		["2026-11-21T07:59:00Z", [], [object.remove(stuck, ["uid"])], ["the node probe saw 60 s ago: F"]],
		["2026-11-21T07:00:00Z", [runtime], [stuck], []],
		["2026-11-21T07:59:00Z", [object.union(runtime, {"cause": "full"})], [object.union(stuck, {"cause": "busy"})], []],
	] {
		found := {"n1": {"at": case[0], "all": case[1], "pods": {"demo": {"web-0": case[2]}}}}
		got := policy.warn with input as delete_pod with data.cluster as facts({"buggy": buggy("containerd"), "probes": found})
		[line | some f in got; some i, line in f.evidence; i > 0] == case[3]
	}
}

test_busy if {
	busy := event({"message": "device or resource busy"})
	got := policy.warn with input as delete_pod with data.cluster as facts({"buggy": buggy("docker"), "kubeletEvents": busy})
	count(got) == 1
}

test_nothing_shows_it if {
	every changes in [
		{},
		{"kubeletEvents": event({"last": "2026-11-14T07:55:00Z"})},
		{"leaving": leaving("2026-11-21T07:59:30Z")},
	] {
		got := policy.warn with input as delete_pod with data.cluster as object.union(facts({"buggy": buggy("docker")}), changes)
		got == set()
	}
}
