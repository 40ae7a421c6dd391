package termguard.missing_reference_test

import data.termguard.missing_reference as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

alive := {"state": "alive", "certainty": "will", "owner": "gadgeteer", "clears": "gadget taken apart", "evidence": ["it runs"]}

lacks(without) := {"resource": "secrets", "namespace": "demo", "name": sprintf("of-%s", [without]), "without": without}

delete_gadget(missing) := {
	"request": {
		"operation": "DELETE", "resource": {"group": "x.io", "resource": "gadgets"}, "name": "g", "namespace": "demo",
		"oldObject": {"metadata": {"name": "g", "finalizers": ["x.io/need"]}},
	},
	"ownership": {"x.io/need": object.union(alive, {"missing": missing})},
}

ask(input_document, cluster) := got if {
	got := found with input as input_document with data.cluster as cluster
}

by_hand := "Clean up by hand what the finalizer protects (gadget taken apart), then remove x.io/need: what nobody cleaned up stays behind"

test_own if {
	got := ask(delete_gadget([lacks("hangs"), object.union(lacks("hangs"), {"namespace": "team"})]), {})
	got == {"warn": set(), "deny": {{
		"msg": concat("", [
			"finalizer x.io/need in metadata.finalizers is not removed: its owner, gadgeteer, needs ",
			"secrets of-hangs, secrets team/of-hangs, which do not exist",
		]),
		"objects": [{"resource": "gadgets.x.io", "namespace": "demo", "name": "g"}],
		"evidence": ["there is no secrets of-hangs", "there is no secrets team/of-hangs", "it runs"],
		"field": "metadata.finalizers[0]",
		"steps": [
			{"kind": "mend", "do": "Recreate what is missing, as it was, and the deletion finishes by itself"},
			{"kind": "force", "do": by_hand, "action": data.termguard.lib.finalizers.taking_out(["gadgets.x.io/g"], "demo", [[0, "x.io/need"]])},
		],
	}}}
}

test_own_may if {
	got := ask(delete_gadget([lacks("may")]), {})
	got.deny == set()
	some finding in got.warn
	endswith(finding.msg, "needs secrets of-may, which does not exist")
}

# Of this release it is not sure that it needs them.
unsure := object.union(alive, {"unsure": true})

test_unsure if {
	asked := object.union(delete_gadget([]), {"ownership": {"x.io/need": object.union(unsure, {"missing": [lacks("hangs"), lacks("may")]})}})
	own := ask(asked, {})
	own.deny == set()
	{finding.msg | some finding in own.warn} == {concat("", [
		"finalizer x.io/need in metadata.finalizers is not removed: its owner, gadgeteer, needs ",
		"secrets of-hangs, secrets of-may, which do not exist",
	])}
	every question in [delete_namespace, delete_definition] {
		got := ask(question, facts(unsure, {"hangs": group(["g"], ["s"])}))
		got.deny == set()
		{finding.msg | some finding in got.warn} == {concat("", [
			"1 gadgets.x.io has finalizer x.io/need, which may not be removed: ",
			"its owner, gadgeteer, needs secrets s, which does not exist",
		])}
	}
}

test_own_many if {
	some finding in ask(delete_gadget([object.union(lacks("hangs"), {"name": sprintf("s%d", [i])}) | some i in numbers.range(1, 9)]), {}).deny
	endswith(finding.msg, "secrets s5 and 4 more, which do not exist")
}

test_own_near_misses if {
	ask(delete_gadget([]), {}) == nothing
	every state in ["down", "absent", "unknown", "unasked"] {
		asked := delete_gadget([lacks("hangs")])
		ask(object.union(asked, {"ownership": {"x.io/need": {"state": state}}}), {}) == nothing
	}
	asked := delete_gadget([lacks("hangs")])
	ask(object.union(asked, {"request": {"operation": "UPDATE"}}), {}) == nothing
}

facts(ownership, states) := {
	"finalized": {"demo": {"x.io/need": {"gadgets.x.io": {"": {"count": 2, "names": ["g", "h"], "at": [0, 0], "ownership": ownership}}}}},
	"needs": {"demo": {"x.io/need": {"gadgets.x.io": {"secrets": states}}}},
}

group(names, needed) := {"count": count(names), "names": names, "needed": {"count": count(needed), "names": needed}}

delete_namespace := {"request": {"operation": "DELETE", "resource": {"group": "", "resource": "namespaces"}, "name": "demo"}}

delete_definition := {"request": {
	"operation": "DELETE", "name": "gadgets.x.io",
	"resource": {"group": "apiextensions.k8s.io", "resource": "customresourcedefinitions"},
}}

test_contents if {
	every asked in [delete_namespace, delete_definition] {
		ask(asked, facts(alive, {"hangs": group(["g"], ["s"]), "may": group(["g", "h"], ["t", "u"]), "goes": group(["g"], ["v"])})) == {
			"deny": {{
				"msg": concat("", [
					"1 gadgets.x.io has finalizer x.io/need, which is not removed: ",
					"its owner, gadgeteer, needs secrets s, which does not exist",
				]),
				"objects": [{"resource": "gadgets.x.io", "namespace": "demo", "name": "g"}],
				"evidence": ["there is no secrets s", "it runs"],
				"steps": plan,
			}},
			"warn": {{
				"msg": concat("", [
					"2 gadgets.x.io have finalizer x.io/need, which may not be removed: ",
					"its owner, gadgeteer, needs 2 secrets, which do not exist",
				]),
				"objects": [
					{"resource": "gadgets.x.io", "namespace": "demo", "name": "g"},
					{"resource": "gadgets.x.io", "namespace": "demo", "name": "h"},
				],
				"evidence": ["there is no secrets t", "there is no secrets u", "it runs"],
				"steps": plan,
			}},
		}
	}
}

plan := [
	{"kind": "mend", "do": "Recreate what is missing, as it was, before the deletion: later, nothing can be created there"},
	{"kind": "force", "do": by_hand},
]

test_contents_near_misses if {
	every cluster in [
		facts(alive, {"goes": group(["g"], ["s"])}),
		facts(object.union(alive, {"state": "down"}), {"hangs": group(["g"], ["s"])}),
	] {
		ask(delete_namespace, cluster) == nothing
	}
}

# What others need.

delete_secret := {"request": {
	"operation": "DELETE", "resource": {"group": "", "resource": "secrets"}, "name": "creds", "namespace": "demo",
	"oldObject": {"metadata": {"name": "creds"}},
}}

needed(ns, ownership) := {
	"needed": {"demo": {"secrets": {"creds": {ns: {"x.io/need": {"gadgets.x.io": {"count": 1, "names": ["g"]}}}}}}},
	"finalized": {ns: {"x.io/need": {"gadgets.x.io": {"": {"count": 1, "names": ["g"], "at": [0], "ownership": ownership}}}}},
}

test_needed if {
	ask(delete_secret, needed("demo", alive)) == {"deny": set(), "warn": {{
		"msg": "1 gadgets.x.io has finalizer x.io/need: its owner, gadgeteer, needs this to clear it, so delete them first",
		"objects": [
			{"resource": "secrets", "namespace": "demo", "name": "creds"},
			{"resource": "gadgets.x.io", "namespace": "demo", "name": "g"},
		],
		"evidence": ["it runs"],
		"steps": [{"kind": "mend", "do": "Keep it until the gadgets.x.io are gone, or name another"}],
	}}}
	some finding in ask(delete_secret, needed("team", alive)).warn
	startswith(finding.msg, "1 gadgets.x.io in namespace team has finalizer x.io/need")
}

test_needed_near_misses if {
	every ownership in [object.union(alive, {"state": "down"}), object.union(alive, {"state": "unknown"})] {
		ask(delete_secret, needed("demo", ownership)) == nothing
	}
	every changed in [{"name": "other"}, {"operation": "UPDATE"}] {
		ask(object.union(delete_secret, {"request": changed}), needed("demo", alive)) == nothing
	}
}

# What it may not do.

may_not(acts) := {
	"request": delete_gadget([]).request,
	"ownership": {"x.io/need": object.union(alive, {"unallowed": acts})},
}

give := {"kind": "mend", "do": "Give it that right by a role and a binding, and the deletion finishes by itself"}

test_right if {
	got := ask(may_not([{"what": "get Bolt", "without": "hangs"}, {"what": "get Nut", "without": "may"}]), {})
	{finding.msg | some finding in got.warn} == {concat("", [
		"finalizer x.io/need in metadata.finalizers may not be removed: ",
		"its owner, gadgeteer, must get Nut, and no role lets it",
	])}
	got.deny == {{
		"msg": concat("", [
			"finalizer x.io/need in metadata.finalizers is not removed: ",
			"its owner, gadgeteer, must get Bolt, and no role lets it",
		]),
		"objects": [{"resource": "gadgets.x.io", "namespace": "demo", "name": "g"}],
		"evidence": ["no role lets it get Bolt", "it runs"],
		"field": "metadata.finalizers[0]",
		"steps": [
			give,
			{"kind": "force", "do": by_hand, "action": data.termguard.lib.finalizers.taking_out(["gadgets.x.io/g"], "demo", [[0, "x.io/need"]])},
		],
	}}
}

test_right_near_misses if {
	asked := may_not([{"what": "get Bolt", "without": "hangs"}])
	ask(object.union(asked, {"request": {"operation": "UPDATE"}}), {}) == nothing
	every state in ["down", "absent", "unknown", "unasked"] {
		ask(object.union(asked, {"ownership": {"x.io/need": {"state": state}}}), {}) == nothing
	}
}

barred(ownership, acts) := {
	"finalized": facts(ownership, {}).finalized,
	"unallowed": {"demo": {"x.io/need": {"gadgets.x.io": acts}}},
}

test_rights_of_contents if {
	every asked in [delete_namespace, delete_definition] {
		got := ask(asked, barred(alive, {"hangs": {"get Bolt": group(["g"], [])}, "may": {"delete Bolt": group(["g", "h"], [])}}))
		got.deny == {{
			"msg": concat("", [
				"1 gadgets.x.io has finalizer x.io/need, which is not removed: ",
				"its owner, gadgeteer, must get Bolt, and no role lets it",
			]),
			"objects": [{"resource": "gadgets.x.io", "namespace": "demo", "name": "g"}],
			"evidence": ["no role lets it get Bolt", "it runs"],
			"steps": [give, {"kind": "force", "do": by_hand}],
		}}
		{finding.msg | some finding in got.warn} == {concat("", [
			"2 gadgets.x.io have finalizer x.io/need, which may not be removed: ",
			"its owner, gadgeteer, must delete Bolt, and no role lets it",
		])}
	}
}

test_rights_of_contents_near_misses if {
	other := {"hangs": {"get Bolt as service account demo/it": object.union(group(["g"], []), {"as": "it"})}}
	ask(delete_namespace, barred(alive, other)) == nothing
	count(ask(delete_definition, barred(alive, other)).deny) == 1
	ask(delete_namespace, barred(object.union(alive, {"state": "down"}), {"hangs": {"get Bolt": group(["g"], [])}})) == nothing
}
