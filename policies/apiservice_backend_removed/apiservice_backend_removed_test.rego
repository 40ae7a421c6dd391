package termguard.apiservice_backend_removed_test

import data.termguard.apiservice_backend_removed as policy

delete(group, resource, namespace, name) := {"request": {
	"operation": "DELETE",
	"resource": {"group": group, "version": "v1", "resource": resource},
	"name": name,
	"namespace": namespace,
}}

delete_namespace := delete("", "namespaces", "monitoring", "monitoring")

adapter := "v1beta1.metrics.k8s.io"

service(changes) := {adapter: object.union(
	{
		"group": "metrics.k8s.io",
		"version": "v1beta1",
		"service": {"namespace": "monitoring", "name": "adapter"},
		"backend": {"state": "up", "reason": "", "workloads": [{"resource": "deployments.apps", "name": "server"}]},
		"available": "True",
		"reason": "Passed",
		"message": "all checks passed",
		"stale": false,
		"listError": "",
	},
	changes,
)}

finalized(resource) := {"monitoring": {"x.io/f": {resource: {"": {"count": 1}}}}}

finding(msg, evidence) := {
	"msg": sprintf("APIService v1beta1.metrics.k8s.io %s", [msg]),
	"objects": [
		{"resource": "apiservices.apiregistration.k8s.io", "namespace": "", "name": adapter},
		{"resource": "services", "namespace": "monitoring", "name": "adapter"},
	],
	"evidence": array.concat(["it is served by Service monitoring/adapter, which goes"], evidence),
	"steps": [{
		"kind": "remove",
		"do": "Delete the APIService before what serves it: that removes no data",
		"action": {"verb": "delete", "objects": ["apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io"], "namespace": "", "noWait": true},
	}],
	"manifest": {},
}

test_content_with_finalizers_mostly_outlasts_the_service if {
	got := policy.warn with input as delete_namespace
		with data.cluster.apiservices as service({})
		with data.cluster.finalized as finalized("widgets.x.io")
	got == {finding(
		"is served from namespace monitoring: once that is gone, no namespace, probably not even this one, can finish deleting",
		["namespace monitoring holds widgets.x.io with finalizers, which mostly outlast the Service"],
	)}
}

test_the_rest_goes_in_time if {
	every resource in ["pods", ""] {
		got := policy.warn with input as delete_namespace
			with data.cluster.apiservices as service({})
			with data.cluster.finalized as {k: v | some k, v in finalized("pods"); resource != ""}
		got == {finding("is served from namespace monitoring: once that is gone, no other namespace can finish deleting", [])}
	}
}

test_service_or_the_only_workload_behind_it if {
	every request, name in {
		delete("", "services", "monitoring", "adapter"): "services/adapter",
		delete("apps", "deployments", "monitoring", "server"): "deployments.apps/server",
	} {
		got := policy.warn with input as request with data.cluster.apiservices as service({})
		got == {finding(sprintf("depends on %s: once that is gone, no namespace can finish deleting", [name]), [])}
	}
}

test_nobody_deletes_its_namespace if {
	got := policy.warn with input as delete("", "services", "kube-system", "adapter")
		with data.cluster.apiservices as service({"service": {"namespace": "kube-system", "name": "adapter"}})
	[finding.manifest.severity | some finding in got] == ["info"]
}

# An installer may put it into such a namespace.
test_namespace_to_be_filled_in if {
	got := policy.warn with input as delete("", "services", "${NAMESPACE}", "adapter")
		with data.cluster.apiservices as service({"service": {"namespace": "${NAMESPACE}", "name": "adapter"}})
	[finding.manifest.severity | some finding in got] == ["info"]
}

test_something_else if {
	every request in [
		delete("", "namespaces", "other", "other"),
		delete("", "services", "other", "adapter"),
		delete("", "services", "monitoring", "other"),
		delete("apps", "deployments", "monitoring", "other"),
		delete("apps", "statefulsets", "monitoring", "server"),
		delete("apps", "deployments", "other", "server"),
	] {
		got := policy.warn with input as request with data.cluster.apiservices as service({})
		got == set()
	}
}

test_another_workload_remains if {
	got := policy.warn with input as delete("apps", "deployments", "monitoring", "server")
		with data.cluster.apiservices as service({"backend": {"workloads": [
			{"resource": "deployments.apps", "name": "other"},
			{"resource": "deployments.apps", "name": "server"},
		]}})
	got == set()
}

test_broken_already if {
	every change in [{"available": "False"}, {"stale": true}, {"listError": "503"}] {
		got := policy.warn with input as delete_namespace with data.cluster.apiservices as service(change)
		got == set()
	}
}

test_update if {
	update := {"request": object.union(delete_namespace.request, {"operation": "UPDATE"})}
	got := policy.warn with input as update with data.cluster.apiservices as service({})
	got == set()
}
