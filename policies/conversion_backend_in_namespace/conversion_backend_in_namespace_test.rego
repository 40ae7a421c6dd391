package termguard.conversion_backend_in_namespace_test

import data.termguard.conversion_backend_in_namespace as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
}}

apply_definition := {"request": {
	"operation": "CREATE",
	"resource": {"group": "apiextensions.k8s.io", "version": "v1", "resource": "customresourcedefinitions"},
	"name": "backups.corp.example",
	"object": {"spec": {"conversion": {"webhook": {"clientConfig": {"service": {"namespace": "demo", "name": "converter"}}}}}},
}}

facts(changes) := {"demo": {"backups.corp.example": object.union(
	{
		"version": "v2",
		"storedVersions": ["v1"],
		"backend": {"state": "up", "workloads": [{"resource": "deployments.apps", "name": "converter"}]},
		"instances": 1,
	},
	changes,
)}}

here := {"demo": {"backups.corp.example": 1}}

slow := {"demo": {"30": {"pods": 1}}}

finding(msg, versions, from, steps) := {
	"msg": msg,
	"objects": [{"resource": "customresourcedefinitions.apiextensions.k8s.io", "namespace": "", "name": "backups.corp.example"}],
	"evidence": array.concat([sprintf("objects are stored as %s, and deleted as v2", [versions])], from),
	"field": "spec.conversion",
	"steps": steps,
}

served := ["its conversion webhook is served from namespace demo"]

first := [{
	"kind": "mend",
	"do": "Delete the backups.corp.example here first, while the webhook still answers; go on when they are gone",
}]

may := "the conversion webhook of backups.corp.example may go before those here, which may have to be converted to v2"

test_objects_here if {
	got := found with input as delete_namespace
		with data.cluster.conversionsFrom as facts({})
		with data.cluster.counts as here
		with data.cluster.podsByGrace as slow
		with data.cluster.version as {}
	msg := "the conversion webhook of backups.corp.example goes before those here, so they cannot be converted to v2 and deleted"
	got == {"deny": {finding(msg, "v1", served, first)}, "warn": set()}
}

test_stored_in_either if {
	got := found with input as delete_namespace
		with data.cluster.conversionsFrom as facts({"storedVersions": ["v1", "v2"]})
		with data.cluster.counts as here
		with data.cluster.podsByGrace as slow
		with data.cluster.version as {}
	got == {"deny": set(), "warn": {finding(may, "v1 or v2", served, first)}}
}

test_in_one_pass if {
	some pods in [{}, {"demo": {"0": {"pods": 1}}}]
	got := found with input as delete_namespace
		with data.cluster.conversionsFrom as facts({})
		with data.cluster.counts as here
		with data.cluster.podsByGrace as pods
	got == {"deny": set(), "warn": {finding(may, "v1", served, first)}}
}

test_elsewhere if {
	got := found with input as delete_namespace with data.cluster.conversionsFrom as facts({"instances": 3}) with data.cluster.counts as {}
	msg := "the conversion webhook of backups.corp.example goes, without which 3 elsewhere may not be deleted any more"
	step := {"kind": "mend", "do": "Delete those elsewhere first, or have them all stored in the version that they are deleted in"}
	got == {"deny": set(), "warn": {finding(msg, "v1", served, [step])}}
}

test_applied if {
	got := found with input as apply_definition with data.cluster.conversionsFrom as facts({})
	msg := "stored as v1 and deleted as v2: while the conversion webhook does not answer, none can be deleted"
	converter := {"resource": "services", "namespace": "demo", "name": "converter"}
	want := finding(msg, "v1", [], [])
	got == {"deny": set(), "warn": {object.union(want, {"objects": array.concat(want.objects, [converter])})}}
}

test_nowhere if {
	got := found with input as delete_namespace with data.cluster.conversionsFrom as facts({"instances": 0})
	got == nothing
}

test_down_already if {
	got := found with input as delete_namespace
		with data.cluster.conversionsFrom as facts({"backend": {"state": "down"}})
		with data.cluster.counts as here
	got == nothing
}

test_other_namespace if {
	got := found with input as delete_namespace
		with data.cluster.conversionsFrom as {"corp-system": facts({}).demo}
		with data.cluster.counts as here
	got == nothing
}
