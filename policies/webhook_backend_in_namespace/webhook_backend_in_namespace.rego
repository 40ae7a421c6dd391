# METADATA
# title: Webhook whose backend goes with the namespace
# description: >-
#   A webhook with failurePolicy Fail is served from the namespace that is deleted.
#   Its pods go before anything else does; from then on it refuses whatever it matches,
#   and that includes what the namespace controller, the kubelet and the owners of
#   finalizers still have to do there. The configuration is cluster-scoped and stays.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/
#     description: Good practice for admission webhooks.
#   - ref: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5080-ordered-namespace-deletion
#     description: Pods go first since 1.33.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/deletion/namespaced_resources_deleter.go
#     description: The namespace controller's passes.
# custom:
#   id: webhook-backend-in-namespace
#   severity: high
#   triggers: [delete]
#   resources: [namespaces]
#   needs: [data.cluster.selfBlocked.$NAMESPACE]
#   remedy: >-
#     Delete the webhook's configuration first: without its backend it checks nothing
#     anyway. If it is too late, delete it then, and the namespace finishes by itself.
#   limits: >-
#     Backends that are reached by URL. Which objects carry the labels of an
#     objectSelector, and matchConditions that read the object, or who removes a
#     finalizer: the finding then says "may", as it does where no pod that takes time
#     to stop separates the end of the backend from that of the rest.
package termguard.webhook_backend_in_namespace

import data.termguard.lib

deny contains finding(key, requests, "never") if {
	some key, requests in refused
	some request in requests
	sure(key, request)
}

warn contains finding(key, requests, "perhaps never") if {
	some key, requests in refused
	every request in requests {
		not sure(key, request)
	}
}

# refused are the requests that remain to be done when the backend is gone. A
# refused update of namespaces/status does not stop the namespace controller.
refused[key] := requests if {
	lib.deletes_namespace
	some key, blocked in data.cluster.selfBlocked[lib.name]
	requests := [request | some request in blocked; request.subresource != "status"]
	count(requests) > 0
}

# The namespace controller goes on to what is not a pod in a later pass, when the
# pods behind the Service have stopped. Whether the kubelet's own request to remove
# a pod still finds one of them is a race.
sure(key, request) if {
	request.certainty == "will"
	request.resource != "pods"
	data.cluster.podsByGrace[lib.name]
	count(object.get(data.cluster.webhooks[key].backend, "workloads", [])) > 0
}

# Without pods all goes in one pass, in any order; but this comes last.
sure(_, request) if {
	request.certainty == "will"
	[request.resource, request.subresource] == ["namespaces", "finalize"]
}

finding(key, requests, outcome) := {
	"msg": sprintf(
		"webhook %s fails closed and is served from this namespace: with that gone, %s %s goes through",
		[hook.name, told[0], lib.more(told, outcome)],
	),
	"objects": [{"resource": resource, "namespace": "", "name": hook.configuration}],
	"evidence": array.concat(
		[sprintf("%s, failurePolicy Fail, calls Service %s/%s", [key, hook.service.namespace, hook.service.name])],
		[sprintf("it sees %s (%d %s)", [lib.described(request), request.count, lib.plural(request.count, "object", "objects")]) |
			some request in requests
		],
	),
	"steps": [lib.remove(
		"Delete the webhook configuration before its backend: without that it checks nothing",
		lib.deletion([sprintf("%s/%s", [resource, hook.configuration])], ""),
	)],
} if {
	hook := data.cluster.webhooks[key]
	resource := sprintf("%swebhookconfigurations.admissionregistration.k8s.io", [hook.type])
	told := sort([lib.described(request) | some request in requests])
}
