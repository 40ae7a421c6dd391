package termguard.failing_webhook_blocks_delete_test

import data.termguard.failing_webhook_blocks_delete as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

webhooks := {"validating/guard/deny.x.io": {
	"type": "validating",
	"configuration": "guard",
	"name": "deny.x.io",
	"failurePolicy": "Fail",
	"service": {"namespace": "ops", "name": "guard"},
	"backend": {"state": "down", "reason": "Service ops/guard does not exist"},
}}

refuses(operation, resource, subresource, certainty) := {
	"operation": operation,
	"resource": resource,
	"subresource": subresource,
	"count": 2,
	"certainty": certainty,
	"cause": "down",
	"why": "Service ops/guard does not exist",
}

blocked(namespace, requests) := {namespace: {"validating/guard/deny.x.io": requests}}

finding(what, seen) := {
	"msg": sprintf("webhook guard/deny.x.io fails closed and Service ops/guard is down: %s", [what]),
	"objects": [{"resource": "validatingwebhookconfigurations.admissionregistration.k8s.io", "namespace": "", "name": "guard"}],
	"evidence": array.concat(
		["validating/guard/deny.x.io, failurePolicy Fail: Service ops/guard does not exist"],
		[sprintf("it sees %s (2 objects)", [request]) | some request in seen],
	),
	"steps": [
		{"kind": "mend", "do": "Bring back Service ops/guard: what waits then finishes by itself"},
		{
			"kind": "remove",
			"do": "If its software is gone for good, delete the webhook configuration",
			"action": {"verb": "delete", "objects": ["validatingwebhookconfigurations.admissionregistration.k8s.io/guard"], "namespace": "", "noWait": true},
		},
		{
			"kind": "force",
			"do": "Set failurePolicy of webhook deny.x.io to Ignore: until it is set back, what it should check goes through unchecked",
		},
	],
}

# A namespace.

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
	"namespace": "demo",
	"oldObject": {"metadata": {"name": "demo"}},
}}

test_content if {
	got := found with input as delete_namespace
		with data.cluster.webhooks as webhooks
		with data.cluster.blocked as blocked("demo", [refuses("DELETE", "configmaps", "", "will")])
	got == {"deny": {finding("DELETE configmaps is refused", ["DELETE configmaps"])}, "warn": set()}
}

test_one_finding_for_one_webhook if {
	got := found with input as delete_namespace
		with data.cluster.webhooks as webhooks
		with data.cluster.blocked as blocked("demo", [
			refuses("UPDATE", "secrets", "", "may"),
			refuses("UPDATE", "namespaces", "finalize", "will"),
			refuses("UPDATE", "namespaces", "status", "will"),
		])
	got == {
		"deny": {finding("UPDATE namespaces/finalize (and 1 more) is refused", ["UPDATE secrets", "UPDATE namespaces/finalize"])},
		"warn": set(),
	}
}

test_perhaps if {
	got := found with input as delete_namespace
		with data.cluster.webhooks as webhooks
		with data.cluster.blocked as blocked("demo", [refuses("DELETE", "configmaps", "", "may")])
	got == {"deny": set(), "warn": {finding("DELETE configmaps may be refused", ["DELETE configmaps"])}}
}

test_causes if {
	told := {
		"untrusted": "its caBundle does not fit Service ops/guard",
		"condition": "a matchCondition of it fails",
		"failing": "calls to it failed recently",
		"refusing": "it refused deletions recently",
	}
	every cause, words in told {
		request := object.union(refuses("DELETE", "configmaps", "", "will"), {"cause": cause})
		got := policy.deny with input as delete_namespace
			with data.cluster.webhooks as webhooks
			with data.cluster.blocked as blocked("demo", [request])
		{found.msg | some found in got} == {sprintf(
			"webhook guard/deny.x.io fails closed and %s: DELETE configmaps is refused",
			[words],
		)}
		count({step | some found in got; some step in found.steps; step.kind == "mend"}) == 1
	}
}

test_each_cause_apart if {
	failing := object.union(refuses("DELETE", "secrets", "", "may"), {"cause": "condition"})
	got := found with input as delete_namespace
		with data.cluster.webhooks as webhooks
		with data.cluster.blocked as blocked("demo", [refuses("DELETE", "configmaps", "", "will"), failing])
	count(got.deny) == 1
	count(got.warn) == 1
}

test_lately if {
	ages := {"2026-11-21T07:31:00Z": 1, "2026-11-21T07:29:00Z": 0}
	every last, findings in ages {
		request := object.union(refuses("DELETE", "configmaps", "", "may"), {"cause": "failing", "last": last})
		got := policy.warn with input as delete_namespace
			with data.cluster.webhooks as webhooks
			with data.cluster.blocked as blocked("demo", [request])
			with data.cluster.now as "2026-11-21T08:00:00Z"
		count(got) == findings
	}
}

test_status_of_a_namespace_stops_nobody if {
	got := found with input as delete_namespace
		with data.cluster.webhooks as webhooks
		with data.cluster.blocked as blocked("demo", [refuses("UPDATE", "namespaces", "status", "will")])
	got == nothing
}

test_another_namespace if {
	got := found with input as delete_namespace
		with data.cluster.webhooks as webhooks
		with data.cluster.blocked as blocked("other", [refuses("DELETE", "configmaps", "", "will")])
	got == nothing
}

# An object.

delete_object(group, resource, finalizers, options) := {"request": {
	"operation": "DELETE",
	"resource": {"group": group, "version": "v1", "resource": resource},
	"name": "mine",
	"namespace": "demo",
	"oldObject": {"metadata": {"name": "mine", "finalizers": finalizers}},
	"options": options,
}}

test_update_that_removes_the_finalizer if {
	every request in [
		delete_object("", "configmaps", ["x.io/f"], {}),
		delete_object("", "configmaps", [], {"propagationPolicy": "Foreground"}),
		delete_object("", "configmaps", [], {"propagationPolicy": "Orphan"}),
	] {
		got := found with input as request
			with data.cluster.webhooks as webhooks
			with data.cluster.blocked as blocked("demo", [
				refuses("DELETE", "configmaps", "", "will"),
				refuses("UPDATE", "configmaps", "", "will"),
				refuses("UPDATE", "secrets", "", "will"),
			])
		got == {"deny": {finding("UPDATE configmaps is refused", ["UPDATE configmaps"])}, "warn": set()}
	}
}

test_object_without_finalizers if {
	every options in [{}, {"propagationPolicy": "Background"}, {"propagationPolicy": "Nonsense"}, {"propagationPolicy": 7}] {
		got := found with input as delete_object("", "configmaps", [], options)
			with data.cluster.webhooks as webhooks
			with data.cluster.blocked as blocked("demo", [
				refuses("DELETE", "configmaps", "", "will"),
				refuses("UPDATE", "configmaps", "", "will"),
			])
		got == nothing
	}
}

delete_crd := object.union(
	delete_object("apiextensions.k8s.io", "customresourcedefinitions", ["customresourcecleanup.apiextensions.k8s.io"], {}),
	{"request": {"namespace": ""}},
)

test_crd_is_cleaned_up_by_way_of_its_status if {
	crds := "customresourcedefinitions.apiextensions.k8s.io"
	got := found with input as delete_crd
		with data.cluster.webhooks as webhooks
		with data.cluster.blocked as blocked("", [refuses("UPDATE", crds, "", "will"), refuses("UPDATE", crds, "status", "will")])
	seen := sprintf("UPDATE %s/status", [crds])
	got == {"deny": {finding(sprintf("%s is refused", [seen]), [seen])}, "warn": set()}
}

# An eviction.

evict(ownership) := {
	"request": {
		"operation": "CREATE",
		"resource": {"group": "", "version": "v1", "resource": "pods"},
		"subResource": "eviction",
		"name": "web-0",
		"namespace": "demo",
		"object": {"kind": "Eviction"},
	},
	"ownership": ownership,
}

pods(pod) := {"demo": {"web-0": pod}}

test_evicted if {
	got := found with input as evict({})
		with data.cluster.webhooks as webhooks
		with data.cluster.pods as pods({"node": "n1", "phase": "Running"})
		with data.cluster.blocked as blocked("demo", [refuses("DELETE", "pods", "", "will"), refuses("UPDATE", "pods", "", "will")])
	got == {"deny": {finding("DELETE pods is refused", ["DELETE pods"])}, "warn": set()}
}

test_evicted_with_finalizers if {
	got := found with input as evict({"x.io/f": {"state": "alive", "certainty": "will"}})
		with data.cluster.webhooks as webhooks
		with data.cluster.pods as pods({"phase": "Pending"})
		with data.cluster.blocked as blocked("demo", [refuses("DELETE", "pods", "", "will"), refuses("UPDATE", "pods", "", "will")])
	got == {"deny": {finding("UPDATE pods is refused", ["UPDATE pods"])}, "warn": set()}
}

test_evicted_when_finished if {
	got := found with input as evict({})
		with data.cluster.webhooks as webhooks
		with data.cluster.pods as pods({"node": "n1", "phase": "Succeeded"})
		with data.cluster.blocked as blocked("demo", [refuses("DELETE", "pods", "", "will"), refuses("UPDATE", "pods", "", "will")])
	got == nothing
}
