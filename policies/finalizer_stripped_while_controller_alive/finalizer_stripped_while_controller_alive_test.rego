package termguard.finalizer_stripped_while_controller_alive_test

import data.termguard.finalizer_stripped_while_controller_alive as policy

kiali(changes) := object.union(
	{
		"state": "alive",
		"certainty": "will",
		"owner": "Kiali operator",
		"clears": "kiali-remove playbook ran",
		"evidence": ["Deployment ops/kiali-operator has 1 ready pod"],
	},
	changes,
)

edit(user, left, ownership) := {
	"request": {
		"operation": "UPDATE",
		"resource": {"group": "kiali.io", "version": "v1alpha1", "resource": "kialis"},
		"name": "kiali",
		"namespace": "demo",
		"userInfo": {"username": user},
		"oldObject": {"metadata": {"name": "kiali", "finalizers": ["x.io/f", "kiali.io/finalizer"]}},
		"object": {"metadata": left},
	},
	"ownership": {"kiali.io/finalizer": ownership},
}

finding(runs, evidence, who, clears) := {
	"msg": sprintf("finalizer kiali.io/finalizer is removed by hand while %s: what it protects is left behind", [runs]),
	"objects": [{"resource": "kialis.kiali.io", "namespace": "demo", "name": "kiali"}],
	"evidence": evidence,
	"field": "metadata.finalizers[1]",
	"steps": [
		{
			"kind": "mend",
			"do": sprintf("Leave kiali.io/finalizer in place, and look at the log of %s and at the events of the object", [who]),
		},
		{
			"kind": "force",
			"do": sprintf("Remove it, and do by hand what its owner does%s: nothing else will", [clears]),
		},
	],
}

by_hand := finding(
	"its owner, Kiali operator, runs",
	["Deployment ops/kiali-operator has 1 ready pod"],
	"Kiali operator",
	" (kiali-remove playbook ran)",
)

test_taken_out_by_a_person if {
	every left in [{"name": "kiali"}, {"finalizers": []}, {"finalizers": ["x.io/f"]}] {
		got := policy.warn with input as edit("ada", left, kiali({}))
		got == {by_hand}
	}
}

test_owner_without_a_name if {
	got := policy.warn with input as edit("ada", {}, {"state": "alive", "certainty": "will"})
	got == {finding("its owner runs", [], "its owner", "")}
}

test_owner_that_does_not_run if {
	every state in ["down", "absent", "unknown"] {
		got := policy.warn with input as edit("ada", {}, kiali({"state": state}))
		got == set()
	}
}

test_taken_out_by_software if {
	every user in ["system:serviceaccount:ops:kiali-operator", "system:kube-controller-manager"] {
		got := policy.warn with input as edit(user, {}, kiali({}))
		got == set()
	}
}

test_left_in_place if {
	got := policy.warn with input as edit("ada", {"finalizers": ["kiali.io/finalizer"]}, kiali({}))
	got == set()
}

test_of_the_spec_of_a_namespace if {
	got := policy.warn with input as {
		"request": {
			"operation": "UPDATE",
			"resource": {"group": "", "version": "v1", "resource": "namespaces"},
			"subResource": "finalize",
			"name": "demo",
			"namespace": "demo",
			"oldObject": {"metadata": {"name": "demo"}, "spec": {"finalizers": ["kubernetes", "kiali.io/finalizer"]}},
			"object": {"metadata": {"name": "demo"}},
		},
		"ownership": {"kiali.io/finalizer": kiali({})},
	}
	got == {object.union(
		by_hand,
		{"objects": [{"resource": "namespaces", "namespace": "", "name": "demo"}], "field": "spec.finalizers[1]"},
	)}
}
