package termguard.orphaned_finalizer_test

import data.termguard.orphaned_finalizer as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

kiali(changes) := object.union(
	{
		"state": "absent",
		"certainty": "will",
		"owner": "Kiali operator",
		"clears": "kiali-remove playbook ran",
		"evidence": ["no Deployment kiali-operator"],
	},
	changes,
)

nobody(changes) := object.union({"state": "absent", "certainty": "will", "owner": "", "clears": ""}, changes)

behind := "what it guards and is not cleaned up stays behind for ever."

bring_back_kiali := concat(" ", [
	"Bring back Kiali operator, and the deletion finishes by itself.",
	"If it is gone for good, first clean up what the finalizer guards (kiali-remove playbook ran), then",
])

bring_back_somebody := concat(" ", [
	"Bring back what removes the finalizer, and the deletion finishes by itself.",
	"If it is gone for good, first clean up what the finalizer guards, then",
])

# The object's own finalizers.

delete_kiali(ownership) := {
	"request": {
		"operation": "DELETE",
		"resource": {"group": "kiali.io", "version": "v1alpha1", "resource": "kialis"},
		"name": "kiali",
		"namespace": "demo",
		"oldObject": {"metadata": {"name": "kiali", "finalizers": ["alive.io/f", "kiali.io/finalizer"]}},
	},
	"ownership": {"alive.io/f": {"state": "alive", "certainty": "will"}, "kiali.io/finalizer": ownership},
}

own_kiali(reason, evidence, bring_back) := {
	"msg": concat("", ["finalizer kiali.io/finalizer in metadata.finalizers is not removed: ", reason]),
	"objects": [{"resource": "kialis.kiali.io", "namespace": "demo", "name": "kiali"}],
	"evidence": evidence,
	"field": "metadata.finalizers[1]",
	"remedy": concat(" ", [
		bring_back,
		"kubectl edit kialis.kiali.io kiali -n demo and take kiali.io/finalizer out of metadata.finalizers;",
		behind,
	]),
}

kiali_is(reason) := own_kiali(reason, ["no Deployment kiali-operator"], bring_back_kiali)

nobody_is(reason) := own_kiali(reason, [], bring_back_somebody)

test_absent if {
	got := found with input as delete_kiali(kiali({}))
	got == {"deny": {kiali_is("its owner, Kiali operator, is not installed")}, "warn": set()}
}

test_down if {
	got := found with input as delete_kiali(kiali({"state": "down"}))
	got == {"deny": {kiali_is("its owner, Kiali operator, is not running")}, "warn": set()}
}

test_absent_perhaps if {
	got := found with input as delete_kiali(kiali({"certainty": "may"}))
	got == {"deny": set(), "warn": {kiali_is("its owner, Kiali operator, is not installed")}}
}

test_unknown if {
	got := found with input as delete_kiali(kiali({"state": "unknown", "certainty": "may"}))
	got == {"deny": set(), "warn": {kiali_is("whether its owner, Kiali operator, runs is unknown")}}
}

test_nobody_known_and_absent if {
	got := found with input as delete_kiali(nobody({"certainty": "may"}))
	got == {"deny": set(), "warn": {nobody_is("nothing that could remove it is running")}}
}

test_nobody_known_and_down if {
	got := found with input as delete_kiali(nobody({"state": "down"}))
	got == {"deny": {nobody_is("what removes it is not running")}, "warn": set()}
}

test_nobody_known_and_unknown if {
	got := found with input as delete_kiali(nobody({"state": "unknown"}))
	got == {"deny": set(), "warn": {nobody_is("who removes it is unknown")}}
}

test_alive if {
	got := found with input as delete_kiali(kiali({"state": "alive"}))
	got == nothing
}

test_an_update_is_not_a_delete if {
	request := json.patch(delete_kiali(kiali({})), [{"op": "replace", "path": "/request/operation", "value": "UPDATE"}])
	got := found with input as request
	got == nothing
}

# Namespaces.

delete_namespace := {
	"request": {
		"operation": "DELETE",
		"resource": {"group": "", "version": "v1", "resource": "namespaces"},
		"name": "demo",
		"namespace": "demo",
		"oldObject": {
			"metadata": {"name": "demo", "finalizers": ["example.com/f"]},
			"spec": {"finalizers": ["kubernetes", "example.com/f"]},
		},
	},
	"ownership": {"example.com/f": nobody({})},
}

test_namespace_with_the_same_finalizer_in_both_lists if {
	got := found with input as delete_namespace
	got == {
		"deny": {
			{
				"msg": "finalizer example.com/f in metadata.finalizers is not removed: nothing that could remove it is running",
				"objects": [{"resource": "namespaces", "namespace": "", "name": "demo"}],
				"evidence": [],
				"field": "metadata.finalizers[0]",
				"remedy": concat(" ", [
					bring_back_somebody,
					"kubectl edit namespaces demo and take example.com/f out of metadata.finalizers;",
					behind,
				]),
			},
			{
				"msg": "finalizer example.com/f in spec.finalizers is not removed: nothing that could remove it is running",
				"objects": [{"resource": "namespaces", "namespace": "", "name": "demo"}],
				"evidence": [],
				"field": "spec.finalizers[1]",
				"remedy": concat(" ", [
					bring_back_somebody,
					"PUT /api/v1/namespaces/demo/finalize without it, for kubectl edit on spec.finalizers is silently ignored:",
					`kubectl get namespace demo -o json | jq '.spec.finalizers -= ["example.com/f"]' |`,
					"kubectl replace --raw /api/v1/namespaces/demo/finalize -f -;",
					behind,
				]),
			},
		},
		"warn": set(),
	}
}

delete_plain_namespace := json.patch(delete_namespace, [
	{"op": "replace", "path": "/request/oldObject", "value": {"metadata": {"name": "demo"}}},
	{"op": "replace", "path": "/ownership", "value": {}},
])

content(n, verb, names, reason) := {
	"msg": sprintf("%d kialis.kiali.io %s finalizer kiali.io/finalizer: %s", [n, verb, reason]),
	"objects": [{"resource": "kialis.kiali.io", "namespace": "demo", "name": name} | some name in names],
	"evidence": ["no Deployment kiali-operator"],
	"remedy": concat(" ", [
		bring_back_kiali,
		"kubectl edit kialis.kiali.io -n demo NAME and take kiali.io/finalizer out of metadata.finalizers;",
		behind,
	]),
}

inventory(buckets) := {"demo": {"kiali.io/finalizer": {"kialis.kiali.io": buckets}}}

test_content if {
	got := found with input as delete_plain_namespace
		with data.cluster.finalized as inventory({
			"a": {"count": 2, "names": ["kiali", "kiali-b"], "ownership": kiali({})},
			"b": {"count": 1, "names": ["kiali-c"], "ownership": kiali({"state": "unknown"})},
			"c": {"count": 1, "names": ["kiali-d"], "ownership": kiali({"state": "alive"})},
		})
	got == {
		"deny": {content(2, "hold", ["kiali", "kiali-b"], "its owner, Kiali operator, is not installed")},
		"warn": {content(1, "holds", ["kiali-c"], "whether its owner, Kiali operator, runs is unknown")},
	}
}

test_content_of_another_namespace if {
	elsewhere := inventory({"a": {"count": 1, "names": ["kiali"], "ownership": kiali({})}}).demo
	got := found with input as delete_plain_namespace with data.cluster.finalized as {"other": elsewhere}
	got == nothing
}

# Evictions.

evict(ownership) := {
	"request": {
		"operation": "CREATE",
		"resource": {"group": "", "version": "v1", "resource": "pods"},
		"subResource": "eviction",
		"name": "web-0",
		"namespace": "demo",
		"object": {"kind": "Eviction"},
	},
	"ownership": {"kiali.io/finalizer": ownership},
}

test_evicted if {
	got := found with input as evict(kiali({}))
	got == {"deny": set(), "warn": {{
		"msg": "finalizer kiali.io/finalizer in metadata.finalizers is not removed: its owner, Kiali operator, is not installed",
		"objects": [{"resource": "pods", "namespace": "demo", "name": "web-0"}],
		"evidence": ["no Deployment kiali-operator"],
		"remedy": concat(" ", [
			bring_back_kiali,
			"kubectl edit pods web-0 -n demo and take kiali.io/finalizer out of metadata.finalizers;",
			behind,
		]),
	}}}
}

test_evicted_and_alive if {
	got := found with input as evict(kiali({"state": "alive"}))
	got == nothing
}
