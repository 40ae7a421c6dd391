package termguard.storage_in_use_test

import data.termguard.storage_in_use as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

# A claim.

delete_claim(finalizers) := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
	"name": "data",
	"namespace": "demo",
	"oldObject": {"metadata": {"name": "data", "finalizers": finalizers}},
}}

protected := delete_claim(["kubernetes.io/pvc-protection"])

used(n, names) := {"claims": {"demo": {"data": {"count": n, "names": names}}}}

finding(msg, names, evidence) := {
	"msg": msg,
	"objects": array.concat(
		[{"resource": "persistentvolumeclaims", "namespace": "demo", "name": "data"}],
		[{"resource": "pods", "namespace": "demo", "name": name} | some name in names],
	),
	"evidence": evidence,
	"steps": [
		{
			"kind": "remove",
			"do": "Delete the pods that use it, best by way of the workload that makes them: the claim then goes by itself",
			"action": {
				"verb": "delete",
				"objects": [sprintf("pods/%s", [name]) | some name in names],
				"namespace": "demo",
				"noWait": true,
			},
		},
		unprotect(
			"persistentvolumeclaims/data",
			"demo",
			"kubernetes.io/pvc-protection",
			"the claim then goes under its pods, which may lose data",
		),
	],
}

unprotect(holder, ns, finalizer, price) := {
	"kind": "force",
	"do": sprintf("Remove finalizer %s: %s", [finalizer, price]),
	"action": data.termguard.lib.finalizers.taking_out([holder], ns, [[0, finalizer]]),
}

test_used_by_a_pod if {
	got := found with input as protected
		with data.cluster.storage as used(1, ["web-0"])
		with data.cluster.pods as {"demo": {"web-0": {"phase": "Running"}}}
	got == {
		"deny": {finding("1 pod uses this claim, which stays Terminating until it is gone", ["web-0"], ["pod web-0 is Running"])},
		"warn": set(),
	}
}

test_used_by_many if {
	got := found with input as protected
		with data.cluster.storage as used(9, ["web-0", "web-1"])
		with data.cluster.pods as {"demo": {
			"web-0": {"phase": "Succeeded", "deletionTimestamp": "2026-11-21T07:00:00Z"},
			"web-1": {"phase": "Failed", "deletionTimestamp": "2026-11-21T07:00:00Z"},
		}}
	got == {
		"deny": {finding(
			"9 pods use this claim, which stays Terminating until they are gone",
			["web-0", "web-1"],
			[
				"pod web-0 is Succeeded: it holds the claim until it is deleted",
				"pod web-1 is Failed: it holds the claim until it is deleted",
			],
		)},
		"warn": set(),
	}
}

test_used_by_pods_that_are_being_deleted if {
	got := found with input as protected
		with data.cluster.storage as used(1, ["web-0"])
		with data.cluster.pods as {"demo": {"web-0": {"phase": "Running", "deletionTimestamp": "2026-11-21T07:00:00Z"}}}
	got == {
		"deny": set(),
		"warn": {finding("1 pod uses this claim, which stays Terminating until it is gone", ["web-0"], ["pod web-0 is Running"])},
	}
}

test_claim_that_nothing_uses if {
	got := found with input as protected with data.cluster.storage as {"claims": {"demo": {"other": {"count": 1, "names": ["web-0"]}}}}
	got == nothing
}

test_claim_without_protection if {
	got := found with input as delete_claim([]) with data.cluster.storage as used(1, ["web-0"])
	got == nothing
}

test_within_a_namespace_the_pods_go_first if {
	got := found with input as {"request": {
		"operation": "DELETE",
		"resource": {"group": "", "version": "v1", "resource": "namespaces"},
		"name": "demo",
		"namespace": "demo",
	}}
		with data.cluster.storage as used(1, ["web-0"])
	got == nothing
}

# A volume.

delete_volume(finalizers, phase, spec) := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "persistentvolumes"},
	"name": "pv-1",
	"oldObject": {"metadata": {"name": "pv-1", "finalizers": finalizers}, "spec": spec, "status": {"phase": phase}},
}}

bound(claims, steps) := {
	"msg": "this volume is bound, and stays Terminating until its claim is deleted",
	"objects": array.concat([{"resource": "persistentvolumes", "namespace": "", "name": "pv-1"}], claims),
	"evidence": ["status.phase Bound, finalizer kubernetes.io/pv-protection"],
	"field": "status.phase",
	"steps": [
		object.union(
			{"kind": "remove", "do": "Delete the pods that use its claim, then the claim: the volume then goes by itself"},
			steps,
		),
		unprotect("persistentvolumes/pv-1", "", "kubernetes.io/pv-protection", "the claim is then Lost, and its pods are without their data"),
	],
}

protection := ["kubernetes.io/pv-protection"]

test_bound_volume if {
	got := found with input as delete_volume(protection, "Bound", {"claimRef": {"namespace": "demo", "name": "data"}})
	got == {
		"deny": {bound(
			[{"resource": "persistentvolumeclaims", "namespace": "demo", "name": "data"}],
			{"action": {"verb": "delete", "objects": ["persistentvolumeclaims/data"], "namespace": "demo", "noWait": true}},
		)},
		"warn": set(),
	}
}

test_bound_volume_without_a_reference if {
	got := found with input as delete_volume(protection, "Bound", {})
	got == {"deny": {bound([], {})}, "warn": set()}
}

test_volume_that_is_free if {
	every request in [
		delete_volume(protection, "Released", {}),
		delete_volume(protection, "Available", {}),
		delete_volume([], "Bound", {}),
	] {
		got := found with input as request
		got == nothing
	}
}
