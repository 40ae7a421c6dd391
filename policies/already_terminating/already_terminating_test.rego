package termguard.already_terminating_test

import data.termguard.already_terminating as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

# Namespaces.

deleted := "2026-11-21T07:00:00Z"

namespace(changes) := {
	"request": {
		"operation": "DELETE",
		"resource": {"group": "", "version": "v1", "resource": "namespaces"},
		"name": "demo",
		"namespace": "demo",
		"oldObject": object.union({"metadata": {"name": "demo", "deletionTimestamp": deleted}}, changes),
	},
	"ownership": {
		"x.io/f": {"state": "alive", "certainty": "will", "evidence": ["it runs"]},
		"gone.io/f": {"state": "absent", "certainty": "will"},
	},
}

target := [{"resource": "namespaces", "namespace": "", "name": "demo"}]

conditions(types) := {"demo": {"conditions": {type: {"status": status, "reason": "R", "message": "M"} |
	some type, status in object.union({"NamespaceDeletionDiscoveryFailure": "False", "Other": "True"}, types)
}}}

condition(elapsed, type) := {
	"msg": sprintf("Terminating for %s: %s (%s)", [elapsed, policy.meanings[type], type]),
	"objects": target,
	"evidence": ["R: M"],
	"steps": [{"kind": "mend", "do": sprintf("%s: then it finishes by itself", [policy.remedies[type]])}],
}

test_each_condition_is_named if {
	object.keys(policy.meanings) == object.keys(policy.remedies)
	every type, _ in policy.meanings {
		got := found with input as namespace({})
			with data.cluster.now as "2026-11-21T07:01:01Z"
			with data.cluster.namespaces as conditions({type: "True"})
		got == {"deny": {condition("61 s", type)}, "warn": set()}
	}
}

test_failures_of_a_fresh_delete if {
	got := found with input as namespace({})
		with data.cluster.now as "2026-11-21T07:00:05Z"
		with data.cluster.namespaces as conditions({
			"NamespaceDeletionContentFailure": "True",
			"NamespaceContentRemaining": "True",
			"NamespaceFinalizersRemaining": "True",
		})
	got == {"deny": set(), "warn": {condition("5 s", "NamespaceDeletionContentFailure")}}
}

test_slow_pods_are_waited_for if {
	every now, want in {"2026-11-21T08:01:00Z": set(), "2026-11-21T09:01:01Z": {condition("2 hours", "NamespaceContentRemaining")}} {
		got := found with input as namespace({})
			with data.cluster.now as now
			with data.cluster.podsByGrace as {"demo": {"30": {"count": 1, "names": ["a"]}, "3600": {"count": 1, "names": ["b"]}}}
			with data.cluster.namespaces as conditions({"NamespaceContentRemaining": "True"})
		got == {"deny": want, "warn": set()}
	}
}

finalizers(state) := {"demo": {"x.io/f": {"configmaps": {"": {
	"count": 1,
	"names": ["c"],
	"ownership": {"state": state, "certainty": "will"},
}}}}}

remaining := {"NamespaceContentRemaining": "True", "NamespaceFinalizersRemaining": "True"}

both := {condition("2 minutes", "NamespaceContentRemaining"), condition("2 minutes", "NamespaceFinalizersRemaining")}

test_finalizers_whose_owner_runs if {
	got := found with input as namespace({})
		with data.cluster.now as "2026-11-21T07:02:00Z"
		with data.cluster.finalized as finalizers("alive")
		with data.cluster.namespaces as conditions(remaining)
	got == {"deny": set(), "warn": both}
}

test_finalizers_whose_owner_does_not_run if {
	got := found with input as namespace({})
		with data.cluster.now as "2026-11-21T07:02:00Z"
		with data.cluster.finalized as finalizers("absent")
		with data.cluster.namespaces as conditions(remaining)
	got == {"deny": both, "warn": set()}
}

test_pods_that_the_conditions_hide if {
	every n, msg in {
		1: "Terminating for 5 minutes: the conditions say that nothing is left, but 1 pod is",
		7: "Terminating for 5 minutes: the conditions say that nothing is left, but 7 pods are",
	} {
		got := found with input as namespace({})
			with data.cluster.now as "2026-11-21T07:05:00Z"
			with data.cluster.counts as {"demo": {"pods": n}}
			with data.cluster.namespaces as conditions({})
		got == {
			"deny": {{
				"msg": msg,
				"objects": target,
				"evidence": ["pods go first: nothing else in the namespace is deleted before"],
				"steps": [{
					"kind": "mend",
					"do": "See what holds each of the pods: kubectl get pods -n demo, then kubectl termguard check pods/NAME -n demo",
				}],
			}},
			"warn": set(),
		}
	}
}

waits(objects, field, action) := {
	"msg": "Terminating for 5 minutes: finalizer x.io/f is not removed yet, though its owner runs",
	"objects": objects,
	"evidence": ["it runs"],
	"field": field,
	"steps": [
		{"kind": "mend", "do": "Look at the log of what removes the finalizer, and at the events of the object"},
		object.union(
			{
				"kind": "force",
				"do": "Remove x.io/f although its owner runs: what nobody cleaned up stays behind",
			},
			action,
		),
	],
}

taken_out(holder, ns) := {"action": data.termguard.lib.finalizers.taking_out([holder], ns, [[0, "x.io/f"]])}

test_finalizers_of_an_empty_namespace if {
	got := found with input as namespace({
		"metadata": {"name": "demo", "deletionTimestamp": deleted, "finalizers": ["gone.io/f", "x.io/f"]},
		"spec": {"finalizers": ["kubernetes", "x.io/f"]},
	})
		with data.cluster.now as "2026-11-21T07:05:00Z"
		with data.cluster.namespaces as conditions({})
	got == {"deny": set(), "warn": {
		waits(target, "metadata.finalizers[1]", taken_out("namespaces/demo", "")),
		waits(target, "spec.finalizers[1]", {}),
	}}
}

test_nothing_is_seen if {
	got := found with input as namespace({"spec": {"finalizers": ["kubernetes"]}})
		with data.cluster.now as "2026-11-21T07:05:00Z"
		with data.cluster.namespaces as conditions({})
	got == {"deny": set(), "warn": {{
		"msg": "Terminating for 5 minutes, and its conditions name no cause",
		"objects": target,
		"evidence": ["deletionTimestamp 2026-11-21T07:00:00Z"],
		"steps": [{
			"kind": "mend",
			"do": "See whether kube-controller-manager runs, and in its log whether a webhook or a policy refuses its requests",
		}],
	}}}
}

test_namespace_that_is_not_being_deleted if {
	got := found with input as json.patch(namespace({}), [{"op": "remove", "path": "/request/oldObject/metadata/deletionTimestamp"}])
		with data.cluster.now as "2026-11-21T07:05:00Z"
		with data.cluster.namespaces as conditions(remaining)
	got == nothing
}

# Pods.

pod(grace, finalizers, statuses) := {
	"request": {
		"operation": "DELETE",
		"resource": {"group": "", "version": "v1", "resource": "pods"},
		"name": "web-0",
		"namespace": "demo",
		"oldObject": {
			"metadata": {"name": "web-0", "deletionTimestamp": deleted, "deletionGracePeriodSeconds": grace, "finalizers": finalizers},
			"spec": {"nodeName": "n1"},
			"status": {"containerStatuses": statuses},
		},
	},
	"ownership": {"x.io/f": {"state": "alive", "certainty": "will", "evidence": ["it runs"]}},
}

force := {
	"kind": "force",
	"do": concat(" ", [
		"Remove only the object: containers on a machine that still runs keep running, next to their replacement",
		"(of a StatefulSet, two of one identity), and volumes may stay attached",
	]),
	"action": {"verb": "delete", "objects": ["pods/web-0"], "namespace": "demo", "noWait": true, "force": true, "graceSeconds": 0},
}

still_running := [
	{"kind": "mend", "do": concat(" ", [
		"See on node n1 what keeps the containers: crictl pods --name web-0 (does the runtime answer?),",
		"journalctl -u kubelet (from verbosity 3 on it names the reason),",
		"ps -eo pid,stat,wchan:30,args | grep -E ' [DZ]' (processes that cannot be killed)",
	])},
	{"kind": "mend", "do": "Restart the container runtime there; reboot the node for processes that cannot be killed"},
	force,
]

not_cleaned_up := [
	{"kind": "mend", "do": concat(" ", [
		"See on node n1 what is left: grep /var/lib/kubelet/pods/UID /proc/mounts (volumes and mounts in them),",
		"lsattr -R /var/lib/kubelet/pods/UID/volumes (files with i or a cannot be removed),",
		"find /sys/fs/cgroup -name '*UID*' (its cgroup), journalctl -u kubelet (the reason)",
	])},
	{
		"kind": "mend",
		"do": "Unmount what is mounted there, or chattr -i -a what is immutable: the kubelet tries again within two minutes",
	},
	force,
]

stuck(stage, containers, rest, steps) := {
	"msg": sprintf("Terminating for 5 minutes past its grace period: %s", [stage]),
	"objects": [
		{"resource": "pods", "namespace": "demo", "name": "web-0"},
		{"resource": "nodes", "namespace": "", "name": "n1"},
	],
	"evidence": [
		"it should have been gone by 2026-11-21T07:00:00Z",
		sprintf("1. containers stopped: %s", [containers]),
		sprintf("2. volumes gone: %s", [rest]),
		sprintf("3. cgroup gone: %s", [rest]),
	],
	"steps": steps,
}

ended := {"name": "c", "state": {"terminated": {}}}

runs := {"name": "c", "state": {"running": {}}}

nodes := {"n1": {"ready": "True", "outOfService": false}}

test_pod_whose_containers_have_ended if {
	got := found with input as pod(30, [], [ended])
		with data.cluster.now as "2026-11-21T07:05:00Z"
		with data.cluster.nodes as nodes
	got == {
		"deny": {stuck(
			"its containers have ended, but its node has not cleaned up after them",
			"c is terminated", "only the node shows it", not_cleaned_up,
		)},
		"warn": set(),
	}
}

test_pod_whose_containers_run if {
	every statuses, told in {[ended, runs]: "c is terminated, c is running", []: "the node has reported nothing about them"} {
		got := found with input as pod(30, [], statuses)
			with data.cluster.now as "2026-11-21T07:05:00Z"
			with data.cluster.nodes as nodes
		got == {"deny": {stuck("its containers still run", told, "not begun", still_running)}, "warn": set()}
	}
}

test_pod_in_time if {
	got := found with input as pod(30, ["x.io/f"], [runs])
		with data.cluster.now as "2026-11-21T07:01:00Z"
		with data.cluster.nodes as nodes
	got == nothing
}

test_pod_on_a_node_that_is_gone if {
	got := found with input as pod(30, [], [runs])
		with data.cluster.now as "2026-11-21T07:05:00Z"
		with data.cluster.nodes as {}
	got == nothing
}

test_pod_that_its_node_has_finished_with if {
	got := found with input as pod(0, ["x.io/f"], [ended])
		with data.cluster.now as "2026-11-21T07:05:00Z"
		with data.cluster.nodes as nodes
	got == {"deny": set(), "warn": {waits(
		[{"resource": "pods", "namespace": "demo", "name": "web-0"}],
		"metadata.finalizers[0]",
		taken_out("pods/web-0", "demo"),
	)}}
}
