package termguard.webhook_backend_in_namespace_test

import data.termguard.webhook_backend_in_namespace as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
	"namespace": "demo",
}}

key := "validating/guard/deny.x.io"

webhooks(workloads) := {key: {
	"type": "validating",
	"configuration": "guard",
	"name": "deny.x.io",
	"service": {"namespace": "demo", "name": "guard"},
	"backend": {"state": "up", "reason": "", "workloads": workloads},
}}

deployment := [{"resource": "deployments.apps", "name": "guard"}]

pods := {"demo": {"30": {"count": 1, "names": ["guard-1"]}}}

refuses(operation, resource, subresource, certainty) := {
	"operation": operation,
	"resource": resource,
	"subresource": subresource,
	"count": 1,
	"certainty": certainty,
}

blocked(requests) := {"demo": {key: requests}}

finding(outcome, seen) := {
	"msg": sprintf(
		"webhook deny.x.io fails closed and is served from namespace demo: once that is gone, %s",
		[outcome],
	),
	"objects": [{
		"resource": "validatingwebhookconfigurations.admissionregistration.k8s.io",
		"namespace": "",
		"name": "guard",
	}],
	"evidence": array.concat(
		["validating/guard/deny.x.io, failurePolicy Fail, calls Service demo/guard"],
		[sprintf("it sees %s (1 object)", [request]) | some request in seen],
	),
	"steps": [{
		"kind": "remove",
		"do": "Delete the webhook configuration before its backend: without that it checks nothing",
		"action": {"verb": "delete", "objects": ["validatingwebhookconfigurations.admissionregistration.k8s.io/guard"], "namespace": "", "noWait": true},
	}],
}

by_chance(outcome, seen) := object.union(finding(outcome, seen), {"evidence": array.concat(
	finding(outcome, seen).evidence,
	["the namespace controller deletes in no fixed order: what it does before the backend ends is not refused"],
)})

test_content_after_pods if {
	got := found with input as delete_namespace
		with data.cluster.version as {}
		with data.cluster.webhooks as webhooks(deployment)
		with data.cluster.podsByGrace as pods
		with data.cluster.selfBlocked as blocked([
			refuses("DELETE", "configmaps", "", "will"),
			refuses("UPDATE", "namespaces", "status", "will"),
		])
	got == {"deny": {finding("DELETE configmaps is refused", ["DELETE configmaps"])}, "warn": set()}
}

test_several if {
	got := found with input as delete_namespace
		with data.cluster.version as {}
		with data.cluster.webhooks as webhooks(deployment)
		with data.cluster.podsByGrace as pods
		with data.cluster.selfBlocked as blocked([
			refuses("DELETE", "secrets", "", "may"),
			refuses("DELETE", "configmaps", "", "will"),
		])
	got == {
		"deny": {finding("DELETE configmaps (and 1 more) is refused", ["DELETE secrets", "DELETE configmaps"])},
		"warn": set(),
	}
}

test_labels_decide if {
	got := found with input as delete_namespace
		with data.cluster.webhooks as webhooks(deployment)
		with data.cluster.podsByGrace as pods
		with data.cluster.selfBlocked as blocked([refuses("DELETE", "configmaps", "", "may")])
	got == {"deny": set(), "warn": {object.union(
		finding("DELETE configmaps may be refused", ["DELETE configmaps"]),
		{"manifest": {"severity": "low"}},
	)}}
}

# In one pass with the Service: no pods, none that take time, or before 1.33.
test_order_left_to_chance if {
	every case in [
		[{"podsFirst": true}, {}],
		[{"podsFirst": true}, {"demo": {"0": {"count": 1, "names": ["guard-1"]}}}],
		[{"podsFirst": false}, pods],
	] {
		got := found with input as delete_namespace
			with data.cluster.version as case[0]
			with data.cluster.webhooks as webhooks(deployment)
			with data.cluster.podsByGrace as case[1]
			with data.cluster.selfBlocked as blocked([refuses("DELETE", "configmaps", "", "will")])
		got == {"deny": set(), "warn": {by_chance("DELETE configmaps may be refused", ["DELETE configmaps"])}}
	}
}

test_no_known_pods_behind_it if {
	got := found with input as delete_namespace
		with data.cluster.webhooks as webhooks([])
		with data.cluster.podsByGrace as pods
		with data.cluster.selfBlocked as blocked([refuses("DELETE", "configmaps", "", "will")])
	got == {"deny": set(), "warn": {by_chance("DELETE configmaps may be refused", ["DELETE configmaps"])}}
}

test_finalize_comes_last_in_any_case if {
	got := found with input as delete_namespace
		with data.cluster.webhooks as webhooks([])
		with data.cluster.selfBlocked as blocked([refuses("UPDATE", "namespaces", "finalize", "will")])
	got == {"deny": {finding("UPDATE namespaces/finalize is refused", ["UPDATE namespaces/finalize"])}, "warn": set()}
}

test_status_stops_nobody if {
	got := found with input as delete_namespace
		with data.cluster.webhooks as webhooks(deployment)
		with data.cluster.selfBlocked as blocked([refuses("UPDATE", "namespaces", "status", "will")])
	got == nothing
}

test_something_else_is_deleted if {
	got := found with input as {"request": object.union(delete_namespace.request, {"resource": {"resource": "configmaps"}})}
		with data.cluster.webhooks as webhooks(deployment)
		with data.cluster.selfBlocked as blocked([refuses("DELETE", "configmaps", "", "will")])
	got == nothing
}

selects_by(label) := {key: object.union(webhooks(deployment)[key], {"namespaceSelector": {"matchExpressions": [{
	"key": label,
	"operator": "NotIn",
	"values": ["demo"],
}]}})}

refused := [refuses("DELETE", "configmaps", "", "will"), refuses("UPDATE", "namespaces", "finalize", "will")]

test_labels_that_no_manifest_tells if {
	seen := finding("DELETE configmaps (and 1 more) may be refused", ["DELETE configmaps", "UPDATE namespaces/finalize"])
	got := found with input as delete_namespace
		with data.cluster.version as {}
		with data.cluster.namespaces as {"demo": {"implied": true}}
		with data.cluster.webhooks as selects_by("control-plane")
		with data.cluster.podsByGrace as pods
		with data.cluster.selfBlocked as blocked(refused)
	got == {"deny": set(), "warn": {object.union(seen, {
		"evidence": array.concat(seen.evidence, ["no manifest has the namespace: one of its labels may leave it out"]),
		"manifest": {"severity": "low"},
	})}}
}

test_its_name_is_a_label_that_is_known if {
	got := found with input as delete_namespace
		with data.cluster.version as {}
		with data.cluster.namespaces as {"demo": {"implied": true}}
		with data.cluster.webhooks as selects_by("kubernetes.io/metadata.name")
		with data.cluster.podsByGrace as pods
		with data.cluster.selfBlocked as blocked(refused)
	count(got.deny) == 1
}
