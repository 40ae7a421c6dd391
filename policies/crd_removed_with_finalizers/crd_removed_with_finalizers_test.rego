package termguard.crd_removed_with_finalizers_test

import data.termguard.crd_removed_with_finalizers as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

delete_crd := {"request": {
	"operation": "DELETE",
	"resource": {"group": "apiextensions.k8s.io", "version": "v1", "resource": "customresourcedefinitions"},
	"name": "kialis.kiali.io",
}}

owned(state, certainty) := {"state": state, "certainty": certainty, "owner": "Kiali operator", "evidence": [state]}

held(owners) := {"kiali.io/finalizer": {"kialis.kiali.io": owners, "others.kiali.io": {"": owned("absent", "will")}}}

finding(words, evidence) := {
	"msg": sprintf("instances hold finalizer kiali.io/finalizer, and what removes it is %s", [words]),
	"objects": [{
		"resource": "customresourcedefinitions.apiextensions.k8s.io",
		"namespace": "",
		"name": "kialis.kiali.io",
	}],
	"evidence": evidence,
}

test_absent if {
	got := found with input as delete_crd with data.cluster.finalizers as held({"": owned("absent", "will")})
	got == {"deny": {finding("not installed", ["absent"])}, "warn": set()}
}

test_down_for_the_moment if {
	got := found with input as delete_crd with data.cluster.finalizers as held({"": owned("down", "may")})
	got == {"deny": set(), "warn": {finding("not running", ["down"])}}
}

test_unknown if {
	got := found with input as delete_crd with data.cluster.finalizers as held({"": owned("unknown", "may")})
	got == {"deny": set(), "warn": {finding("not known", ["unknown"])}}
}

test_the_worst_counts if {
	owners := {"a": owned("alive", "will"), "b": owned("down", "may"), "c": owned("absent", "will")}
	got := found with input as delete_crd with data.cluster.finalizers as held(owners)
	got == {"deny": {finding("not installed", ["absent"])}, "warn": set()}
}

test_alive if {
	got := found with input as delete_crd with data.cluster.finalizers as held({"": owned("alive", "will")})
	got == nothing
}

test_update if {
	update := {"request": object.union(delete_crd.request, {"operation": "UPDATE"})}
	got := found with input as update with data.cluster.finalizers as held({"": owned("absent", "will")})
	got == nothing
}
