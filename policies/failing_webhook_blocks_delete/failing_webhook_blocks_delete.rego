# METADATA
# title: Webhook that denies a request of a deletion
# description: >-
#   A webhook with failurePolicy Fail denies all requests that it matches while its
#   backend does not answer, its caBundle does not match the backend's certificate, or one
#   of its matchConditions cannot be evaluated. A deletion needs more requests than the
#   first: the namespace controller deletes the content of a namespace and updates
#   namespaces/finalize, the kubelet deletes a pod a second time, and the owner of a
#   finalizer removes it with an UPDATE. If the webhook matches one of these, the deletion
#   never finishes. If the API server reported within the last half hour that it could not
#   call the webhook, or that the webhook denied deletions, the finding says "may".
# related_resources:
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#failure-policy
#     description: The failure policy of a webhook.
#   - ref: https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/
#     description: Good practice for admission webhooks.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/deletion/namespaced_resources_deleter.go
#     description: The requests of the namespace controller, which continues if namespaces/status is denied.
# custom:
#   id: failing-webhook-blocks-delete
#   severity: high
#   class: broken
#   triggers: [delete]
#   needs: [data.cluster.blocked]
#   relies_on:
#     - kinds:
#         - validatingwebhookconfigurations.admissionregistration.k8s.io
#         - mutatingwebhookconfigurations.admissionregistration.k8s.io
#         - services # which they call
#         - endpointslices.discovery.k8s.io
#       for: [namespaces, customresourcedefinitions.apiextensions.k8s.io, $FINALIZERS]
#   remedy: >-
#     Restore the Service behind the webhook, or make caBundle and certificate match, and
#     the deletion finishes by itself. If its software was uninstalled, delete its
#     configuration. Setting failurePolicy to Ignore helps too, at a price: until it is set
#     back, requests that the webhook should check are allowed unchecked.
#   manifest:
#     remedy: >-
#       Ship the backend of the webhook, and a caBundle that matches its certificate. Guard
#       fields that may be absent with has() in its matchConditions. Or set failurePolicy:
#       Ignore.
#   limits: >-
#     A backend that runs and denies requests or times out shows only in reports of the
#     API server. A certificate is unseen if nobody may connect to the webhook and no
#     readable Secret has it. Webhooks that are called by URL. If an objectSelector or a
#     matchCondition depends on the object, check reads up to 500 objects, except Secrets;
#     otherwise the finding says "may". A finalizer that the delete itself adds
#     (foregroundDeletion, orphan) counts if other objects of its kind in the namespace
#     have finalizers already.
package termguard.failing_webhook_blocks_delete

import data.termguard.lib.refusals
import data.termguard.lib.steps

deny contains finding(key, cause, calls, "is denied") if {
	some [key, cause], calls in refused
	refusals.sure(calls)
}

warn contains finding(key, cause, calls, "may be denied") if {
	some [key, cause], calls in refused
	not refusals.sure(calls)
}

# refused lists the needed requests that are denied, by webhook and cause.
refused[[key, cause]] := calls if {
	some key, blocked in data.cluster.blocked[refusals.within]
	some cause in {call.cause | some call in blocked}
	calls := [call | some call in blocked; call.cause == cause; call in refusals.needed]
	count(calls) > 0
}

finding(key, cause, calls, outcome) := {
	"msg": sprintf("%s: %s", [why, refusals.first(calls, outcome)]),
	"cause": {"title": why, "refusal": sprintf("webhook/%s", [key])},
	"objects": [{"resource": resource, "namespace": "", "name": hook.configuration}],
	"evidence": array.concat(
		[sprintf("%s, failurePolicy Fail: %s", [key, calls[0].why])],
		[sprintf("it matches %s", [refusals.counted(call)]) | some call in calls],
	),
	"steps": refusals.by_cause(cause, [
		mending(hook, cause),
		steps.remove(
			sprintf("If the software of webhook configuration %s was uninstalled, delete the configuration", [hook.configuration]),
			steps.deletion([sprintf("%s/%s", [resource, hook.configuration])], ""),
		),
		steps.force(
			sprintf(
				"Set failurePolicy of webhook %s to Ignore: until it is set back, its requests are allowed unchecked",
				[hook.name],
			),
			[],
		),
	]),
} if {
	hook := data.cluster.webhooks[key]
	why := sprintf("webhook %s/%s fails closed and %s", [hook.configuration, hook.name, refusals.problem(hook, cause)])
	resource := sprintf("%swebhookconfigurations.admissionregistration.k8s.io", [hook.type])
}

mending(hook, "down") := steps.then("itself", sprintf("Restore Service %s", [refusals.service(hook)]), [])

mending(hook, "untrusted") := steps.mend(
	sprintf(
		"Make the caBundle of webhook %s match the certificate of Service %s (with cert-manager: look at cainjector and the Certificate)",
		[hook.name, refusals.service(hook)],
	),
	[],
)

mending(hook, "condition") := steps.mend(
	sprintf("Correct the matchConditions of webhook %s: guard optional fields with has()", [hook.name]),
	[],
)

mending(hook, "failing") := steps.mend(
	sprintf("Find out why the API server cannot call Service %s: the evidence has its error", [refusals.service(hook)]),
	[],
)

mending(hook, "refusing") := steps.mend(
	sprintf("Comply with webhook %s: the evidence has its answer", [hook.name]),
	[],
)
