package termguard.long_grace_period_test

import data.termguard.long_grace_period as policy

create(spec) := {"request": {
	"operation": "CREATE",
	"resource": {"group": "apps", "version": "v1", "resource": "deployments"},
	"name": "web",
	"namespace": "demo",
	"object": {"spec": {"template": {"spec": spec}}},
}}

finding(grace, estimate, evidence) := {
	"msg": sprintf("a delete may wait up to %d s for the pods of deployments.apps/web: the grace period is %d s", [estimate, grace]),
	"objects": [{"resource": "deployments.apps", "namespace": "demo", "name": "web"}],
	"evidence": evidence,
	"estimate_seconds": estimate,
	"field": "spec.template.spec.terminationGracePeriodSeconds",
}

test_long if {
	got := policy.warn with input as create({"terminationGracePeriodSeconds": 600, "containers": [{"name": "web"}]})
	got == {finding(600, 600, [])}
}

test_with_hook if {
	web := {"name": "web", "lifecycle": {"preStop": {"sleep": {"seconds": 300}}}}
	got := policy.warn with input as create({"terminationGracePeriodSeconds": 300, "containers": [web]})
	got == {finding(300, 302, ["container web has a preStop hook, which runs within the grace period"])}
}

test_short if {
	got := policy.warn with input as create({"terminationGracePeriodSeconds": 299})
	got == set()
}

test_threshold_of_ones_own if {
	got := policy.warn with input as create({"terminationGracePeriodSeconds": 120})
		with data.params["long-grace-period"].seconds as 120
	got == {finding(120, 120, [])}
}
