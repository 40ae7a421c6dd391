# METADATA
# title: Webhook that refuses what a deletion needs
# description: >-
#   A webhook with failurePolicy Fail refuses whatever it matches while nothing
#   answers behind it. A deletion is more than the request of the person who
#   starts it: the namespace controller deletes each object of a namespace and
#   then updates namespaces/finalize, the kubelet deletes a pod a second time,
#   and whoever owns a finalizer removes it with an UPDATE. If the webhook sees
#   one of these, the deletion starts and never finishes.
# related_resources:
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#failure-policy
#     description: The failure policy of a webhook.
#   - ref: https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/
#     description: Good practice for admission webhooks.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/deletion/namespaced_resources_deleter.go
#     description: The requests of the namespace controller; it goes on where namespaces/status is refused.
# custom:
#   id: failing-webhook-blocks-delete
#   severity: high
#   triggers: [delete]
#   needs: [data.cluster.blocked]
#   remedy: >-
#     Bring the Service behind the webhook back, and what waits for it finishes
#     by itself. If its software is gone for good, delete its configuration.
#     Setting failurePolicy to Ignore helps too, at a price: until it is set back,
#     everything that the webhook should check goes through unchecked.
#   limits: >-
#     A backend that is up and refuses or times out. Webhooks that are called by
#     URL. Which objects carry the labels of an objectSelector, and
#     matchConditions that read the object: the finding then says "may". A
#     finalizer that the delete itself adds (foregroundDeletion, orphan) counts
#     where other objects of its kind in the namespace have finalizers already.
package termguard.failing_webhook_blocks_delete

import data.termguard.lib

deny contains finding(key, requests, "never") if {
	not lib.evicting
	some key, requests in refused
	sure(requests)
}

# The API server evicts whatever a webhook says of the delete.
warn contains finding(key, requests, "never") if {
	lib.evicting
	some key, requests in refused
	sure(requests)
}

warn contains finding(key, requests, "perhaps never") if {
	some key, requests in refused
	not sure(requests)
}

sure(requests) if {
	some request in requests
	request.certainty == "will"
}

# refused are the requests that the deletion needs, by webhook.
refused[key] := requests if {
	some key, blocked in data.cluster.blocked[within]
	requests := [request | some request in blocked; request in needed]
	count(requests) > 0
}

# within is the namespace that the requests are about.
within := lib.name if lib.resource == "namespaces"

within := lib.namespace if lib.resource != "namespaces"

# What the content of a namespace needs. A refused update of namespaces/status
# does not stop the namespace controller.
needed contains request if {
	lib.deletes_namespace
	some blocked in data.cluster.blocked[within]
	some request in blocked
	request.subresource != "status"
}

# The update that removes the finalizers of an object. The request to delete the
# object itself fails at once where a webhook refuses it: that is no hang.
needed contains request if {
	lib.deleting
	some blocked in data.cluster.blocked[within]
	some request in blocked
	request.operation == "UPDATE"
	request.resource == lib.resource
	request.subresource == ""
	some finalizer in finalizers
	finalizer != crd_cleanup
}

# The API server itself removes this one, by way of the status.
needed contains request if {
	lib.deleting
	lib.resource == "customresourcedefinitions.apiextensions.k8s.io"
	crd_cleanup in finalizers
	some blocked in data.cluster.blocked[within]
	some request in blocked
	request.resource == lib.resource
	request.subresource == "status"
}

# The delete that an eviction causes is shown to no webhook, but the kubelet's,
# once the pod has stopped, is.
needed contains request if {
	lib.evicting
	pod := data.cluster.pods[lib.namespace][lib.name]
	pod.node
	not pod.phase in lib.finished
	some blocked in data.cluster.blocked[within]
	some request in blocked
	request.operation == "DELETE"
	request.resource == "pods"
}

needed contains request if {
	lib.evicting
	count(input.ownership) > 0
	some blocked in data.cluster.blocked[within]
	some request in blocked
	request.operation == "UPDATE"
	request.resource == "pods"
}

crd_cleanup := "customresourcecleanup.apiextensions.k8s.io"

# finalizers of the object under review, and those that its delete brings.
finalizers contains finalizer if some finalizer in input.request.oldObject.metadata.finalizers

finalizers contains "foregroundDeletion" if input.request.options.propagationPolicy == "Foreground"

finalizers contains "orphan" if input.request.options.propagationPolicy == "Orphan"

finding(key, requests, outcome) := {
	"msg": sprintf("webhook %s fails closed and Service %s is down: %s %s goes through", [id, service, told[0], more(told, outcome)]),
	"objects": [{"resource": resource, "namespace": "", "name": hook.configuration}],
	"evidence": array.concat(
		[sprintf("%s, failurePolicy Fail: %s", [key, hook.backend.reason])],
		[sprintf("it sees %s (%d %s)", [described(request), request.count, lib.plural(request.count, "object", "objects")]) |
			some request in requests
		],
	),
	"steps": [
		lib.mend(sprintf("Bring back Service %s: what waits then finishes by itself", [service]), []),
		lib.remove(
			"If its software is gone for good, delete the webhook configuration",
			lib.deletion([sprintf("%s/%s", [resource, hook.configuration])], ""),
		),
		lib.force(
			sprintf(
				"Set failurePolicy of webhook %s to Ignore: until it is set back, what it should check goes through unchecked",
				[hook.name],
			),
			[],
		),
	],
} if {
	hook := data.cluster.webhooks[key]
	id := sprintf("%s/%s", [hook.configuration, hook.name])
	service := sprintf("%s/%s", [hook.service.namespace, hook.service.name])
	resource := sprintf("%swebhookconfigurations.admissionregistration.k8s.io", [hook.type])
	told := sort([described(request) | some request in requests])
}

described(request) := sprintf("%s %s%s", [request.operation, request.resource, part(request.subresource)])

part("") := ""

part(subresource) := sprintf("/%s", [subresource]) if subresource != ""

more(told, outcome) := outcome if count(told) == 1

more(told, outcome) := sprintf("(and %d more) %s", [count(told) - 1, outcome]) if count(told) > 1
