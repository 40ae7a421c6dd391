package termguard.foreground_deletion_blocked_test

import data.termguard.foreground_deletion_blocked as policy
import data.termguard.lib.steps

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

delete_web(options, finalizers) := {"request": {
	"operation": "DELETE",
	"resource": {"group": "apps", "version": "v1", "resource": "deployments"},
	"name": "web",
	"namespace": "demo",
	"oldObject": {"metadata": {"name": "web", "uid": "deployment", "finalizers": finalizers}},
	"options": options,
}}

in_foreground := delete_web({"propagationPolicy": "Foreground"}, [])

# A dependent with a finalizer.

owners := {
	"deployment": {"dependents": {"replicaset": true}},
	"replicaset": {"finalized": {"demo": {"x.io/f": {"pods": {"owners=ReplicaSet.apps": {"count": 2, "names": ["a", "b"], "at": [0, 0]}}}}}},
}

finalizers(ownership) := {"x.io/f": {"pods": {"owners=ReplicaSet.apps": ownership}}}

leave(dependents) := {
	"kind": "force",
	"do": sprintf("Delete in the background: then the %s Terminating", [dependents]),
	"action": {"verb": "delete", "objects": ["deployments.apps/web"], "namespace": "demo", "noWait": true, "cascade": "background"},
}

guarded(reason, evidence, who) := {
	"msg": sprintf("foreground deletion waits for 2 pods with finalizer x.io/f: %s", [reason]),
	"objects": [{"resource": "pods", "namespace": "demo", "name": name} | some name in ["a", "b"]],
	"evidence": evidence,
	"steps": [
		{"kind": "mend", "do": sprintf("Bring back %s, and the deletion finishes by itself", [who])},
		{
			"kind": "remove",
			"do": concat(" ", [
				"If it is gone for good, clean up what the finalizer protects, then remove x.io/f:",
				"what nobody cleaned up stays behind",
			]),
			"action": data.termguard.lib.finalizers.taking_out(["pods/a", "pods/b"], "demo", [[0, "x.io/f"]]),
		},
		leave("dependent alone stays"),
	],
}

test_finalizer_that_nobody_removes if {
	every request in [in_foreground, delete_web({}, ["foregroundDeletion"])] {
		got := found with input as request
			with data.cluster.owners as owners
			with data.cluster.finalizers as finalizers({"state": "absent", "certainty": "will", "owner": "X", "evidence": ["no X"]})
		got == {"deny": {guarded("its owner, X, is not installed", ["no X"], "X")}, "warn": set()}
	}
}

test_finalizer_of_somebody_unknown if {
	got := found with input as in_foreground
		with data.cluster.owners as owners
		with data.cluster.finalizers as finalizers({"state": "unknown", "certainty": "may"})
	got == {"deny": set(), "warn": {json.patch(guarded("its controller is unknown", [], ""), [{
		"op": "replace", "path": "/steps/0/do",
		"value": "Find out whether the controller that removes the finalizer runs, and start it if not",
	}])}}
}

test_finalizer_whose_owner_runs if {
	got := found with input as in_foreground
		with data.cluster.owners as owners
		with data.cluster.finalizers as finalizers({"state": "alive", "certainty": "will"})
	got == nothing
}

test_only_in_the_foreground if {
	every policy_of_request in ["Background", "Orphan", "foreground", "", 7, null] {
		got := found with input as delete_web({"propagationPolicy": policy_of_request}, ["x.io/g"])
			with data.cluster.owners as owners
			with data.cluster.finalizers as finalizers({"state": "absent", "certainty": "will"})
		got == nothing
	}
}

# A pod of a node that is not ready.

stranded := {
	"deployment": {"dependents": {"replicaset": true}},
	"replicaset": {"pods": {"demo": {"n1": {"count": 1, "names": ["a"]}}}},
}

node(changes) := {"n1": object.union({"ready": "Unknown", "reason": "R", "message": "M", "outOfService": false}, changes)}

waits(certainty, ready) := {
	"msg": sprintf("foreground deletion waits for 1 pod that %s stay: node n1 is not ready (R)", [certainty]),
	"objects": [{"resource": "pods", "namespace": "demo", "name": "a"}],
	"evidence": [sprintf("node n1 has Ready=%s, R: M", [ready])],
	"steps": array.concat(steps.pods_off("n1", "demo", ["a"]), [leave("pods alone stay")]),
}

test_pod_of_a_silent_node if {
	got := found with input as in_foreground
		with data.cluster.owners as stranded
		with data.cluster.notReady as node({})
	got == {"deny": {waits("will", "Unknown")}, "warn": set()}
}

test_pod_of_a_node_in_trouble if {
	got := found with input as in_foreground
		with data.cluster.owners as stranded
		with data.cluster.notReady as node({"ready": "False"})
	got == {"deny": set(), "warn": {waits("may", "False")}}
}

test_pod_that_goes_all_the_same if {
	every broken in [
		{},
		node({"outOfService": true}),
		node({"ready": "False", "message": "cni plugin not initialized"}),
	] {
		got := found with input as in_foreground
			with data.cluster.owners as stranded
			with data.cluster.notReady as broken
		got == nothing
	}
}
