package termguard.budget_never_allows_test

import data.termguard.budget_never_allows as policy

asked(operation, spec) := {"request": {
	"operation": operation,
	"resource": {"group": "policy", "version": "v1", "resource": "poddisruptionbudgets"},
	"name": "web",
	"namespace": "shop",
	"object": {"spec": spec},
}}

finding(field, why, evidence) := {
	"msg": sprintf("PodDisruptionBudget web allows no eviction, ever: %s, so a drain of a node with such a pod does not end", [why]),
	"objects": [{"resource": "poddisruptionbudgets.policy", "namespace": "shop", "name": "web"}],
	"evidence": evidence,
	"field": field,
}

found(spec) := got if {
	got := policy.warn with input as asked("CREATE", spec) with data.cluster as {}
}

counted(spec, expected, needed) := got if {
	got := policy.warn with input as asked("CREATE", spec)
		with data.cluster.budgets as {"shop": {"web": {"allowed": 0, "healthy": expected, "needed": needed, "expected": expected}}}
}

test_none_may_be_missing if {
	every value in [0, "0", "0%"] {
		found({"maxUnavailable": value}) == {finding("spec.maxUnavailable", "maxUnavailable is 0", [])}
	}
}

test_all_are_kept if {
	found({"minAvailable": "100%"}) == {finding("spec.minAvailable", "minAvailable is all of its pods", [])}
}

test_as_many_as_there_are if {
	counted({"minAvailable": 2}, 2, 2) == {finding("spec.minAvailable", "minAvailable is all of its pods", ["it selects 2 pods, and keeps 2"])}
}

test_one_more if {
	counted({"minAvailable": 2}, 3, 2) == set()
}

test_nobody_knows_how_many if {
	found({"minAvailable": 1}) == set()
	counted({"minAvailable": 1}, 0, 1) == set()
}

test_one_may_be_missing if {
	found({"maxUnavailable": 1}) == set()
}

test_deleted if {
	got := policy.warn with input as asked("DELETE", {"maxUnavailable": 0}) with data.cluster as {}
	got == set()
}

# Where an autoscaler runs no more pods than the budget keeps.
autoscaled(spec) := got if {
	got := policy.warn with input as asked("CREATE", spec)
		with data.cluster.budgets as {"shop": {"web": {
			"allowed": 0, "healthy": 2, "needed": 2,
			"expected": 2, "autoscaled": true,
		}}}
}

test_autoscaled if {
	evidence := ["it selects 2 pods, and keeps 2"]
	autoscaled({"minAvailable": "100%"}) == {finding("spec.minAvailable", "minAvailable is all of its pods", evidence)}
	some one in autoscaled({"minAvailable": 2})
	contains(one.msg, "allows no eviction while its autoscaler runs no more than it must: minAvailable is all")
}
