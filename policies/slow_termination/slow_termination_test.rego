package termguard.slow_termination_test

import data.termguard.slow_termination as policy

# A pod.

delete_pod(spec, options) := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "web-0",
	"namespace": "demo",
	"oldObject": {
		"metadata": {"name": "web-0"},
		"spec": object.union({"nodeName": "n1", "containers": [{"name": "web"}]}, spec),
		"status": {"phase": "Running"},
	},
	"options": options,
}}

finding(estimate, grace, source, evidence) := {
	"msg": sprintf("this pod may take up to %d s to stop: its grace period is %d s", [estimate, grace]),
	"objects": [{"resource": "pods", "namespace": "demo", "name": "web-0"}],
	"evidence": array.concat([sprintf("grace period %d s, from %s", [grace, source])], evidence),
	"estimate_seconds": estimate + 1,
}

test_long_grace_period if {
	got := policy.warn with input as delete_pod({"terminationGracePeriodSeconds": 3600}, {})
	got == {finding(3600, 3600, "the pod", [])}
}

test_grace_period_of_the_request if {
	every options in [{"gracePeriodSeconds": 90}, {"gracePeriodSeconds": 90, "propagationPolicy": "Nonsense"}] {
		got := policy.warn with input as delete_pod({"terminationGracePeriodSeconds": 3600}, options)
		got == {finding(90, 90, "the request", [])}
	}
}

test_below_the_threshold if {
	every options in [{}, {"gracePeriodSeconds": 60}, {"gracePeriodSeconds": 0}, {"gracePeriodSeconds": -3600}] {
		got := policy.warn with input as delete_pod({}, options)
		got == set()
	}
}

test_estimates if {
	every options, want in {
		{}: [30, 30, "the pod"],
		{"gracePeriodSeconds": 1}: [2, 1, "the request"],
		{"gracePeriodSeconds": -5}: [2, 1, "the request"],
	} {
		got := policy.warn with input as delete_pod({}, options) with data.params as {"slow-termination": {"seconds": 1}}
		got == {finding(want[0], want[1], want[2], [])}
	}
}

with_hook(hook) := {"containers": [{"name": "web", "lifecycle": {"preStop": hook}}, {"name": "log"}]}

test_hook_is_part_of_the_grace_period if {
	evidence := ["container web has a preStop hook, which runs within the grace period"]
	every hook, estimate in {
		{"exec": {"command": ["sleep"]}}: 102,
		{"sleep": {"seconds": 5}}: 100,
		{"sleep": {"seconds": 99}}: 101,
		{"sleep": {"seconds": 500}}: 102,
	} {
		got := policy.warn with input as delete_pod(with_hook(hook), {"gracePeriodSeconds": 100})
		got == {finding(estimate, 100, "the request", evidence)}
	}
}

test_sidecars_wait_for_the_others if {
	got := policy.warn with input as delete_pod(
		{"initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}]},
		{"gracePeriodSeconds": 100},
	)
	got == {finding(102, 100, "the request", [])}
}

test_shell_as_the_first_process if {
	every container in [
		{"name": "web", "command": ["/bin/sh", "-c", "serve; sleep 1"]},
		{"name": "web", "command": ["bash"], "args": ["-c", "serve"]},
	] {
		got := policy.warn with input as delete_pod({"containers": [container]}, {"gracePeriodSeconds": 100})
		got == {finding(100, 100, "the request", ["container web starts as a shell, which may not pass TERM on: use exec"])}
	}
}

test_shell_that_makes_way if {
	every container in [{"name": "web", "command": ["sh", "-c", "setup && exec serve"]}, {"name": "web", "command": ["/pub.sh"]}] {
		got := policy.warn with input as delete_pod({"containers": [container]}, {"gracePeriodSeconds": 100})
		got == {finding(100, 100, "the request", [])}
	}
}

test_pod_that_the_api_server_removes_itself if {
	long := delete_pod({"terminationGracePeriodSeconds": 3600}, {})
	every patch in [
		{"op": "replace", "path": "/request/oldObject/spec/nodeName", "value": ""},
		{"op": "replace", "path": "/request/oldObject/status/phase", "value": "Succeeded"},
		{"op": "replace", "path": "/request/oldObject/status/phase", "value": "Failed"},
	] {
		got := policy.warn with input as json.patch(long, [patch])
		got == set()
	}
}

test_pod_of_which_nothing_runs if {
	long := delete_pod({"initContainers": [{"name": "setup"}]}, {"gracePeriodSeconds": 100})
	done := [{"name": "setup", "state": {"terminated": {"exitCode": 0}}}]
	every web in [{"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": {"exitCode": 1}}] {
		status := {"initContainerStatuses": done, "containerStatuses": [{"name": "web", "state": web}]}
		got := policy.warn with input as json.patch(long, [{"op": "add", "path": "/request/oldObject/status", "value": status}])
		got == set()
	}
	every status in [
		{"initContainerStatuses": done}, # the web is not known
		{"initContainerStatuses": done, "containerStatuses": [{"name": "web", "state": {"running": {}}}]},
		{"containerStatuses": [{"name": "web", "state": {"waiting": {}}}]}, # nor the setup
		{"initContainerStatuses": done, "containerStatuses": [{"name": "web", "state": {"waiting": {"reason": "PodInitializing"}}}]},
	] {
		got := policy.warn with input as json.patch(long, [{"op": "add", "path": "/request/oldObject/status", "value": status}])
		got == {finding(100, 100, "the request", [])}
	}
}

test_hook_of_a_container_that_does_not_run if {
	spec := with_hook({"exec": {"command": ["sleep"]}})
	status := {"containerStatuses": [{"name": "web", "state": {"waiting": {}}}]}
	pod := json.patch(
		delete_pod(spec, {"gracePeriodSeconds": 100}),
		[{"op": "add", "path": "/request/oldObject/status", "value": status}],
	)
	got := policy.warn with input as pod
	{f.estimate_seconds | some f in got} == {101}
}

# An eviction.

evict(options) := {"request": {
	"operation": "CREATE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"subResource": "eviction",
	"name": "web-0",
	"namespace": "demo",
	"object": {"kind": "Eviction", "deleteOptions": options},
}}

pods(changes) := {"demo": {"web-0": object.union({"node": "n1", "phase": "Running"}, changes)}}

test_evicted if {
	got := policy.warn with input as evict({}) with data.cluster.pods as pods({"gracePeriodSeconds": 3600})
	got == {finding(3600, 3600, "the pod", [])}
}

test_evicted_with_a_grace_period if {
	got := policy.warn with input as evict({"gracePeriodSeconds": 90}) with data.cluster.pods as pods({})
	got == {finding(90, 90, "the request", [])}
}

# A namespace.

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
	"namespace": "demo",
}}

test_namespace_waits_for_its_slowest_pods if {
	groups := {
		"30": {"count": 9, "names": ["web-0", "web-1"]},
		"3600": {"count": 2, "names": ["game-0", "game-1"]},
		"7": {"count": 1, "names": ["api-0"]},
	}
	got := policy.warn with input as delete_namespace with data.cluster.podsByGrace as {"demo": groups}
		with data.cluster.podsByNode as {"demo": {"n1": {}}}
	got == {{
		"msg": "2 pods may take up to 3600 s to stop, and the rest of the namespace waits",
		"objects": [
			{"resource": "pods", "namespace": "demo", "name": "game-0"},
			{"resource": "pods", "namespace": "demo", "name": "game-1"},
		],
		"evidence": [],
		"estimate_seconds": 3611,
	}}
}

test_many_pods_are_work_for_their_node if {
	groups := {"3600": {"count": 160, "names": ["game-0"]}}
	got := policy.warn with input as delete_namespace with data.cluster.podsByGrace as {"demo": groups}
		with data.cluster.podsByNode as {"demo": {"n1": {"count": 50}, "n2": {"count": 110}, "n3": {"count": 1}}}
		with data.cluster.nodes as {"n1": {"stopMillis": 125}, "n2": {"stopMillis": 80}, "n3": {}}
	{finding.estimate_seconds | some finding in got} == {3619}
}

test_namespace_of_fast_pods if {
	every groups in [{}, {"30": {"count": 9, "names": ["web-0"]}}] {
		got := policy.warn with input as delete_namespace with data.cluster.podsByGrace as {"demo": groups}
		got == set()
	}
}

# Pod garbage collection.

collected(subject, why, seconds, estimate) := {
	"msg": sprintf("%s, which %s: pod garbage collection removes %s within %d s", [subject[0], why, subject[1], seconds]),
	"objects": [{"resource": "pods", "namespace": "demo", "name": name} | some name in subject[2]],
	"evidence": [],
	"estimate_seconds": estimate,
}

out_of_service := {"n1": {"outOfService": true}}

test_pod_without_its_node if {
	subject := ["this pod is on node n1", "it", ["web-0"]]
	every request in [delete_pod({}, {}), evict({})] {
		got := policy.warn with input as request with data.cluster as {"gone": {"n1": {}}, "pods": pods({})}
		got == {collected(subject, "does not exist any more", 80, 81)}
		told := policy.warn with input as request with data.cluster as {"notReady": out_of_service, "pods": pods({})}
			with data.params as {"slow-termination": {"seconds": 0}}
		told == {collected(subject, "is out of service", 20, 21)}
	}
}

test_pod_with_its_node if {
	every cluster in [
		{"gone": {"n2": {}}}, {"notReady": out_of_service}, # quick enough
		{"notReady": {"n1": {"outOfService": false}}},
	] {
		got := policy.warn with input as delete_pod({}, {}) with data.cluster as cluster
		got == set()
	}
}

test_namespace_on_a_node_that_is_gone if {
	every grace, estimate in {"30": (81 + 60) + 10, "600": (81 + 300) + 10} {
		got := policy.warn with input as delete_namespace with data.cluster as {
			"gone": {"n1": {}},
			"podsByNode": {"demo": {"n1": {"count": 2, "names": ["a", "b"]}}},
			"podsByGrace": {"demo": {grace: {"count": 2, "names": ["a", "b"]}}},
		}
		got == {collected(["2 pods are on node n1", "them", ["a", "b"]], "does not exist any more", 80, estimate)}
	}
}

test_namespace_with_another_node if {
	got := policy.warn with input as delete_namespace with data.cluster as {
		"gone": {"n1": {}},
		"podsByNode": {"demo": {"n1": {"count": 1, "names": ["a"]}, "n2": {"count": 1, "names": ["b"]}}},
		"podsByGrace": {"demo": {"90": {"count": 2, "names": ["a", "b"]}}},
	}
	{f.estimate_seconds | some f in got} == {101, (81 + 60) + 10}
}

# Odd input.

test_mirror_of_a_static_pod if {
	static := {"op": "add", "path": "/request/oldObject/metadata/annotations", "value": {"kubernetes.io/config.mirror": "x"}}
	got := policy.warn with input as json.patch(delete_pod({"terminationGracePeriodSeconds": 3600}, {}), [static])
	got == set()
}

test_huge_grace_period if {
	got := policy.warn with input as delete_pod({"terminationGracePeriodSeconds": 9223372036854775807}, {})
	{f.estimate_seconds | some f in got} == {2147483633}
}

# A drain, which tells how long it takes whatever the threshold is.

drain := {"request": {
	"operation": "CONNECT",
	"subResource": "drain",
	"resource": {"group": "", "version": "v1", "resource": "nodes"},
	"name": "n1",
}}

drained := {
	"30": {"count": 19, "names": ["demo/a", "demo/b"]},
	"90": {"count": 1, "names": ["other/slow"]},
}

test_drain if {
	every node, estimate in {"n1": 93, "n2": 91, "n3": 91} {
		got := policy.warn with input as json.patch(drain, [{"op": "replace", "path": "/request/name", "value": node}])
			with data.cluster.nodes as {"n1": {"stopMillis": 100}, "n2": {}}
			with data.cluster.drainedByGrace as {"n1": drained, "n2": drained, "n3": drained}
		got == {{
			"msg": "1 pod may take up to 90 s to stop, and the drain waits",
			"objects": [{"resource": "pods", "namespace": "other", "name": "slow"}],
			"evidence": [],
			"estimate_seconds": estimate,
		}}
	}
}

test_plain_delete_of_node if {
	got := policy.warn with input as json.patch(drain, [
		{"op": "replace", "path": "/request/operation", "value": "DELETE"},
		{"op": "remove", "path": "/request/subResource"},
	])
		with data.cluster.drainedByGrace as {"n1": drained}
	got == set()
}

test_drain_of_nothing if {
	got := policy.warn with input as drain with data.cluster.drainedByGrace as {}
	got == set()
}
