# METADATA
# title: Aggregated API loses its backend
# description: >-
#   The Service behind an APIService is deleted, and the APIService stays, because it is
#   cluster-scoped. The namespace controller can then no longer discover every API, so no
#   namespace finishes. That includes the Service's own namespace, unless it finishes in
#   the pass that deletes the Service: objects with finalizers usually take longer, while
#   pods are deleted in an earlier pass.
# related_resources:
#   - ref: https://github.com/prometheus-operator/kube-prometheus/issues/275
#     description: A namespace with an adapter hangs because of its own APIService.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/deletion/namespaced_resources_deleter.go
#     description: The namespace controller's passes.
#   - ref: https://github.com/kubernetes/kube-aggregator/blob/v0.36.3/pkg/apiserver/handler_discovery.go
#     description: When discovery of an aggregated API is read again.
# custom:
#   id: apiservice-backend-removed
#   severity: high
#   class: order
#   triggers: [delete]
#   needs:
#     - data.cluster.apiservices.*.service.namespace is $NAMESPACE for namespaces
#     - data.cluster.apiservices.*.service.name is $NAME for services
#     - data.cluster.apiservices.*.backend.workloads.*.name is $NAME
#   relies_on:
#     - kinds: [apiservices.apiregistration.k8s.io]
#       for: [services, deployments.apps, statefulsets.apps, daemonsets.apps]
#   remedy: >-
#     Delete the APIService first. That removes no data, and the rest of its software is
#     deleted with the namespace. If namespaces are Terminating already, delete the
#     APIService, and they finish by themselves. Forcing a namespace instead orphans its
#     content.
#   manifest:
#     once: true
#     remedy: >-
#       Ship it in a namespace of its own, with the APIService before its Service in the
#       file: objects are deleted in the order of the file.
#   limits: >-
#     Whether the Service's own namespace finishes is a race if a controller removes its
#     finalizers within milliseconds, or if pods are deleted while other objects block the
#     namespace. The pods of a Deployment that is deleted with --cascade=orphan. Services
#     whose endpoints are maintained by hand.
package termguard.apiservice_backend_removed

import data.termguard.lib.request
import data.termguard.lib.steps

warn contains finding(name, service, msg) if {
	request.deletes_namespace
	some name, service in lost
	msg := sprintf("APIService %s is served from namespace %s: after that is deleted, %s can finish deleting", [name, request.name, others])
}

warn contains finding(name, service, msg) if {
	not request.deletes_namespace
	some name, service in lost
	msg := sprintf("APIService %s depends on %s: after that is deleted, no namespace can finish deleting", [name, request.word])
}

# A fast controller may remove its finalizer before the pass that deletes the Service ends.
default others := "no other namespace"

others := "no namespace, probably not even this one," if count(later) > 0

lost[name] := service if {
	request.deleting
	some name, service in data.cluster.apiservices
	[service.available, service.stale, service.listError] == ["True", false, ""]
	loses(service)
}

loses(service) if {
	request.deletes_namespace
	service.service.namespace == request.name
}

loses(service) if {
	request.resource == "services"
	service.service == {"namespace": request.namespace, "name": request.name}
}

loses(service) if {
	service.service.namespace == request.namespace
	service.backend.workloads == [{"resource": request.resource, "name": request.name}]
}

# later lists the kinds that outlast the pass that deletes Services. Pods are deleted earlier.
later contains resource if {
	request.deletes_namespace
	some resources in data.cluster.finalized[request.name]
	some resource, _ in resources
	resource != "pods"
}

finding(name, service, msg) := {
	"msg": msg,
	"objects": [
		{"resource": "apiservices.apiregistration.k8s.io", "namespace": "", "name": name},
		{"resource": "services", "namespace": service.service.namespace, "name": service.service.name},
	],
	"evidence": array.concat(
		[sprintf("it is served by Service %s/%s, which is deleted", [service.service.namespace, service.service.name])],
		[sprintf("namespace %s has %s with finalizers, which usually outlast the Service", [request.name, resource]) | some resource in later],
	),
	"steps": [steps.remove(
		"Delete the APIService before its backend: that removes no data",
		steps.deletion([sprintf("apiservices.apiregistration.k8s.io/%s", [name])], ""),
	)],
	"manifest": unavoidable(service.service),
}

default unavoidable(_) := {}

# A manifest cannot avoid it if the namespace is never deleted.
unavoidable(service) := {
	"severity": "info",
	"remedy": "Nothing in this manifest: when uninstalling it, delete the APIService first.",
} if {
	no_choice(service.namespace)
}

# no_choice reports whether the namespace is never deleted, or is a template value.
no_choice(namespace) if namespace in request.immortal

no_choice(namespace) if not regex.match(`^[a-z0-9-]+$`, namespace)
