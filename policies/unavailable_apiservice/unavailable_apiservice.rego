# METADATA
# title: Unavailable aggregated API
# description: >-
#   The Service behind an APIService does not answer. Before the namespace controller
#   finishes a namespace it discovers every API of the cluster, and it stops at the first
#   one that it cannot read. One broken APIService therefore keeps every namespace
#   Terminating, even one without an object of that API. Other kinds of objects are
#   deleted as usual.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/75788
#     description: The deletion of a namespace depends on unrelated APIServices.
#   - ref: https://github.com/kubernetes/kubernetes/issues/83332
#     description: One broken metrics-server blocks all namespaces.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/staging/src/k8s.io/kube-aggregator/pkg/apiserver/handler_discovery.go
#     description: How long cached discovery is used.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/deletion/namespaced_resources_deleter.go
#     description: The namespace controller's passes.
# custom:
#   id: unavailable-apiservice
#   severity: high
#   class: broken
#   triggers: [delete]
#   resources: [namespaces]
#   needs: [data.cluster.apiservices]
#   relies_on:
#     - kinds: [apiservices.apiregistration.k8s.io]
#   remedy: >-
#     Restore the Service behind the APIService, and all Terminating namespaces finish by
#     themselves. If its software was uninstalled, delete the APIService: that removes no
#     data. Clearing spec.finalizers of the namespace instead orphans its content.
#   limits: >-
#     An APIService that breaks after the delete. The API server checks availability and
#     discovery every 30 to 60 seconds: for about a minute a broken APIService still
#     counts as available, and a repaired one as broken.
package termguard.unavailable_apiservice

import data.termguard.lib.request
import data.termguard.lib.steps

deny contains finding(name, service, why, outcome) if {
	some name, service in suspects
	service.available == "False"
	service.stale
	why := sprintf("is unavailable (%s)", [service.reason])
	outcome := "no namespace can finish deleting"
}

deny contains finding(name, service, why, outcome) if {
	some name, service in suspects
	service.available == "True"
	some failure in failures(service)
	why := sprintf("counts as available, but %s", [failure])
	outcome := "no namespace can finish deleting"
}

# The API server keeps the last discovery of a group for up to a minute (kube-aggregator,
# discoveryRefreshInterval): fast deletions still finish.
warn contains finding(name, service, why, outcome) if {
	some name, service in suspects
	service.available == "False"
	not service.stale
	why := sprintf("is unavailable (%s)", [service.reason])
	outcome := "namespaces may not finish deleting"
}

warn contains finding(name, service, why, outcome) if {
	some name, service in suspects
	service.available == "Unknown"
	why := sprintf("may be unavailable (%s)", [service.reason])
	outcome := "namespaces may not finish deleting"
}

suspects[name] := service if {
	request.deletes_namespace
	some name, service in data.cluster.apiservices
	[service.available, service.stale, service.listError] != ["True", false, ""]
}

# failures lists problems that the API server's own check missed.
failures(service) := ["its discovery fails"] if service.stale

failures(service) := ["its objects cannot be listed"] if {
	not service.stale
	service.listError != ""
}

finding(name, service, why, outcome) := {
	"msg": sprintf("APIService %s %s, so %s", [name, why, outcome]),
	"cause": {"title": sprintf("APIService %s %s", [name, why])},
	"objects": [{"resource": "apiservices.apiregistration.k8s.io", "namespace": "", "name": name}],
	"evidence": array.concat(
		[
			sprintf("Available=%s, %s: %s", [service.available, service.reason, service.message]),
			sprintf("it is served by Service %s/%s", [service.service.namespace, service.service.name]),
		],
		[sprintf("listing its objects fails: %s", [service.listError]) | service.listError != ""],
	),
	"steps": [
		steps.then(
			"itself", sprintf("Restore Service %s/%s", [service.service.namespace, service.service.name]),
			[],
		),
		steps.remove(
			sprintf(
				"If the software behind %s was uninstalled, delete the APIService: no data is lost (clearing spec.finalizers would leave orphans)",
				[name],
			),
			steps.deletion([sprintf("apiservices.apiregistration.k8s.io/%s", [name])], ""),
		),
	],
}
