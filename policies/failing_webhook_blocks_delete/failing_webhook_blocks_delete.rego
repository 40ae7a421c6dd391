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
	some key, blocked in data.cluster.blocked[lib.within]
	requests := [request | some request in blocked; request in lib.needed]
	count(requests) > 0
}

finding(key, requests, outcome) := {
	"msg": sprintf("webhook %s fails closed and Service %s is down: %s %s goes through", [id, service, told[0], lib.more(told, outcome)]),
	"objects": [{"resource": resource, "namespace": "", "name": hook.configuration}],
	"evidence": array.concat(
		[sprintf("%s, failurePolicy Fail: %s", [key, hook.backend.reason])],
		[sprintf("it sees %s (%d %s)", [lib.described(request), request.count, lib.plural(request.count, "object", "objects")]) |
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
	told := sort([lib.described(request) | some request in requests])
}
