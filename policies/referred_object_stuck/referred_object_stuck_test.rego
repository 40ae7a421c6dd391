package termguard.referred_object_stuck_test

import data.termguard.referred_object_stuck as policy

cluster(spec, options) := {
	"request": {
		"operation": "DELETE",
		"kind": {"group": "x.io", "version": "v1", "kind": "Cluster"},
		"resource": {"group": "x.io", "version": "v1", "resource": "clusters"},
		"name": "it",
		"namespace": "demo",
		"oldObject": {"metadata": {"name": "it", "uid": "u1", "finalizers": ["x.io/f"]}, "spec": spec},
		"options": options,
	},
	"ownership": {"x.io/f": {"state": "alive", "certainty": "will", "owner": "X", "evidence": ["X runs"]}},
}

reference := {"kind": "Infra", "name": "i"}

absent := {"state": "absent", "certainty": "may", "owner": "", "evidence": ["nobody"]}

ask(question, ownership) := got if {
	got := policy.warn with input as question
		with data.cluster.crds as {"infras.y.io": {"kind": "Infra"}}
		with data.cluster.finalized as {"demo": {"y.io/f": {"infras.y.io": {
			"driver=d owners=Cluster.x.io,Other.x.io": {"count": 1, "names": ["i"], "at": [0], "ownership": ownership},
			"owners=Other.x.io": {"count": 1, "names": ["of-another"], "at": [0], "ownership": ownership},
		}}}}
}

finding(field) := {
	"msg": concat("", [
		"its owner, X, may wait for infras.y.io i (", field, "), ",
		"which stays: nothing was found that removes it",
	]),
	"objects": [
		{"resource": "clusters.x.io", "namespace": "demo", "name": "it"},
		{"resource": "infras.y.io", "namespace": "demo", "name": "i"},
	],
	"evidence": ["infras.y.io i has finalizer y.io/f", "nobody"],
	"steps": [
		{"kind": "mend", "do": "Find out whether the controller that removes the finalizer runs, and start it if not"},
		{"kind": "mend", "do": "Ask about infras.y.io/i: what holds it holds this"},
	],
}

test_referred if {
	every field, spec in {
		"spec.infraRef": {"infraRef": reference},
		"spec.boot.configRef": {"boot": {"configRef": reference}},
		"spec.resourceRefs": {"resourceRefs": [{"kind": "Infra", "name": "other"}, reference]},
	} {
		ask(cluster(spec, {}), absent) == {finding(field)}
	}
}

# surely is a finding about an owner that is surely gone.
surely(perhaps) := object.union(perhaps, {
	"msg": replace(perhaps.msg, "nothing was found that removes it", "nothing that could remove it is running"),
	"steps": [
		{"kind": "mend", "do": "Bring back the controller that removes the finalizer, and the deletion finishes by itself"},
		perhaps.steps[1],
	],
})

# Whether the owner waits is not known of what is just referred to, however sure the rest is.
test_referred_surely if {
	sure := object.union(absent, {"certainty": "will"})
	ask(cluster({"infraRef": reference}, {}), sure) == {surely(finding("spec.infraRef"))}
	group := {"count": 1, "names": ["i"], "at": [0], "ownership": sure}
	got := policy.deny with input as cluster({"infraRef": reference}, {})
		with data.cluster.crds as {"infras.y.io": {"kind": "Infra"}}
		with data.cluster.finalized as {"demo": {"y.io/f": {"infras.y.io": {"owners=Cluster.x.io": group}}}}
	got == set()
}

test_near_misses if {
	every spec in [
		{}, {"infra": reference}, {"infraRef": {"kind": "Other", "name": "i"}}, {"infraRef": {"kind": "Infra", "name": "j"}},
		{"infraRef": {"kind": "Infra", "name": "of-another"}}, {"infraRef": "i"}, {"infraRefs": "i"}, {"a": {"b": {"infraRef": reference}}},
	] {
		ask(cluster(spec, {}), absent) == set()
	}
}

# What the status lists need not be owned by the kind that waits.
listing(list) := object.union(cluster({}, {}), {"request": {"oldObject": {"status": {"parts": list}}}})

test_listed if {
	every entry in [reference, object.union(reference, {"apiVersion": "y.io/v1", "namespace": "demo"})] {
		ask(listing([{"kind": "Other"}, "x", entry]), absent) == {finding("status.parts")}
	}
	some found in ask(listing([{"kind": "Infra", "name": "of-another"}]), absent)
	contains(found.msg, "may wait for infras.y.io of-another (status.parts)")
}

test_listed_near_misses if {
	every list in [
		[], {"i": reference}, [{"kind": "Infra", "name": "j"}], [{"kind": "Other", "name": "i"}], ["i"],
		[object.union(reference, {"apiVersion": "z.io/v1"})], [object.union(reference, {"namespace": "other"})],
		array.concat([{"kind": "Infra", "name": "j"} | some _ in numbers.range(1, 64)], [reference]),
	] {
		ask(listing(list), absent) == set()
	}
}

test_listed_removed if ask(listing([reference]), object.union(absent, {"state": "alive"})) == set()

# One without a namespace is not beside it, whatever owns it.
test_not_beside if {
	owned := {"count": 1, "names": ["i"], "at": [0], "ownership": absent}
	got := policy.warn with input as cluster({"infraRef": reference}, {})
		with data.cluster.crds as {"infras.y.io": {"kind": "Infra"}}
		with data.cluster.finalized as {"": {"y.io/f": {"infras.y.io": {"owners=Cluster.x.io": owned}}}}
	got == set()
}

test_foreground if ask(cluster({"infraRef": reference}, {"propagationPolicy": "Foreground"}), absent) == set()

test_removed if ask(cluster({"infraRef": reference}, {}), object.union(absent, {"state": "alive"})) == set()

test_owner_does_not_run if {
	idle := object.union(cluster({"infraRef": reference}, {}), {"ownership": {"x.io/f": absent}})
	ask(idle, absent) == set()
}

# One that is Terminating, at 02:00: since when.
ask_terminating(question, ownership, since) := got if {
	got := policy.warn with input as question
		with data.cluster.now as "2026-01-01T02:00:00Z"
		with data.cluster.crds as {"infras.y.io": {"kind": "Infra"}}
		with data.cluster.finalized as {"demo": {"y.io/f": {"infras.y.io": {"owners=Cluster.x.io": {
			"count": 1, "names": ["i"], "at": [0], "ownership": ownership,
			"terminating": {"count": 1, "objects": [{"namespace": "demo", "name": "i", "at": 0, "since": since}]},
		}}}}}
}

alive := object.union(absent, {"state": "alive"})

test_terminating if {
	got := ask_terminating(cluster({"infraRef": reference}, {}), alive, "2026-01-01T01:00:00Z")
	got == {object.union(finding("spec.infraRef"), {
		"msg": concat("", [
			"its owner, X, may wait for infras.y.io i (spec.infraRef), ",
			"which stays: it has been Terminating for 60 minutes",
		]),
		"steps": [{"kind": "mend", "do": "Ask about infras.y.io/i: what holds it holds this"}],
	})}
}

# Why nobody removes it says more than for how long it waits.
test_terminating_and_absent if {
	ask_terminating(cluster({"infraRef": reference}, {}), absent, "2026-01-01T01:00:00Z") == {finding("spec.infraRef")}
}

test_just_terminating if {
	ask_terminating(cluster({"infraRef": reference}, {}), alive, "2026-01-01T01:55:00Z") == set()
}

# What the catalog knows to be deleted first.
snapshot := {
	"request": {
		"operation": "DELETE",
		"kind": {"group": "s.io", "version": "v1", "kind": "Snapshot"},
		"resource": {"group": "s.io", "version": "v1", "resource": "snapshots"},
		"name": "it",
		"namespace": "demo",
		"oldObject": {"metadata": {"name": "it", "finalizers": ["s.io/f"]}},
	},
	"ownership": {"s.io/f": working},
}

working := {"state": "alive", "certainty": "will", "owner": "S", "evidence": ["S runs"]}

namespace := {
	"request": {
		"operation": "DELETE",
		"kind": {"group": "", "version": "v1", "kind": "Namespace"},
		"resource": {"group": "", "version": "v1", "resource": "namespaces"},
		"name": "demo",
		"namespace": "demo",
		"oldObject": {"metadata": {"name": "demo"}},
	},
	"ownership": {},
}

definition := {
	"request": {
		"operation": "DELETE",
		"kind": {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition"},
		"resource": {"group": "apiextensions.k8s.io", "version": "v1", "resource": "customresourcedefinitions"},
		"name": "snapshots.s.io",
		"oldObject": {"metadata": {"name": "snapshots.s.io"}},
	},
	"ownership": {},
}

# One waits for a content of its own namespace: one of that name elsewhere is another's, even
# where something waits, too.
waiting_for(name) := {"snapshots.s.io": {"it": {"s.io/f": {"contents.s.io": {"count": 1, "names": [name]}}}}}

one(resource, name, ownership) := {resource: {"": {"count": 1, "names": [name], "at": [0], "ownership": ownership}}}

test_awaited_beside if {
	works := {"s.io/f": one("snapshots.s.io", "it", working)}
	stays := object.union(works, {"s.io/c": one("contents.s.io", "c", absent)})
	found := {where: {[o.namespace | some o in finding.objects] | some finding in got} |
		some where, finalized in {
			"elsewhere": {"demo": works, "other": stays},
			"beside": {"demo": stays, "other": works},
		}
		got := policy.warn with input as definition
			with data.cluster.crds as {}
			with data.cluster.awaited as {"demo": waiting_for("c"), "other": waiting_for("d")}
			with data.cluster.finalized as finalized
	}
	found == {"elsewhere": set(), "beside": {["demo", "demo"]}}
}

ask_awaited(question, of_snapshot, of_content) := got if {
	got := {"deny": policy.deny, "warn": policy.warn} with input as question
		with data.cluster.crds as {}
		with data.cluster.awaited as {"demo": {"snapshots.s.io": {"it": {"s.io/f": {"contents.s.io": {"count": 1, "names": ["c"]}}}}}}
		with data.cluster.finalized as {
			"demo": {"s.io/f": {"snapshots.s.io": {"": {"count": 1, "names": ["it"], "at": [0], "ownership": of_snapshot}}}},
			"": {"s.io/c": {"contents.s.io": {"driver=d": {"count": 2, "names": ["b", "c"], "at": [0, 0], "ownership": of_content}}}},
		}
}

nothing := {"deny": set(), "warn": set()}

awaited := {
	"msg": concat("", [
		"its owner, S, waits for contents.s.io c, ",
		"which stays: nothing was found that removes it",
	]),
	"objects": [
		{"resource": "snapshots.s.io", "namespace": "demo", "name": "it"},
		{"resource": "contents.s.io", "namespace": "", "name": "c"},
	],
	"evidence": ["contents.s.io c has finalizer s.io/c", "nobody"],
	"steps": [
		{"kind": "mend", "do": "Find out whether the controller that removes the finalizer runs, and start it if not"},
		{"kind": "mend", "do": "Ask about contents.s.io/c: what holds it holds this"},
	],
}

test_awaited if {
	every question in [snapshot, namespace, definition] {
		ask_awaited(question, working, absent) == {"deny": set(), "warn": {awaited}}
		ask_awaited(question, working, object.union(absent, {"certainty": "will"})) == {"deny": {surely(awaited)}, "warn": set()}
		ask_awaited(question, working, working) == nothing
	}
}

# Whose owner runs, and lacks something.
ask_lacking(question, states, of_content) := got if {
	group := {"count": 1, "names": ["c"], "at": [0], "ownership": of_content}
	got := {"deny": policy.deny, "warn": policy.warn} with input as question
		with data.cluster as {
			"awaited": {"demo": {"snapshots.s.io": {"it": {"s.io/f": {"contents.s.io": {"count": 1, "names": ["c"]}}}}}},
			"finalized": {"": {"s.io/c": {"contents.s.io": {"": group}}}},
			"needs": {"": {"s.io/c": {"contents.s.io": {"secrets": states}}}},
		}
}

lack(name) := {"count": 1, "names": [name], "needed": {"count": 1, "names": ["ops/token"]}}

test_awaited_lacks if {
	every state in ["hangs", "may"] {
		got := ask_lacking(snapshot, {state: lack("c")}, working)
		got.deny == set()
		{finding.msg | some finding in got.warn} == {concat("", [
			"its owner, S, waits for contents.s.io c, ",
			"which stays: its owner needs secrets ops/token, which does not exist",
		])}
	}
}

test_awaited_lacks_near_misses if {
	ask_lacking(snapshot, {"completes": lack("c")}, working) == nothing
	ask_lacking(snapshot, {"hangs": lack("b")}, working) == nothing
	ask_lacking(snapshot, {}, working) == nothing
}

test_awaited_by_nobody if {
	ask_awaited(object.union(snapshot, {"ownership": {"s.io/f": absent}}), absent, absent) == nothing
	ask_awaited(namespace, absent, absent) == nothing
	ask_awaited(definition, absent, absent) == nothing
}
