package termguard.in_use_test

import data.termguard.in_use as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

alive := {"state": "alive", "certainty": "will", "owner": "maker", "evidence": ["it runs"]}

delete_maker := {
	"request": {
		"operation": "DELETE", "resource": {"group": "x.io", "resource": "makers"}, "name": "m", "namespace": "demo",
		"oldObject": {"metadata": {"name": "m", "finalizers": ["x.io/wait"]}},
	},
	"ownership": {"x.io/wait": alive},
}

delete_namespace := {"request": {"operation": "DELETE", "resource": {"group": "", "resource": "namespaces"}, "name": "demo"}}

users(names, leaving) := {"count": count(names), "names": names, "leaving": leaving, "mutual": []}

facts(sides) := {
	"finalized": {"demo": {"x.io/wait": {"makers.x.io": {"": {"count": 1, "names": ["m"], "at": [0], "ownership": alive}}}}},
	"inUse": {"demo": {"makers.x.io": {"m": {"x.io/wait": {"gadgets.x.io": sides}}}}},
}

ask(input_document, cluster) := got if {
	got := found with input as input_document with data.cluster as cluster
}

both := {"inside": users(["g"], 0), "outside": users(["team/h"], 0)}

own := {
	"msg": "finalizer x.io/wait stays while 2 objects refer to it: gadgets.x.io g, gadgets.x.io team/h",
	"objects": [
		{"resource": "makers.x.io", "namespace": "demo", "name": "m"},
		{"resource": "gadgets.x.io", "namespace": "demo", "name": "g"},
		{"resource": "gadgets.x.io", "namespace": "team", "name": "h"},
	],
	"evidence": ["it runs"],
	"field": "metadata.finalizers[0]",
	"steps": [
		{
			"kind": "remove", "action": {"verb": "delete", "objects": ["gadgets.x.io/g"], "namespace": "demo"},
			"do": "Delete the gadgets.x.io that refer to it, or have them refer to another: then it goes by itself",
		},
		{
			"kind": "remove", "action": {"verb": "delete", "objects": ["gadgets.x.io/h"], "namespace": "team"},
			"do": "Delete the gadgets.x.io that refer to it, or have them refer to another: then it goes by itself",
		},
		{
			"kind": "force", "do": "Remove finalizer x.io/wait: those that refer to the object are then left without it",
			"action": data.termguard.lib.finalizers.taking_out(["makers.x.io/m"], "demo", [[0, "x.io/wait"]]),
		},
	],
}

test_own if ask(delete_maker, facts(both)) == {"deny": {own}, "warn": set()}

test_own_leaving if {
	got := ask(delete_maker, facts({"inside": users(["g"], 1), "outside": users(["team/h"], 1)}))
	got == {"deny": set(), "warn": {own}}
}

test_own_near_misses if {
	ask(delete_maker, {"inUse": {"demo": {}}}) == nothing
	ask(object.union(delete_maker, {"ownership": {"x.io/wait": {"state": "down"}}}), facts(both)) == nothing
	ask(object.union(delete_maker, {"request": {"operation": "UPDATE"}}), facts(both)) == nothing
}

test_deleted_together if {
	set_of := {"set": {"gadgets.x.io": {"demo": {"g": true}, "team": {"h": true}}}}
	ask(delete_maker, object.union(facts(both), set_of)) == nothing
	got := ask(delete_maker, object.union(facts(both), {"set": {"gadgets.x.io": {"demo": {"g": true}}}}))
	count(got.deny) == 1
}

# Another policy speaks of volumes that are bound.
test_volume if {
	every case in [["Bound", {}, 0], ["Released", {}, 1], ["Released", {"v": {"fails": {}}}, 0]] {
		got := ask(
			{
				"request": {
					"operation": "DELETE", "resource": {"group": "", "resource": "persistentvolumes"}, "name": "v",
					"oldObject": {"metadata": {"name": "v", "finalizers": ["x.io/wait"]}, "status": {"phase": case[0]}},
				},
				"ownership": {"x.io/wait": alive},
			},
			{
				"attachmentsOf": case[1],
				"inUse": {"": {"persistentvolumes": {"v": {"x.io/wait": {"volumeattachments.storage.k8s.io": {"outside": users(["a"], 0)}}}}}},
			},
		)
		count(got.deny) == case[2]
	}
}

test_content if {
	ask(delete_namespace, facts(both)) == {"warn": set(), "deny": {{
		"msg": "makers.x.io m stays while 1 object refers to it from elsewhere: gadgets.x.io team/h (finalizer x.io/wait)",
		"objects": [
			{"resource": "makers.x.io", "namespace": "demo", "name": "m"},
			{"resource": "gadgets.x.io", "namespace": "team", "name": "h"},
		],
		"evidence": ["it runs"],
		"steps": [{
			"kind": "remove", "action": {"verb": "delete", "objects": ["gadgets.x.io/h"], "namespace": "team"},
			"do": "Delete the gadgets.x.io that refer to it, or have them refer to another: then it goes by itself",
		}],
	}}}
	leaving := ask(delete_namespace, facts({"outside": users(["team/h"], 1)}))
	count(leaving.warn) == 1
	leaving.deny == set()
}

# What a status says licenses nobody to delete its object.
test_told if {
	got := ask(delete_namespace, facts({"outside": object.union(users(["team/h"], 0), {"told": true})}))
	some finding in got.deny
	[step.hearsay | some step in finding.steps] == ["the status of those that refer"]
}

# What was made for another is not deleted alone.
test_owned if {
	got := ask(delete_namespace, facts({"outside": object.union(users(["team/h", "team/i"], 0), {"owned": ["team/h"]})}))
	some finding in got.deny
	finding.steps == [
		{
			"kind": "remove", "action": {"verb": "delete", "objects": ["gadgets.x.io/i"], "namespace": "team"},
			"do": "Delete the gadgets.x.io that refer to it, or have them refer to another: then it goes by itself",
		},
		{
			"kind": "remove",
			"do": concat(" ", [
				"Delete what the gadgets.x.io were made for, as the owner references of team/h say,",
				"or have it refer to another: they go along",
			]),
		},
	]
}

# Those of the namespace go along.
test_content_inside if {
	ask(delete_namespace, facts({"inside": users(["g"], 0)})) == nothing
	unowned := object.union(facts(both), {"finalized": {"demo": {"x.io/wait": {"makers.x.io": {"": {"ownership": {"state": "down"}}}}}}})
	ask(delete_namespace, unowned) == nothing
}

test_deadlock if {
	got := ask(delete_namespace, facts({"inside": object.union(users(["g"], 0), {"mutual": ["g"]})}))
	got == {"warn": set(), "deny": {{
		"msg": "makers.x.io m and gadgets.x.io g refer to each other, and each has a finalizer that stays while the other does",
		"objects": [
			{"resource": "makers.x.io", "namespace": "demo", "name": "m"},
			{"resource": "gadgets.x.io", "namespace": "demo", "name": "g"},
		],
		"evidence": ["it runs"],
		"steps": [{"kind": "mend", "do": "Before the deletion, take the reference to the other out of one of them"}],
	}}}
}

# An address of a Service is made again for as long as the Service is there.
test_addresses if {
	range := {
		"request": {
			"operation": "DELETE", "resource": {"group": "networking.k8s.io", "resource": "servicecidrs"}, "name": "r",
			"oldObject": {"metadata": {"name": "r", "finalizers": ["networking.k8s.io/service-cidr-finalizer"]}},
		},
		"ownership": {"networking.k8s.io/service-cidr-finalizer": alive},
	}
	uses := {"ipaddresses.networking.k8s.io": {"outside": users(["10.0.0.5", "10.0.0.6"], 0)}}
	got := ask(range, {"inUse": {"": {"servicecidrs.networking.k8s.io": {"r": {"networking.k8s.io/service-cidr-finalizer": uses}}}}})
	some finding in got.deny
	finding.steps[0] == {
		"kind": "mend",
		"do": "Delete the Services that have these addresses, or recreate them with other addresses: 10.0.0.5, 10.0.0.6",
	}
}
