package termguard.node_disk_full_test

import data.termguard.lib.steps
import data.termguard.node_disk_full as policy

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
		"kind": "Pod", "namespace": "demo", "name": "web-0", "reason": "FailedKillPod",
		"message": "write f: no space left on device", "count": 3, "last": "2026-11-21T07:55:00Z",
	},
	changes,
)}}

finding(who, evidence) := {
	"msg": sprintf("%s on node n1, whose disk is full, so it may stay Terminating", [who]),
	"objects": [node, target],
	"evidence": evidence,
	"steps": array.concat(
		[
			{"kind": "mend", "do": concat(" ", [
				"Free space on node n1: crictl rmi --prune removes unused images; look for large logs and emptyDirs below",
				"/var/log/pods and /var/lib/kubelet/pods.",
			])},
			{"kind": "mend", "do": "Restart the container runtime on node n1, if pods do not go within a few minutes then."},
		],
		steps.hearsay("events of the kubelet", steps.forced("demo", ["web-0"])),
	),
}

pressure := {"n1": {"diskPressure": {"since": "2026-11-21T07:10:00Z", "message": "kubelet has disk pressure"}}}

late := {"nodes": {"n1": {"count": 1, "pods": [{"deadline": "2026-11-21T07:30:00Z"}]}}}

test_stop_that_failed if {
	told := ["event FailedKillPod x3: write f: no space left on device"]
	every case in [
		[delete_pod, {}, finding("this pod is", told)],
		[delete_pod, {"namespace": "other", "name": "x"}, finding("this pod is", told)],
		[evict, {}, finding("this pod is", told)],
		[delete_namespace, {}, finding("1 pod is", told)],
	] {
		got := policy.warn with input as case[0] with data.cluster as facts({"kubeletEvents": event(case[1])})
		got == {case[2]}
	}
}

test_full_and_a_pod_that_lingers if {
	lingers := "pods on it that should have been gone by 2026-11-21T07:30:00Z: 1"
	every case in [
		[{"nodes": pressure}, "node n1 has DiskPressure since 2026-11-21T07:10:00Z: kubelet has disk pressure"],
		[
			{"kubeletEvents": event({"reason": "FailedCreatePodSandBox"})},
			"event FailedCreatePodSandBox x3: write f: no space left on device",
		],
	] {
		got := policy.warn with input as delete_pod with data.cluster as object.union(facts({"leaving": late}), case[0])
		got == {finding("this pod is", [case[1], lingers])}
	}
}

test_half_of_it if {
	every changes in [
		{"nodes": pressure},
		{"leaving": late},
		{"kubeletEvents": event({"reason": "FailedCreatePodSandBox"})},
		{"kubeletEvents": event({"last": "2026-11-14T07:55:00Z"})},
		{"kubeletEvents": event({"message": "error killing pod"})},
		{"nodes": pressure, "leaving": {"nodes": {"n1": {"count": 1, "pods": [{"deadline": "2026-11-21T07:59:30Z"}]}}}},
	] {
		got := policy.warn with input as delete_pod with data.cluster as facts(changes)
		got == set()
	}
}

test_probed if {
	probes := {"n1": {
		"at": "2026-11-21T07:59:00Z", "pods": {},
		"all": [{"cause": "full", "certainty": "may", "evidence": "E", "remedy": ""}],
	}}
	got := policy.warn with input as delete_pod with data.cluster as facts({"probes": probes, "leaving": late})
	{f.evidence | some f in got} == {[
		"the node probe saw 60 s ago: E",
		"pods on it that should have been gone by 2026-11-21T07:30:00Z: 1",
	]}
	alone := policy.warn with input as delete_pod with data.cluster as facts({"probes": probes})
	alone == set()
}
