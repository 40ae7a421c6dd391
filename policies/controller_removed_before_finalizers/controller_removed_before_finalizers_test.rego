package termguard.controller_removed_before_finalizers_test

import data.termguard.controller_removed_before_finalizers as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

delete(group, resource, namespace, name) := {"request": {
	"operation": "DELETE",
	"resource": {"group": group, "version": "v1", "resource": resource},
	"name": name,
	"namespace": namespace,
}}

delete_namespace := delete("", "namespaces", "ops", "ops")

owned(certainty) := {"state": "alive", "certainty": certainty, "owner": "X", "evidence": ["it runs"]}

bucket(certainty, total) := {"count": total, "names": ["a"], "at": [0], "ownership": owned(certainty)}

removers(end, of) := {"ops": {end: {"x.io/f": {of: {"": true}}}}}

finalized(of, bucket) := {"ops": {"x.io/f": {of: {"": bucket}}}}

spread(n) := {"widgets.x.io": {"x.io/f": {"": {"count": n, "names": ["ops"]}}}}

finding(resource, name, msg, steps) := {
	"msg": msg,
	"objects": [{"resource": resource, "namespace": object.get({"namespaces": ""}, resource, "ops"), "name": name}],
	"evidence": ["it runs"],
	"steps": steps,
}

first := [{
	"kind": "mend",
	"do": "Delete the widgets.x.io first; go on when they are gone",
	"action": {"verb": "delete", "objects": ["widgets.x.io/a"], "namespace": "ops"},
}]

goes_first := "widgets.x.io here have finalizer x.io/f, and its controller is deleted first, with the pods"

may_go_first := "widgets.x.io here have finalizer x.io/f, and its controller may be deleted first"

test_both_in_one_namespace if {
	got := found with input as delete_namespace
		with data.cluster.version as {}
		with data.cluster.removers as removers("namespaces/ops", "widgets.x.io")
		with data.cluster.finalized as finalized("widgets.x.io", bucket("will", 1))
		with data.cluster.spread as spread(1)
		with data.cluster.finalizers as {"x.io/f": {"widgets.x.io": {"": owned("will")}}}
	got == {"deny": {finding("namespaces", "ops", goes_first, first)}, "warn": set()}
}

test_too_many_to_name if {
	got := found with input as delete_namespace
		with data.cluster.version as {"podsFirst": true}
		with data.cluster.removers as removers("namespaces/ops", "widgets.x.io")
		with data.cluster.finalized as finalized("widgets.x.io", bucket("will", 9))
	got == {
		"deny": {finding("namespaces", "ops", goes_first, [object.remove(first[0], ["action"])])},
		"warn": set(),
	}
}

test_not_certain if {
	every version in [{"podsFirst": false}, {}] {
		got := found with input as delete_namespace
			with data.cluster.version as version
			with data.cluster.removers as removers("namespaces/ops", "widgets.x.io")
			with data.cluster.finalized as finalized("widgets.x.io", bucket({true: "may", false: "will"}[version == {}], 1))
		got == {"deny": set(), "warn": {finding("namespaces", "ops", may_go_first, first)}}
	}
}

test_pods_go_together if {
	got := found with input as delete_namespace
		with data.cluster.version as {}
		with data.cluster.removers as removers("namespaces/ops", "pods")
		with data.cluster.finalized as finalized("pods", bucket("will", 9))
	count(got.deny) == 0
	count(got.warn) == 1
}

test_objects_elsewhere if {
	every case in [
		["namespaces", "ops", "namespaces/ops", delete_namespace],
		["deployments.apps", "operator", "deployments.apps/operator", delete("apps", "deployments", "ops", "operator")],
		["serviceaccounts", "op", "serviceaccounts/op", delete("", "serviceaccounts", "ops", "op")],
	] {
		got := found with input as case[3]
			with data.cluster.version as {}
			with data.cluster.removers as removers(case[2], "widgets.x.io")
			with data.cluster.spread as spread(2)
			with data.cluster.finalizers as {"x.io/f": {"widgets.x.io": {"": owned("will")}}}
		got == {"deny": set(), "warn": {finding(
			case[0], case[1],
			"widgets.x.io in 2 namespaces have finalizer x.io/f, and this deletes its controller: delete those first",
			[{"kind": "mend", "do": "Delete the widgets.x.io with finalizer x.io/f first; go on when they are gone"}],
		)}}
	}
}

# Whoever does not work now never will again; what goes with it is told by another policy.
test_not_working if {
	every state in ["down", "unknown", "barred"] {
		idle := object.union(owned("may"), {"state": state})
		got := found with input as delete_namespace
			with data.cluster.version as {}
			with data.cluster.removers as removers("namespaces/ops", "widgets.x.io")
			with data.cluster.spread as spread(3)
			with data.cluster.finalized as finalized("widgets.x.io", object.union(bucket("may", 1), {"ownership": idle}))
			with data.cluster.finalizers as {"x.io/f": {"widgets.x.io": {"": idle}}}
		got == {"deny": set(), "warn": {finding(
			"namespaces", "ops",
			"widgets.x.io in 2 namespaces have finalizer x.io/f, and this deletes its controller, which does not work now",
			[{
				"kind": "mend",
				"do": concat(" ", [
					"Get its controller to work again, then delete the widgets.x.io with finalizer x.io/f;",
					"go on when they are gone",
				]),
			}],
		)}}
	}
}

test_right_of_one_not_working if {
	got := policy.warn with input as delete("rbac.authorization.k8s.io", "roles", "ops", "op")
		with data.cluster.removers as removers("roles.rbac.authorization.k8s.io/op", "widgets.x.io")
		with data.cluster.spread as spread(2)
		with data.cluster.finalizers as {"x.io/f": {"widgets.x.io": {"": object.union(owned("may"), {"state": "down"})}}}
	msg := concat("", [
		"widgets.x.io in 2 namespaces have finalizer x.io/f, ",
		"and this deletes a right of its controller, which does not work now",
	])
	{found.msg | some found in got} == {msg}
}

# What is deleted together with the controller is told by another policy; what stays is
# named, where it can be.
test_set if {
	every case in [
		[{}, [["demo", ["widgets.x.io/a", "widgets.x.io/b"]], ["ops", ["widgets.x.io/c"]]]],
		[{"demo": {"a": 0}}, [["demo", ["widgets.x.io/b"]], ["ops", ["widgets.x.io/c"]]]],
		[{"demo": {"a": -5, "b": 1}}, [["ops", ["widgets.x.io/c"]]]],
		[{"demo": {"a": 0, "b": 0}, "ops": {"c": 0}}, []],
	] {
		got := policy.warn with input as delete("apps", "deployments", "ops", "operator")
			with data.cluster.removers as removers("deployments.apps/operator", "widgets.x.io")
			with data.cluster.spread as {"widgets.x.io": {"x.io/f": {"": {"count": 2, "names": ["demo", "ops"]}}}}
			with data.cluster.finalizers as {"x.io/f": {"widgets.x.io": {"": owned("will")}}}
			with data.cluster.finalized as {
				"demo": {"x.io/f": {"widgets.x.io": {"": {"count": 2, "names": ["a", "b"]}}}},
				"ops": {"x.io/f": {"widgets.x.io": {"": {"count": 1, "names": ["c"]}}}},
			}
			with data.cluster.set as {"widgets.x.io": case[0]}
		[[step.action.namespace, step.action.objects] | some finding in got; some step in finding.steps] == case[1]
	}
}

test_rights if {
	msg := "widgets.x.io in 2 namespaces have finalizer x.io/f, and this deletes a right that its controller needs: delete those first"
	every resource, namespace in {"clusterroles": "", "clusterrolebindings": "", "roles": "ops", "rolebindings": "ops"} {
		full := sprintf("%s.rbac.authorization.k8s.io", [resource])
		got := found with input as delete("rbac.authorization.k8s.io", resource, namespace, "op")
			with data.cluster.version as {}
			with data.cluster.removers as {namespace: {sprintf("%s/op", [full]): {"x.io/f": {"widgets.x.io": {"": true}}}}}
			with data.cluster.spread as spread(2)
			with data.cluster.finalizers as {"x.io/f": {"widgets.x.io": {"": owned("will")}}}
		got == {"deny": set(), "warn": {{
			"msg": msg,
			"objects": [{"resource": full, "namespace": namespace, "name": "op"}],
			"evidence": ["it runs"],
			"steps": [{"kind": "mend", "do": "Delete the widgets.x.io with finalizer x.io/f first; go on when they are gone"}],
		}}}
	}
}

# An owner is known by its kind.
delete_owner(options) := {"request": object.union(delete("y.io", "clusters", "ops", "it").request, {
	"kind": {"group": "y.io", "version": "v1", "kind": "Cluster"},
	"options": options,
})}

test_owner if {
	every options in [{}, {"propagationPolicy": "Background"}, {"propagationPolicy": "Foreground"}] {
		got := found with input as delete_owner(options)
			with data.cluster.version as {}
			with data.cluster.removers as removers("Cluster.y.io/it", "widgets.x.io")
			with data.cluster.spread as spread(1)
			with data.cluster.finalizers as {"x.io/f": {"widgets.x.io": {"": owned("will")}}}
		got == {"deny": set(), "warn": {finding(
			"clusters.y.io", "it",
			"widgets.x.io in 1 namespace have finalizer x.io/f, and this deletes its controller: delete those first",
			[{"kind": "mend", "do": "Delete the widgets.x.io with finalizer x.io/f first; go on when they are gone"}],
		)}}
	}
}

test_orphans if {
	every case in [
		["Cluster.y.io/it", delete_owner({"propagationPolicy": "Orphan"})],
		["deployments.apps/operator", {"request": object.union(
			delete("apps", "deployments", "ops", "operator").request,
			{"options": {"propagationPolicy": "Orphan"}},
		)}],
	] {
		got := found with input as case[1]
			with data.cluster.removers as removers(case[0], "widgets.x.io")
			with data.cluster.spread as spread(1)
			with data.cluster.finalizers as {"x.io/f": {"widgets.x.io": {"": owned("will")}}}
		got == nothing
	}
}

delete_holder(options) := {
	"request": object.union(delete("x.io", "widgets", "ops", "a").request, {
		"kind": {"group": "x.io", "version": "v1", "kind": "Widget"},
		"options": options,
		"oldObject": {"metadata": {"finalizers": ["x.io/f"]}},
	}),
	"ownership": {"x.io/f": owned("will")},
}

test_own_finalizer if {
	every case in [
		["Background", set()],
		["Foreground", {finding(
			"widgets.x.io", "a",
			"in the foreground, the controller that removes its finalizer x.io/f goes first: it owns it",
			[{
				"kind": "mend",
				"do": "Delete it in the background: its controller then goes after it",
				"action": {"verb": "delete", "objects": ["widgets.x.io/a"], "namespace": "ops", "noWait": true, "cascade": "background"},
			}],
		)}],
	] {
		got := found with input as delete_holder({"propagationPolicy": case[0]})
			with data.cluster.version as {}
			with data.cluster.removers as removers("Widget.x.io/a", "widgets.x.io")
			with data.cluster.finalized as finalized("widgets.x.io", bucket("will", 1))
			with data.cluster.spread as spread(1)
			with data.cluster.finalizers as {"x.io/f": {"widgets.x.io": {"": owned("will")}}}
		got == {"deny": set(), "warn": case[1]}
	}
}

# Of a core kind, no group stands in the name.
test_owner_of_a_core_kind if {
	request := object.union(delete("", "configmaps", "ops", "it").request, {"kind": {"group": "", "kind": "ConfigMap"}})
	got := found with input as {"request": request}
		with data.cluster.version as {}
		with data.cluster.removers as removers("ConfigMap/it", "widgets.x.io")
		with data.cluster.spread as spread(1)
		with data.cluster.finalizers as {"x.io/f": {"widgets.x.io": {"": owned("will")}}}
	count(got.warn) == 1
}

test_something_else_goes if {
	got := found with input as delete("", "configmaps", "ops", "x")
		with data.cluster.removers as removers("deployments.apps/operator", "widgets.x.io")
		with data.cluster.spread as spread(2)
	got == nothing
}
