package termguard.unavailable_apiservice_test

import data.termguard.unavailable_apiservice as policy

delete_namespace := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "namespaces"},
	"name": "demo",
	"namespace": "demo",
}}

service(changes) := {"v1beta1.metrics.k8s.io": object.union(
	{
		"group": "metrics.k8s.io",
		"version": "v1beta1",
		"service": {"namespace": "monitoring", "name": "prometheus-adapter"},
		"available": "True",
		"reason": "Passed",
		"message": "all checks passed",
		"stale": false,
		"listError": "",
	},
	changes,
)}

steps := [
	{"kind": "mend", "do": "Bring back Service monitoring/prometheus-adapter: what it holds then finishes by itself"},
	{
		"kind": "remove",
		"do": concat(", ", [
			"If its software is gone for good",
			"delete the APIService, which removes no data (clearing spec.finalizers would leave orphans)",
		]),
		"action": {"verb": "delete", "objects": ["apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io"], "namespace": "", "noWait": true},
	},
]

finding(msg, evidence) := {
	"msg": msg,
	"objects": [{"resource": "apiservices.apiregistration.k8s.io", "namespace": "", "name": "v1beta1.metrics.k8s.io"}],
	"evidence": evidence,
	"steps": steps,
}

found := {"deny": policy.deny, "warn": policy.warn}

test_unavailable_just_now if {
	got := found with input as delete_namespace
		with data.cluster.apiservices as service({"available": "False", "reason": "MissingEndpoints", "message": "none"})
	got == {
		"deny": set(),
		"warn": {finding(
			"APIService v1beta1.metrics.k8s.io is unavailable (MissingEndpoints), so namespaces may not finish deleting",
			["Available=False, MissingEndpoints: none", "it is served by Service monitoring/prometheus-adapter"],
		)},
	}
}

test_unavailable if {
	got := found with input as delete_namespace
		with data.cluster.apiservices as service({"available": "False", "reason": "ServiceNotFound", "message": "not present", "stale": true})
	got == {
		"deny": {finding(
			"APIService v1beta1.metrics.k8s.io is unavailable (ServiceNotFound), so no namespace can finish deleting",
			["Available=False, ServiceNotFound: not present", "it is served by Service monitoring/prometheus-adapter"],
		)},
		"warn": set(),
	}
}

test_not_checked_yet if {
	got := found with input as delete_namespace
		with data.cluster.apiservices as service({"available": "Unknown", "reason": "NotChecked", "message": "?"})
	got == {
		"deny": set(),
		"warn": {finding(
			"APIService v1beta1.metrics.k8s.io may be unavailable (NotChecked), so namespaces may not finish deleting",
			["Available=Unknown, NotChecked: ?", "it is served by Service monitoring/prometheus-adapter"],
		)},
	}
}

test_available_but_stale if {
	got := found with input as delete_namespace
		with data.cluster.apiservices as service({"stale": true})
	got == {
		"deny": {finding(
			"APIService v1beta1.metrics.k8s.io counts as available, but its discovery fails, so no namespace can finish deleting",
			["Available=True, Passed: all checks passed", "it is served by Service monitoring/prometheus-adapter"],
		)},
		"warn": set(),
	}
}

test_available_but_lists_fail if {
	got := found with input as delete_namespace
		with data.cluster.apiservices as service({"listError": "503"})
	got == {
		"deny": {finding(
			"APIService v1beta1.metrics.k8s.io counts as available, but its objects cannot be listed, so no namespace can finish deleting",
			[
				"Available=True, Passed: all checks passed",
				"it is served by Service monitoring/prometheus-adapter",
				"listing its objects fails: 503",
			],
		)},
		"warn": set(),
	}
}

test_available if {
	got := found with input as delete_namespace with data.cluster.apiservices as service({})
	got == {"deny": set(), "warn": set()}
}

test_other_objects_are_deleted_all_the_same if {
	request := json.patch(delete_namespace, [{"op": "replace", "path": "/request/resource/resource", "value": "configmaps"}])
	got := found with input as request
		with data.cluster.apiservices as service({"available": "False"})
	got == {"deny": set(), "warn": set()}
}
