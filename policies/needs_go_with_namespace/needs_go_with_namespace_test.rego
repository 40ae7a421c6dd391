package termguard.needs_go_with_namespace_test

import data.termguard.needs_go_with_namespace as policy

found := policy.warn

nothing := set()

delete_namespace := {"request": {"operation": "DELETE", "resource": {"group": "", "resource": "namespaces"}, "name": "demo"}}

alive := {"state": "alive", "certainty": "will", "owner": "gadgeteer", "evidence": ["Deployment ops/gadgeteer has ready pods"]}

facts(ownership, states) := {
	"finalized": {"demo": {"x.io/need": {"gadgets.x.io": {"": {"count": 2, "names": ["g", "h"], "at": [0, 0], "ownership": ownership}}}}},
	"needs": {"demo": {"x.io/need": {"gadgets.x.io": {"secrets": states}}}},
}

group(names, needed) := {"count": count(names), "names": names, "needed": {"count": count(needed), "names": needed}}

ask(input_document, cluster) := got if {
	got := found with input as input_document with data.cluster as cluster
}

test_one if {
	ask(delete_namespace, facts(alive, {"goes": group(["g"], ["creds"])})) == {{
		"msg": concat("", [
			"1 gadgets.x.io has finalizer x.io/need: its owner, gadgeteer, needs secrets creds to clear it, ",
			"which goes with the namespace and may go first",
		]),
		"objects": [
			{"resource": "gadgets.x.io", "namespace": "demo", "name": "g"},
			{"resource": "secrets", "namespace": "demo", "name": "creds"},
		],
		"evidence": ["no finalizer keeps secrets creds", "Deployment ops/gadgeteer has ready pods"],
		"steps": [{
			"kind": "mend", "do": "Delete the gadgets.x.io first; go on when they are gone",
			"action": {"verb": "delete", "objects": ["gadgets.x.io/g"], "namespace": "demo"},
		}],
	}}
}

test_several if {
	some finding in ask(delete_namespace, facts(object.remove(alive, ["owner"]), {"goes": group(["g", "h"], ["a", "b"])}))
	finding.msg == concat("", [
		"2 gadgets.x.io have finalizer x.io/need: its owner needs 2 secrets to clear it, ",
		"which go with the namespace and may go first",
	])
}

test_near_misses if {
	every states in [{"hangs": group(["g"], ["creds"])}, {"may": group(["g"], ["creds"])}, {}] {
		ask(delete_namespace, facts(alive, states)) == nothing
	}
	every ownership in [object.union(alive, {"state": "down"}), object.union(alive, {"state": "unasked"})] {
		ask(delete_namespace, facts(ownership, {"goes": group(["g"], ["creds"])})) == nothing
	}
}

test_other_requests if {
	every changed in [{"name": "other"}, {"subResource": "finalize"}] {
		ask(object.union(delete_namespace, {"request": changed}), facts(alive, {"goes": group(["g"], ["creds"])})) == nothing
	}
}

test_rights if {
	bound := object.union(alive, {"bindings": ["op"]})
	ask(delete_namespace, by_rights(bound)) == {{
		"msg": concat("", [
			"2 gadgets.x.io have finalizer x.io/need: its owner, gadgeteer, may remove it only by RoleBinding op, ",
			"which goes with the namespace and may go first",
		]),
		"objects": [
			{"resource": "gadgets.x.io", "namespace": "demo", "name": "g"},
			{"resource": "gadgets.x.io", "namespace": "demo", "name": "h"},
			{"resource": "rolebindings.rbac.authorization.k8s.io", "namespace": "demo", "name": "op"},
		],
		"evidence": [
			"only RoleBinding op gives it the right to update gadgets.x.io here",
			"Deployment ops/gadgeteer has ready pods",
		],
		"steps": [{
			"kind": "mend", "do": "Delete the gadgets.x.io first; go on when they are gone",
			"action": {"verb": "delete", "objects": ["gadgets.x.io/g", "gadgets.x.io/h"], "namespace": "demo"},
		}],
	}}
	ask(object.union(delete_namespace, {"request": {"name": "other"}}), by_rights(bound)) == nothing
	ask(delete_namespace, object.remove(by_rights(bound), ["removers"])) == nothing
}

by_rights(ownership) := object.union(
	object.remove(facts(ownership, {}), ["needs"]),
	{"removers": {"demo": {"rights": {"x.io/need": {"gadgets.x.io": {"": true}}}}}},
)

# What an object without a namespace needs.
for_all(ownership, holder) := {
	"finalized": {"": {"x.io/need": {"contents.x.io": {"": {"count": 1, "names": ["c"], "at": [0], "ownership": ownership}}}}},
	"needed": {"demo": {"secrets": {"creds": {holder: {"x.io/need": {"contents.x.io": {"count": 1, "names": ["c"]}}}}}}},
}

test_without_namespace if {
	ask(delete_namespace, for_all(alive, "")) == {{
		"msg": concat("", [
			"1 contents.x.io has finalizer x.io/need: its owner, gadgeteer, needs secrets creds to clear it, ",
			"which goes with the namespace",
		]),
		"objects": [
			{"resource": "contents.x.io", "namespace": "", "name": "c"},
			{"resource": "secrets", "namespace": "demo", "name": "creds"},
		],
		"evidence": ["no finalizer keeps secrets creds", "Deployment ops/gadgeteer has ready pods"],
		"steps": [{"kind": "mend", "do": "Keep the namespace until the contents.x.io are gone, or name another"}],
	}}
}

test_without_namespace_near_misses if {
	ask(delete_namespace, for_all(object.union(alive, {"state": "down"}), "")) == nothing
	ask(delete_namespace, for_all(alive, "other")) == nothing
	ask(object.union(delete_namespace, {"request": {"name": "other"}}), for_all(alive, "")) == nothing
}
