package termguard.busy_mount_test

import data.termguard.busy_mount as policy
import data.termguard.lib.steps

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

node := {"resource": "nodes", "namespace": "", "name": "n1"}

event(changes) := {"n1": {"demo/e": object.union(
	{
		"kind": "Pod", "namespace": "demo", "name": "web-0", "reason": "FailedUnmount",
		"message": "f: device or resource busy", "count": 3, "last": "2026-11-21T07:55:00Z",
	},
	changes,
)}}

plan := array.concat(
	[{"kind": "mend", "do": concat(" ", [
		"Find on the node what is mounted below the pod's directory (findmnt -l | grep /var/lib/kubelet/pods/UID; UID is the",
		"pod's) or who holds it (fuser -vm DIRECTORY), and unmount it or stop who holds it. The kubelet tries again within",
		"two minutes.",
	])}],
	steps.hearsay("events of the kubelet", steps.forced("demo", ["web-0"])),
)

finding(who, certainty, told) := {
	"msg": sprintf("%s on node n1, which %s not be able to clean up after it: device or resource busy", [who, certainty]),
	"objects": [node, target],
	"evidence": [sprintf("event FailedUnmount x%d: f: device or resource busy", [told])],
	"steps": plan,
}

test_told if {
	every case in [
		[delete_pod, 3, {"deny": set(), "warn": {finding("this pod is", "may", 3)}}],
		[delete_namespace, 3, {"deny": set(), "warn": {finding("1 pod is", "may", 3)}}],
		[delete_pod, 10, {"deny": {finding("this pod is", "will", 10)}, "warn": set()}],
		[evict, 10, {"deny": {finding("this pod is", "will", 10)}, "warn": set()}],
	] {
		got := found with input as case[0] with data.cluster as facts({"kubeletEvents": event({"count": case[1]})})
		got == case[2]
	}
}

test_told_of_something_else if {
	every changes in [
		{"last": "2026-11-14T07:55:00Z"}, {"namespace": "other", "name": "x"},
		{"message": "something new"}, {"reason": "FailedMount"},
	] {
		got := found with input as delete_pod with data.cluster as facts({"kubeletEvents": event(changes)})
		got == nothing
	}
}

test_manifest if {
	told := {
		"msg": "this pod may leave mounts in an emptyDir (mountPropagation Bidirectional): left there, they keep it Terminating",
		"objects": [target],
		"evidence": ["what a container mounts in a volume with mountPropagation Bidirectional is mounted on its node, too"],
		"steps": plan,
	}
	every request in [delete_pod, evict] {
		got := found with input as request with data.cluster as facts({"pods": {"demo": {"web-0": {"hazards": ["mounts"]}}}})
		got == {"deny": set(), "warn": {told}}
	}
}

test_manifests_of_a_namespace if {
	pods := {"n1": {"count": 7, "names": ["web-0"]}}
	got := policy.warn with input as delete_namespace with data.cluster as facts({"hazards": {"demo": {"mounts": pods}}})
	{f.msg | some f in got} == {concat("", [
		"7 pods may leave mounts in an emptyDir (mountPropagation Bi",
		"directional): left there, they keep them Terminating",
	])}
}

probed(certainty, at) := {"n1": {"at": at, "all": [], "pods": {"demo": {"web-0": [seen(certainty)]}}}}

seen(certainty) := {"cause": "busy", "certainty": certainty, "evidence": "E", "remedy": "R", "uid": "u"}

test_probed if {
	every case in [
		[delete_pod, "will", "this pod is"], [delete_pod, "may", "this pod is"],
		[delete_namespace, "will", "1 pod is"], [evict, "may", "this pod is"],
	] {
		told := {
			"msg": sprintf("%s on node n1, which %s not be able to clean up after it: device or resource busy", [case[2], case[1]]),
			"objects": [node, target],
			"evidence": ["the node probe saw 60 s ago: E"],
			"steps": array.concat([{"kind": "mend", "do": "On node n1, run: R"}], plan),
		}
		want := {"deny": {told | case[1] == "will"}, "warn": {told | case[1] == "may"}}
		got := found with input as case[0] with data.cluster as facts({"probes": probed(case[1], "2026-11-21T07:59:00Z")})
		got == want
	}
}

test_probed_long_ago if {
	got := found with input as delete_pod with data.cluster as facts({"probes": probed("will", "2026-11-21T07:00:00Z")})
	got == nothing
}
