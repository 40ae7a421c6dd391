package termguard.failing_conversion_webhook_test

import data.termguard.failing_conversion_webhook as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
}}

delete_crd := {"request": {
	"operation": "DELETE",
	"resource": {"group": "apiextensions.k8s.io", "version": "v1", "resource": "customresourcedefinitions"},
	"name": "backups.corp.example",
}}

crd := {
	"namespaced": true,
	"version": "v2",
	"storage": "v1",
	"storedVersions": ["v1"],
	"service": {"namespace": "corp-system", "name": "converter"},
	"backend": {"state": "down", "reason": "gone"},
	"listError": "",
	"refused": false,
	"instances": 1,
}

facts(changes) := {"backups.corp.example": object.union(crd, changes)}

counts := {"demo": {"backups.corp.example": 1}}

both := {"backups.corp.example": {"versions": [
	{"name": "v1", "served": true, "storage": true},
	{"name": "v2", "served": true, "storage": false},
]}}

finding(msg, versions, failure, steps) := {
	"msg": msg,
	"objects": [{"resource": "customresourcedefinitions.apiextensions.k8s.io", "namespace": "", "name": "backups.corp.example"}],
	"evidence": array.concat(
		["conversion webhook of backups.corp.example: gone", sprintf("objects are stored as %s, and deleted as v2", [versions])],
		failure,
	),
	"steps": steps,
}

bring_back := {
	"kind": "mend",
	"do": "Bring back Service corp-system/converter: what waits then finishes within a minute or two",
}

unserve := {
	"kind": "remove",
	"do": concat(" ", [
		"If its software is gone for good, stop serving v2 of backups.corp.example: deletions then go through v1,",
		"in which all are stored (nothing is lost)",
	]),
	"action": {
		"verb": "patch",
		"objects": ["customresourcedefinitions/backups.corp.example"],
		"type": "json",
		"patch": [
			{"op": "test", "path": "/spec/versions/1/name", "value": "v2"},
			{"op": "replace", "path": "/spec/versions/1/served", "value": false},
		],
	},
}

patch_none := {
	"verb": "patch",
	"objects": ["customresourcedefinitions/backups.corp.example"],
	"type": "merge",
	"patch": {"spec": {"conversion": {"strategy": "None", "webhook": null}}},
}

unconvert := {
	"kind": "force",
	"do": concat(" ", [
		"Set the conversion of backups.corp.example to None: objects that stay lose fields that are not in both versions",
		"when they are written next",
	]),
	"action": patch_none,
}

unconvert_all := {
	"kind": "remove",
	"do": concat(" ", [
		"If its software is gone for good, set the conversion to None:",
		"the instances go in any case, so that none is harmed",
	]),
	"action": patch_none,
}

here := "the conversion webhook of backups.corp.example does not answer, so those here cannot be converted to v2 and deleted"

everywhere := "the conversion webhook of backups.corp.example does not answer, and lists as v2 fail, so no namespace can finish deleting"

perhaps := "the conversion webhook of backups.corp.example does not answer, and those here may be stored in another version than v2"

test_here if {
	got := found with input as delete_namespace
		with data.cluster.unconverted as facts({})
		with data.cluster.counts as counts
		with data.cluster.crds as both
	got == {"deny": {finding(here, "v1", [], [bring_back, unserve, unconvert])}, "warn": set()}
}

test_by_url if {
	got := found with input as delete_namespace
		with data.cluster.unconverted as {"backups.corp.example": object.remove(crd, ["service"])}
		with data.cluster.counts as counts
	restore := {
		"kind": "mend",
		"do": "Bring back the conversion webhook: what waits then finishes within a minute or two",
	}
	got == {"deny": {finding(here, "v1", [], [restore, unconvert])}, "warn": set()}
}

test_none_here if {
	got := found with input as delete_namespace
		with data.cluster.unconverted as facts({})
		with data.cluster.counts as {"other": counts.demo}
	got == nothing
}

test_everywhere if {
	got := found with input as delete_namespace
		with data.cluster.unconverted as facts({"listError": "refused", "refused": true})
		with data.cluster.counts as {"other": counts.demo}
		with data.cluster.crds as both
		with data.cluster.version as {"listsFromCache": true}
	got == {"deny": {finding(everywhere, "v1", ["listing them fails: refused"], [bring_back, unserve, unconvert])}, "warn": set()}
}

test_everywhere_but_not_before_the_cache if {
	got := found with input as delete_namespace
		with data.cluster.unconverted as facts({"listError": "refused", "refused": true})
		with data.cluster.counts as {"other": counts.demo}
		with data.cluster.version as {"listsFromCache": false}
	got == nothing
}

soon := "the conversion webhook of backups.corp.example does not answer: once lists as v2 fail, no namespace can finish deleting"

test_soon_everywhere if {
	got := found with input as delete_namespace
		with data.cluster.unconverted as facts({"listError": "refused"})
		with data.cluster.counts as {"other": counts.demo}
		with data.cluster.crds as both
		with data.cluster.version as {}
	want := finding(soon, "v1", ["listing them fails: refused"], [bring_back, unserve, unconvert])
	got == {"deny": set(), "warn": {want}}
}

test_perhaps if {
	got := found with input as delete_namespace
		with data.cluster.unconverted as facts({"storedVersions": ["v1", "v2"], "storage": "v2"})
		with data.cluster.counts as counts
		with data.cluster.crds as both
	got == {"deny": set(), "warn": {finding(perhaps, "v1 or v2", [], [bring_back, unconvert])}}
}

test_stored_as_deleted if {
	got := found with input as delete_namespace
		with data.cluster.unconverted as facts({"storedVersions": ["v2"], "storage": "v2"})
		with data.cluster.counts as counts
	got == nothing
}

test_cluster_scoped if {
	got := found with input as delete_namespace
		with data.cluster.unconverted as facts({"listError": "refused", "refused": true, "namespaced": false})
	got == nothing
}

older_unread := "the conversion webhook does not answer, so instances cannot be listed as v2 and deleted"

older_perhaps := "the conversion webhook does not answer, and some instances may be stored as v1, not as v2"

test_definition if {
	got := found with input as delete_crd
		with data.cluster.unconverted as facts({"storedVersions": ["v1", "v2"], "storage": "v2", "listError": "refused"})
	want := finding(older_unread, "v1 or v2", ["listing them fails: refused"], [bring_back, unconvert_all])
	got == {"deny": {want}, "warn": set()}
}

test_definition_perhaps if {
	got := found with input as delete_crd
		with data.cluster.unconverted as facts({"storedVersions": ["v1", "v2"], "storage": "v2"})
	got == {"deny": set(), "warn": {finding(older_perhaps, "v1 or v2", [], [bring_back, unconvert_all])}}
}

test_definition_without_instances if {
	got := found with input as delete_crd
		with data.cluster.unconverted as facts({"storedVersions": ["v1", "v2"], "storage": "v2", "instances": 0})
	got == nothing
}

test_definition_stored_in_one_version if {
	got := found with input as delete_crd
		with data.cluster.unconverted as facts({"listError": "refused"})
	got == nothing
}
