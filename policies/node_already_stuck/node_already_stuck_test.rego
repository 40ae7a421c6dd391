package termguard.node_already_stuck_test

import data.termguard.lib.pods
import data.termguard.lib.steps
import data.termguard.node_already_stuck as policy

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

here := {"count": 1, "names": ["web-0"], "namespace": "demo"}

target := {"resource": "pods", "namespace": "demo", "name": "web-0"}

node := {"resource": "nodes", "namespace": "", "name": "n1"}

event(changes) := {"n1": {"demo/e": object.union(
	{
		"kind": "Pod", "namespace": "demo", "name": "web-0", "reason": "FailedKillPod",
		"message": "error killing pod", "count": 3, "last": "2026-11-21T07:55:00Z",
	},
	changes,
)}}

plan(node_name, of) := array.concat(
	[
		{
			"kind": "mend",
			"do": sprintf("Look at the log of the kubelet on node %s: from verbosity 3 on it names the reason.", [node_name]),
		},
		{"kind": "mend", "do": sprintf("Restart the container runtime on node %s: running containers survive that.", [node_name])},
		{"kind": "mend", "do": sprintf("Drain and reboot node %s, if processes there cannot be killed (state D or Z).", [node_name])},
	],
	steps.hearsay("events of the kubelet", steps.forced(of.namespace, of.names)),
)

telling(msg, evidence) := {
	"msg": msg,
	"objects": [node, target],
	"evidence": evidence,
	"steps": plan("n1", here),
}

# Events.

may := telling(
	"this pod is on node n1, whose kubelet fails to stop containers (FailedKillPod), so it may stay Terminating",
	["event FailedKillPod x3: error killing pod"],
)

test_kubelet_fails_to_stop_a_container if {
	every case in [[delete_pod, {}], [delete_pod, {"namespace": "other", "name": "x"}], [evict, {}]] {
		got := found with input as case[0] with data.cluster as facts({"kubeletEvents": event(case[1])})
		got == {"deny": set(), "warn": {may}}
	}
}

will(who) := telling(
	sprintf("%s on node n1, whose kubelet fails to stop containers (FailedKillPod), so it will stay Terminating", [who]),
	["event FailedKillPod x10: error killing pod"],
)

test_again_and_again if {
	every case in [
		[delete_pod, {"deny": {will("this pod is")}, "warn": set()}],
		[delete_namespace, {"deny": {will("1 pod is")}, "warn": set()}],
		[evict, {"deny": {will("this pod is")}, "warn": set()}],
	] {
		got := found with input as case[0] with data.cluster as facts({"kubeletEvents": event({"count": 10})})
		got == case[1]
	}
}

test_again_and_again_with_another_pod if {
	other := event({"count": 10, "namespace": "other", "name": "x"})
	got := found with input as delete_pod with data.cluster as facts({"kubeletEvents": other})
	got.deny == set()
	count(got.warn) == 1
}

test_event_that_is_no_evidence if {
	every changes in [
		{"last": "2026-11-14T07:55:00Z"},
		{"namespace": "other", "name": "gone"},
		{"message": "no space left on device"},
	] {
		got := found with input as delete_pod with data.cluster as facts({"kubeletEvents": event(changes)})
		got == nothing
	}
}

test_event_of_a_node_that_has_another_reason if {
	got := found with input as delete_pod
		with data.cluster as facts({"kubeletEvents": event({}), "notReady": {"n1": {"ready": "Unknown"}}})
	got == nothing
}

# Pods that should have been gone.

pod(changes) := object.union(
	{"namespace": "demo", "name": "web-0", "node": "n1", "deadline": "2026-11-21T07:30:00Z", "ended": false},
	changes,
)

leaving(pods) := facts({"leaving": {
	"nodes": {"n1": {"count": count(pods), "pods": pods}},
	"namespaces": {"demo": {"count": count(pods), "pods": [pod |
		some pod in pods
		pod.namespace == "demo"
	]}},
}})

lingering(msg, evidence, of) := {
	"msg": msg,
	"objects": array.concat(pods.named(of), [node]),
	"evidence": evidence,
	"steps": plan("n1", of),
}

test_namespace_with_a_pod_that_lingers if {
	got := found with input as delete_namespace with data.cluster as leaving([pod({})])
	got == {
		"deny": {lingering(
			"1 pod is Terminating already, for 30 minutes longer than its grace period: its containers still run",
			["pod web-0 should have been gone by 2026-11-21T07:30:00Z: its containers still run"], here,
		)},
		"warn": set(),
	}
}

test_namespace_with_several_pods_that_linger if {
	ended := "its containers have ended, but its node has not cleaned up after it"
	got := found with input as delete_namespace
		with data.cluster as leaving([pod({"ended": true}), pod({"name": "web-1", "ended": true})])
	got == {
		"deny": {lingering(
			sprintf("2 pods are Terminating already, for 30 minutes longer than their grace period: %s", [ended]),
			[
				sprintf("pod web-0 should have been gone by 2026-11-21T07:30:00Z: %s", [ended]),
				sprintf("pod web-1 should have been gone by 2026-11-21T07:30:00Z: %s", [ended]),
			],
			{"count": 2, "names": ["web-0", "web-1"], "namespace": "demo"},
		)},
		"warn": set(),
	}
}

test_pod_beside_others_that_linger if {
	beside := telling(
		"this pod is on node n1, where other pods should have been gone for 30 minutes, so it may stay Terminating",
		[
			"pods that are being deleted on node n1: 1",
			"one should have been gone by 2026-11-21T07:30:00Z: its containers still run",
		],
	)
	every request in [delete_pod, evict] {
		got := found with input as request with data.cluster as leaving([pod({"namespace": "other", "name": "x"})])
		got == {"deny": set(), "warn": {beside}}
	}
}

test_pod_beside_several_that_are_not_cleaned_up if {
	ended := [pod({"namespace": "other", "name": name, "ended": true}) | some name in ["x", "y"]]
	one := found with input as delete_pod with data.cluster as leaving(array.slice(ended, 0, 1))
	one == nothing
	two := found with input as delete_pod with data.cluster as leaving(ended)
	two.deny == set()
	count(two.warn) == 1
}

test_nothing_lingers if {
	every case in [
		[delete_pod, leaving([pod({})])],
		[delete_pod, leaving([pod({"deadline": "2026-11-21T07:59:30Z"})])],
		[delete_namespace, leaving([pod({"deadline": "2026-11-21T07:59:30Z"})])],
		[delete_namespace, object.union(leaving([pod({})]), {"nodes": {"n1": {"outOfService": true}}})],
		[delete_namespace, object.union(object.remove(leaving([pod({})]), ["nodes"]), {"nodes": {}})],
	] {
		got := found with input as case[0] with data.cluster as case[1]
		got == nothing
	}
}

probed(found_of_pod, found_of_node) := facts({"probes": {"n1": {
	"at": "2026-11-21T07:59:00Z",
	"all": found_of_node,
	"pods": {"demo": {"web-0": found_of_pod}},
}}})

seen(cause, certainty) := {"cause": cause, "certainty": certainty, "evidence": "E", "remedy": "R", "uid": "u"}

told_by_probe(msg) := {
	"msg": msg,
	"objects": [node, target],
	"evidence": ["the node probe saw 60 s ago: E"],
	"steps": array.concat([{"kind": "mend", "do": "On node n1, run: R"}], plan("n1", here)),
}

test_probed_processes if {
	every certainty in ["will", "may"] {
		told := told_by_probe(sprintf("this pod is on node n1, where processes cannot be killed, so it %s stay Terminating", [certainty]))
		want := {"deny": {told | certainty == "will"}, "warn": {told | certainty == "may"}}
		got := found with input as delete_pod with data.cluster as probed([seen("stuck", certainty)], [])
		got == want
	}
}

test_probed_node if {
	every cause, why in {
		"runtime": "whose container runtime does not answer",
		"readOnly": "where a file system of kubelet or runtime is read-only",
	} {
		told := told_by_probe(sprintf("this pod is on node n1, %s, so it may stay Terminating", [why]))
		got := found with input as delete_pod with data.cluster as probed([], [seen(cause, "may")])
		got == {"deny": set(), "warn": {told}}
	}
}

problem := {
	"type": "KernelDeadlock", "reason": "DockerHung",
	"message": "task docker:20744 blocked for more than 120 seconds.", "since": "2026-11-21T07:30:00Z",
}

test_problem_detected if {
	told := {
		"msg": "this pod is on node n1, whose condition KernelDeadlock is True, so it may stay Terminating",
		"objects": [node, target],
		"evidence": [concat("", [
			"condition KernelDeadlock of the node since 2026-11-21T07:30:00Z: DockerHung: ",
			"task docker:20744 blocked for more than 120 seconds.",
		])],
		"steps": plan("n1", here),
	}
	got := found with input as delete_pod with data.cluster as facts({"nodeProblems": {"n1": [problem]}})
	got == {"deny": set(), "warn": {told}}
}

test_problem_elsewhere if {
	got := found with input as delete_pod with data.cluster as facts({"nodeProblems": {"n2": [problem]}})
	got == nothing
}
