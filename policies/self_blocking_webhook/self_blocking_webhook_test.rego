package termguard.self_blocking_webhook_test

import data.termguard.self_blocking_webhook as policy

configuration(type) := {
	"resource": sprintf("%swebhookconfigurations.admissionregistration.k8s.io", [type]),
	"namespace": "",
	"name": "guard",
}

found(type, hook, known) := warn if {
	warn := policy.warn with input as {"request": {
		"operation": "CREATE",
		"resource": {"group": "admissionregistration.k8s.io", "version": "v1", "resource": sprintf("%swebhookconfigurations", [type])},
		"name": "guard",
		"object": {"webhooks": [object.union(
			{"name": "guard.example.com", "clientConfig": {"service": {"namespace": "guard", "name": "guard"}}},
			hook,
		)]},
	}}
		with data.cluster.webhooks as {sprintf("%s/guard/guard.example.com", [type]): known}
}

test_own_pods if {
	every type in ["validating", "mutating"] {
		found(type, {}, {"ownPods": "will"}) == {{
			"msg": "webhook guard.example.com sees the creation of its own pods: once all are gone, none can come back",
			"objects": [configuration(type), {"resource": "services", "namespace": "guard", "name": "guard"}],
			"evidence": ["failurePolicy Fail, served from namespace guard"],
			"field": "webhooks[0].rules",
		}}
	}
}

everywhere(hook, held) := found("validating", hook, {"everywhere": held})

test_everywhere if {
	everywhere({}, ["pods", "everything"]) == {{
		"msg": "webhook guard.example.com fails closed and sees every namespace: while its backend is down, nothing in them can be deleted",
		"objects": [configuration("validating"), {"resource": "services", "namespace": "guard", "name": "guard"}],
		"evidence": ["failurePolicy Fail", "and no pod in them can be deleted"],
		"field": "webhooks[0].rules",
		"manifest": {"severity": "high"},
	}}
}

test_nearly_everywhere if {
	selective := {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}
	some finding in everywhere(selective, ["finalizers"])
	said := "sees every namespace except those that it leaves out: while its backend is down, no finalizer in them can"
	contains(finding.msg, said)
}

# Pods of Jobs have a finalizer; other pods mostly have none.
test_jobs if {
	[finding] := [finding | some finding in everywhere({}, ["jobs"])]
	endswith(finding.msg, "while its backend is down, no pod of a Job that runs in them can be deleted")
	finding.manifest.severity == "info"
	[both] := [finding | some finding in everywhere({}, ["pods", "jobs"])]
	both.evidence == ["failurePolicy Fail", "and no pod of a Job that runs in them can be deleted"]
	both.manifest.severity == "high"
}

test_workloads if {
	[finding] := [finding | some finding in everywhere({}, ["deployments.apps", "statefulsets.apps"])]
	endswith(finding.msg, "while its backend is down, none of the deployments.apps, statefulsets.apps in them can be deleted")
	finding.manifest.severity == "medium"
}

test_by_url if {
	got := policy.warn with input as {"request": {
		"operation": "CREATE",
		"resource": {"group": "admissionregistration.k8s.io", "version": "v1", "resource": "validatingwebhookconfigurations"},
		"name": "guard",
		"object": {"webhooks": [{"name": "guard.example.com", "clientConfig": {"url": "https://example.com"}}]},
	}}
		with data.cluster.webhooks as {"validating/guard/guard.example.com": {"everywhere": ["pods"]}}
	[finding.objects | some finding in got] == [[configuration("validating")]]
}

home(calls) := found("validating", {}, {"home": calls})

test_own_kinds if {
	home(["DELETE things.example.com", "UPDATE things.example.com"]) == {{
		"msg": concat("", [
			"webhook guard.example.com fails closed in namespace guard, which serves it: ",
			"once that is deleted, its things.example.com may be left behind",
		]),
		"objects": [configuration("validating"), {"resource": "services", "namespace": "guard", "name": "guard"}],
		"evidence": ["failurePolicy Fail, and it sees DELETE things.example.com, UPDATE things.example.com there"],
		"field": "webhooks[0].rules",
		"manifest": {"severity": "low"},
	}}
	[finding.manifest.severity | some finding in home(["UPDATE things.example.com"])] == ["info"]
}

test_several_webhooks if {
	hook := {"name": "guard.example.com", "clientConfig": {"service": {"namespace": "guard", "name": "guard"}}}
	got := policy.warn with input as {"request": {
		"operation": "CREATE",
		"resource": {"group": "admissionregistration.k8s.io", "version": "v1", "resource": "validatingwebhookconfigurations"},
		"name": "guard",
		"object": {"webhooks": [hook, hook, hook]},
	}}
		with data.cluster.webhooks as {"validating/guard/guard.example.com": {"home": ["UPDATE things.example.com"]}}
	[finding.evidence[1] | some finding in got] == ["the same is true of 2 more of its webhooks"]
}

test_cluster_scoped_kinds if {
	calls := ["DELETE things.example.com", "UPDATE things.example.com"]
	home(calls) == set() with data.cluster.crds as {"things.example.com": {"scope": "Cluster"}}
	count(home(calls)) == 1 with data.cluster.crds as {"things.example.com": {"scope": "Namespaced"}}
	both := ["DELETE parts.example.com", "DELETE things.example.com"]
	some finding in home(both) with data.cluster.crds as {"parts.example.com": {"scope": "Cluster"}}
	contains(finding.msg, "its things.example.com may be left behind")
}

test_whole_groups if {
	defined := {
		"things.example.com": {"scope": "Namespaced"},
		"clusterthings.example.com": {"scope": "Cluster"},
		"others.sub.example.com": {"scope": "Namespaced"},
	}
	[finding] := [finding | some finding in home(["UPDATE *.example.com"]) with data.cluster.crds as defined]
	finding.evidence[0] == "failurePolicy Fail, and it sees UPDATE things.example.com there"
	home(["UPDATE *.example.com"]) == set() with data.cluster.crds as {}
}

test_several_groups if {
	calls := ["UPDATE routes.a.example.com", "UPDATE routes.b.example.com"]
	[finding] := [finding |
		some finding in home(calls) with data.cluster.crds as {"routes.b.example.com": {"scope": "Namespaced"}}
	]
	finding.evidence[0] == "failurePolicy Fail, and it sees UPDATE routes.b.example.com there"
	[both] := [finding | some finding in home(calls) with data.cluster.crds as {}]
	both.evidence[0] == "failurePolicy Fail, and it sees UPDATE routes.a.example.com, UPDATE routes.b.example.com there"
}

test_no_name_of_its_own if {
	every namespace in ["system", "$(namespace)", "default"] {
		hook := {"clientConfig": {"service": {"namespace": namespace, "name": "guard"}}}
		found("validating", hook, {"home": ["DELETE things.example.com"]}) == set()
	}
}

test_harmless if {
	found("validating", {}, {}) == set()
}
