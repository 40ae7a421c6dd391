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

# Instances with one signature each, the first in the first place.
held(owners) := {
	"finalizers": {"kiali.io/finalizer": {"kialis.kiali.io": owners, "others.kiali.io": {"": owned("absent", "will")}}},
	"spread": {
		"kialis.kiali.io": {"kiali.io/finalizer": {signature: {"count": 1, "names": ["demo"]} | some signature, _ in owners}},
		"others.kiali.io": {"kiali.io/finalizer": {"": {"count": 1, "names": ["demo"]}}},
	},
	"finalized": {"demo": {"kiali.io/finalizer": {"kialis.kiali.io": {signature: bucket |
		some signature, owner in owners
		bucket := {"count": 1, "names": [concat("", ["it", signature])], "at": [0], "ownership": owner}
	}}}},
}

finding(words, evidence, objects) := {
	"msg": sprintf("instances have finalizer kiali.io/finalizer, and its controller is %s", [words]),
	"objects": [{
		"resource": "customresourcedefinitions.apiextensions.k8s.io",
		"namespace": "",
		"name": "kialis.kiali.io",
	}],
	"evidence": evidence,
	"steps": [
		{"kind": "mend", "do": "Bring back Kiali operator, and the deletion finishes by itself"},
		{
			"kind": "remove",
			"do": concat(" ", [
				"If it is gone for good, clean up what the finalizer protects, then remove kiali.io/finalizer:",
				"what nobody cleaned up stays behind",
			]),
			"action": data.termguard.lib.finalizers.taking_out(objects, "demo", [[0, "kiali.io/finalizer"]]),
		},
	],
}

test_absent if {
	got := found with input as delete_crd
		with data.cluster.finalizers as held({"": owned("absent", "will")}).finalizers
		with data.cluster.spread as held({"": owned("absent", "will")}).spread
		with data.cluster.finalized as held({"": owned("absent", "will")}).finalized
	got == {"deny": {finding("not installed", ["absent"], ["kialis.kiali.io/it"])}, "warn": set()}
}

test_absent_perhaps if {
	got := found with input as delete_crd
		with data.cluster.finalizers as held({"": owned("absent", "may")}).finalizers
		with data.cluster.spread as held({"": owned("absent", "may")}).spread
		with data.cluster.finalized as held({"": owned("absent", "may")}).finalized
	got == {"deny": set(), "warn": {json.patch(finding("not found", ["absent"], ["kialis.kiali.io/it"]), [{
		"op": "replace", "path": "/steps/0/do",
		"value": "Find out whether Kiali operator runs, and start it if not",
	}])}}
}

test_down_for_the_moment if {
	got := found with input as delete_crd
		with data.cluster.finalizers as held({"": owned("down", "may")}).finalizers
		with data.cluster.spread as held({"": owned("down", "may")}).spread
		with data.cluster.finalized as held({"": owned("down", "may")}).finalized
	got == {"deny": set(), "warn": {finding("not running", ["down"], ["kialis.kiali.io/it"])}}
}

test_unknown if {
	got := found with input as delete_crd
		with data.cluster.finalizers as held({"": owned("unknown", "may")}).finalizers
		with data.cluster.spread as held({"": owned("unknown", "may")}).spread
		with data.cluster.finalized as held({"": owned("unknown", "may")}).finalized
	got == {"deny": set(), "warn": {json.patch(finding("not known", ["unknown"], ["kialis.kiali.io/it"]), [{
		"op": "replace", "path": "/steps/0/do",
		"value": "Find out whether Kiali operator runs, and start it if not",
	}])}}
}

test_one_finding_for_each_class if {
	owners := {"a": owned("alive", "will"), "b": owned("down", "may"), "c": owned("absent", "will"), "d": owned("unknown", "may")}
	both := ["kialis.kiali.io/itb", "kialis.kiali.io/itd"]
	got := found with input as delete_crd
		with data.cluster.finalizers as held(owners).finalizers
		with data.cluster.spread as held(owners).spread
		with data.cluster.finalized as held(owners).finalized
	got == {"deny": {finding("not installed", ["absent"], ["kialis.kiali.io/itc"])}, "warn": {finding("not running", ["down"], both)}}
}

test_alive if {
	got := found with input as delete_crd
		with data.cluster.finalizers as held({"": owned("alive", "will")}).finalizers
		with data.cluster.spread as held({"": owned("alive", "will")}).spread
		with data.cluster.finalized as held({"": owned("alive", "will")}).finalized
	got == nothing
}

test_nothing_served if {
	cases := {
		"the definition serves no version: nobody can see whether its instances have finalizers, or remove them": [
			{"name": "v2", "served": false, "storage": false},
			{"name": "v1", "served": false, "storage": true},
		],
		"": [{"name": "v2", "served": true, "storage": false}, {"name": "v1", "served": false, "storage": true}],
	}
	every msg, versions in cases {
		got := found with input as delete_crd with data.cluster.crds as {"kialis.kiali.io": {"versions": versions}}
		got.deny == set()
		concat("", {finding.msg | some finding in got.warn}) == msg
	}
}

test_serves_what_is_stored if {
	versions := [{"name": "v2", "served": false, "storage": false}, {"name": "v1", "served": false, "storage": true}]
	got := policy.warn with input as delete_crd with data.cluster.crds as {"kialis.kiali.io": {"versions": versions}}
	[step.action | some finding in got; some step in finding.steps] == [{
		"verb": "patch",
		"objects": ["customresourcedefinitions/kialis.kiali.io"],
		"type": "json",
		"patch": [{"op": "replace", "path": "/spec/versions/1/served", "value": true}],
	}]
	[finding.manifest.severity | some finding in got] == ["low"]
}

test_update if {
	update := {"request": object.union(delete_crd.request, {"operation": "UPDATE"})}
	got := found with input as update
		with data.cluster.finalizers as held({"": owned("absent", "will")}).finalizers
		with data.cluster.spread as held({"": owned("absent", "will")}).spread
		with data.cluster.finalized as held({"": owned("absent", "will")}).finalized
	got == nothing
}
