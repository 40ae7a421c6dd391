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

rule(operations, resource) := {"rules": [{"operations": operations, "apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource]}]}

everything(operations, loss) := {{
	"msg": sprintf("webhook guard.example.com sees every %s: while its backend is down, %s", [operations, loss]),
	"objects": [configuration("validating")],
	"evidence": ["failurePolicy Fail, no selectors and no matchConditions"],
	"field": "webhooks[0].rules",
}}

test_everything if {
	found("validating", rule(["*"], "*/*"), {}) == everything("DELETE and UPDATE", "nothing in the cluster can be deleted")
	found("validating", rule(["UPDATE"], "*"), {}) == everything("UPDATE", "no finalizer in the cluster can be removed")
}

test_harmless if {
	every hook in [
		rule(["CREATE"], "*"),
		rule(["DELETE"], "pods"),
		object.union(rule(["DELETE"], "*"), {"failurePolicy": "Ignore"}),
		object.union(rule(["DELETE"], "*"), {"namespaceSelector": {"matchLabels": {"guarded": "true"}}}),
		{},
	] {
		found("validating", hook, {}) == set()
	}
}
