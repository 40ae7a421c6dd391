package termguard.lib.finalizers_test

import data.termguard.lib.finalizers

# The last finalizer is removed first: each removal changes the indexes of those after it.
test_removing if {
	finalizers.removing(["pods/a", "pods/b"], "demo", {[0, "x.io/f"], [2, "y.io/g"]}) == {
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

test_with_source if {
	finalizers.with_source({"hearsay": "a Lease"}, [{"do": "x"}]) == [{"do": "x", "hearsay": "a Lease"}]
}

# The names are limited.
test_going_first if {
	finalizers.going_first("demo", "x.io/f", "widgets.x.io", {"names": ["a"], "count": 2}) == [{
		"kind": "mend",
		"do": "Delete the widgets.x.io first; continue after they are deleted",
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
		"Delete the clusters.x.io first, and the pods with them; continue after both are deleted",
		["clusters.x.io/c"],
	]]
	unknown := finalizers.going_first("demo", "x.io/f", "pods", {"names": ["q"], "count": 1}) with data.cluster.controllers as controllers
	unknown == [{
		"kind": "mend",
		"do": "First delete the owners of the pods, named in their owner references: they are deleted with them",
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
	[s.do | some s in elsewhere] == ["First delete the owners of the secrets, named in their owner references: they are deleted with them"]
}
