package termguard.lib.finalizers_test

import data.termguard.lib.finalizers

# The last finalizer is removed first: each removal changes the indexes of those after it.
test_taking_out if {
	finalizers.taking_out(["pods/a", "pods/b"], "demo", {[0, "x.io/f"], [2, "y.io/g"]}) == {
		"verb": "patch",
		"objects": ["pods/a", "pods/b"],
		"namespace": "demo",
		"type": "json",
		"patch": [
			{"op": "test", "path": "/metadata/finalizers/2", "value": "y.io/g"},
			{"op": "remove", "path": "/metadata/finalizers/2"},
			{"op": "test", "path": "/metadata/finalizers/0", "value": "x.io/f"},
			{"op": "remove", "path": "/metadata/finalizers/0"},
		],
	}
}

test_as_told if {
	finalizers.as_told({"hearsay": "a Lease"}, [{"do": "x"}]) == [{"do": "x", "hearsay": "a Lease"}]
}

# The names are limited.
test_going_first if {
	finalizers.going_first("demo", "x.io/f", "widgets.x.io", {"names": ["a"], "count": 2}) == [{
		"kind": "mend",
		"do": "Delete the widgets.x.io first; go on when they are gone",
	}]
}

# An object that another controls is not deleted first: the root is, through several owners.
test_from_the_root if {
	controllers := {
		"machines.x.io": {"demo/m": {"resource": "clusters.x.io", "namespace": "demo", "name": "c"}},
		"pods": {
			"demo/p": {"resource": "machines.x.io", "namespace": "demo", "name": "m"},
			"demo/q": {"resource": "", "namespace": "demo", "name": "q"},
		},
		"claims.x.io": {"demo/m": {"resource": "clusters.x.io", "namespace": "demo", "name": "c"}},
	}
	first := finalizers.going_first("demo", "x.io/f", "pods", {"names": ["p"], "count": 1}) with data.cluster.controllers as controllers
	[[s.do, s.action.objects] | some s in first] == [[
		"Delete the clusters.x.io first: the pods go along; go on when both are gone",
		["clusters.x.io/c"],
	]]
	unknown := finalizers.going_first("demo", "x.io/f", "pods", {"names": ["q"], "count": 1}) with data.cluster.controllers as controllers
	unknown == [{
		"kind": "mend",
		"do": "Delete what the pods were made for first, as their owner references say: they go along",
	}]
	leaving := {"x.io/f": {"pods": {"objects": [{"namespace": "demo", "name": "p"}]}}}
	going := finalizers.going_first("demo", "x.io/f", "pods", {"names": ["p"], "count": 1}) with data.cluster.controllers as controllers
		with data.cluster.terminating as leaving
	going[0].action.objects == ["pods/p"]
}

# Nor is a Secret with the finalizer of a custom resource.
test_of_custom_resources if {
	cluster := {
		"crds": {"widgets.x.io": {}},
		"finalizers": {"x.io/f": {"widgets.x.io": {}, "secrets": {}}},
		"finalized": {"demo": {"x.io/f": {
			"widgets.x.io": {"s": {"names": ["w"], "count": 1}},
			"secrets": {"s": {"names": ["a"], "count": 1}},
		}}},
	}
	first := finalizers.going_first("demo", "x.io/f", "secrets", {"names": ["a"], "count": 1}) with data.cluster as cluster
	[s.action.objects | some s in first] == [["widgets.x.io/w"]]
	elsewhere := finalizers.going_first("shop", "x.io/f", "secrets", {"names": ["a"], "count": 1}) with data.cluster as cluster
	[s.do | some s in elsewhere] == ["Delete what the secrets were made for first, as their owner references say: they go along"]
}
