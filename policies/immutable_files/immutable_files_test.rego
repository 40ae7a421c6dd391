package termguard.immutable_files_test

import data.termguard.immutable_files as policy
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
		"message": "f: operation not permitted", "count": 3, "last": "2026-11-21T07:55:00Z",
	},
	changes,
)}}

plan := array.concat(
	[
		{"kind": "mend", "do": "While the pod still runs, remove the attribute in its container: chattr -R -i -a DIRECTORY."},
		{"kind": "mend", "do": concat(" ", [
			"Afterwards, undo it on the node: lsattr -R /var/lib/kubelet/pods/UID/volumes shows the files (UID is the pod's),",
			"chattr -R -i -a mends them. The kubelet tries again within two minutes.",
		])},
	],
	steps.hearsay("events of the kubelet", steps.forced("demo", ["web-0"])),
)

finding(who, certainty, told) := {
	"msg": sprintf("%s on node n1, which %s not be able to clean up after it: operation not permitted", [who, certainty]),
	"objects": [node, target],
	"evidence": [sprintf("event FailedUnmount x%d: f: operation not permitted", [told])],
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
		"msg": "a command of this pod makes files in an emptyDir immutable or append-only: left so, they keep it Terminating",
		"objects": [target],
		"evidence": ["a container may use the attribute (CAP_LINUX_IMMUTABLE or privileged), and its command runs chattr"],
		"steps": plan,
	}
	every request in [delete_pod, evict] {
		got := found with input as request with data.cluster as facts({"pods": {"demo": {"web-0": {"hazards": ["immutable"]}}}})
		got == {"deny": set(), "warn": {told}}
	}
}

test_manifests_of_a_namespace if {
	pods := {"n1": {"count": 7, "names": ["web-0"]}}
	got := policy.warn with input as delete_namespace with data.cluster as facts({"hazards": {"demo": {"immutable": pods}}})
	{f.msg | some f in got} == {concat("", [
		"a command of 7 pods makes files in an emptyDir immutable or",
		" append-only: left so, they keep them Terminating",
	])}
}

probed(certainty, at) := {"n1": {"at": at, "all": [], "pods": {"demo": {"web-0": [seen(certainty)]}}}}

seen(certainty) := {"cause": "immutable", "certainty": certainty, "evidence": "E", "remedy": "R", "uid": "u"}

test_probed if {
	every case in [
		[delete_pod, "will", "this pod is"], [delete_pod, "may", "this pod is"],
		[delete_namespace, "will", "1 pod is"], [evict, "may", "this pod is"],
	] {
		told := {
			"msg": sprintf("%s on node n1, which %s not be able to clean up after it: operation not permitted", [case[2], case[1]]),
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
