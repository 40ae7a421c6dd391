# METADATA
# title: Request denied at once
# description: >-
#   The API server refuses the request itself if a webhook with failurePolicy Fail matches
#   it and cannot be called, if an admission policy denies it, and for the namespaces
#   default, kube-public and kube-system. kubectl then fails with InternalError or
#   Forbidden, and the object does not change. Helm before 4 deletes the Service of a
#   webhook long before its configuration, which denies the requests in between.
# related_resources:
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#failure-policy
#     description: The failure policy of a webhook.
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
#     description: Validating admission policy.
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#namespacelifecycle
#     description: NamespaceLifecycle, which keeps three namespaces.
# custom:
#   id: refused-request
#   severity: high
#   class: rule
#   triggers: [delete, finalizer-edit]
#   needs: [input.refusals]
#   relies_on:
#     - kinds:
#         - validatingwebhookconfigurations.admissionregistration.k8s.io
#         - mutatingwebhookconfigurations.admissionregistration.k8s.io
#         - services # which they call
#         - endpointslices.discovery.k8s.io
#         - validatingadmissionpolicies.admissionregistration.k8s.io
#         - validatingadmissionpolicybindings.admissionregistration.k8s.io
#   remedy: >-
#     Restore the Service behind the webhook, or comply with the policy, and repeat the
#     request. If the software of the webhook was uninstalled, delete its configuration.
#   limits: >-
#     A backend that runs and denies requests. If the answer depends on an unknown user or
#     on an unread object, the finding says "may". Quotas, authorization, and admission
#     plugins of a distribution.
#   manifest:
#     severity: info
#     remedy: >-
#       Narrow the selectors or conditions of the webhook or policy, so that it does not
#       match objects that are deleted with it.
package termguard.refused_request

import data.termguard.lib.refusals
import data.termguard.lib.request
import data.termguard.lib.steps

deny contains finding(refusal) if {
	some refusal in input.refusals
	refusal.certainty == "will"
}

warn contains finding(refusal) if {
	some refusal in input.refusals
	refusal.certainty == "may"
}

call := sprintf("%s %s", [input.request.operation, request.word])

finding(refusal) := {
	"kind": "refused",
	"msg": sprintf("%s: it matches %s", [why, call]),
	"cause": {"title": why, "refusal": refusal.by},
	"objects": [request.target, {"resource": resource, "namespace": "", "name": hook.configuration}],
	"evidence": [sprintf("%s, failurePolicy Fail: %s", [key, refusal.why])],
	"steps": refusals.by_cause(refusal.cause, [
		steps.then("again", mending(hook, refusal.cause), []),
		steps.remove(
			sprintf("If the software of webhook configuration %s was uninstalled, delete the configuration", [hook.configuration]),
			steps.deletion([sprintf("%s/%s", [resource, hook.configuration])], ""),
		),
	]),
} if {
	startswith(refusal.by, "webhook/")
	refusal.cause != "goes"
	key := trim_prefix(refusal.by, "webhook/")
	hook := data.cluster.webhooks[key]
	why := sprintf(
		"webhook %s/%s fails closed and %s",
		[hook.configuration, hook.name, refusals.problem(hook, refusal.cause)],
	)
	resource := sprintf("%swebhookconfigurations.admissionregistration.k8s.io", [hook.type])
}

finding(refusal) := {
	"kind": "refused",
	"msg": sprintf("%s: it matches %s", [why, call]),
	"cause": {"title": why, "refusal": refusal.by},
	"objects": [request.target, {"resource": resource, "namespace": "", "name": hook.configuration}],
	"evidence": [
		sprintf("%s, failurePolicy Fail", [key]),
		sprintf("%s deletes Service %s before %s", [data.cluster.setOrder.by, refusals.service(hook), request.word]),
	],
	"steps": [steps.remove(
		sprintf("Delete webhook configuration %s first: without its Service it only denies requests", [hook.configuration]),
		steps.deletion([sprintf("%s/%s", [resource, hook.configuration])], ""),
	)],
} if {
	refusal.cause == "goes"
	key := trim_prefix(refusal.by, "webhook/")
	hook := data.cluster.webhooks[key]
	why := sprintf(
		"webhook %s/%s fails closed, and its Service %s is deleted before",
		[hook.configuration, hook.name, refusals.service(hook)],
	)
	resource := sprintf("%swebhookconfigurations.admissionregistration.k8s.io", [hook.type])
}

finding(refusal) := {
	"kind": "refused",
	"msg": sprintf("%s admission policy %s denies %s", [kind, policy, call]),
	"cause": {"refusal": refusal.by},
	"objects": [
		request.target,
		{"resource": sprintf("%sadmissionpolicies.admissionregistration.k8s.io", [kind]), "namespace": "", "name": policy},
		{"resource": sprintf("%sadmissionpolicybindings.admissionregistration.k8s.io", [kind]), "namespace": "", "name": binding},
	],
	"evidence": array.concat(
		[sprintf("binding %s denies, failurePolicy %s", [binding, facts.failurePolicy])],
		[sprintf("it requires: %s", [demand]) | some demand in facts.validations],
	),
	"steps": [steps.mend("Comply with the policy, or contact its maintainers", [])],
} if {
	["policy", kind, policy, binding] = split(refusal.by, "/")
	facts := data.cluster.admissionpolicies[sprintf("%s/%s", [kind, policy])]
}

finding(refusal) := {
	"kind": "refused",
	"msg": refusal.why,
	"cause": {"title": refusal.why, "refusal": refusal.by},
	"objects": [request.target],
	"evidence": ["admission plugin NamespaceLifecycle"],
	"manifest": {"severity": "none"},
	"steps": [steps.mend("Delete the content of the namespace instead: Kubernetes needs the namespace itself", [])],
} if {
	refusal.cause == "protected"
}

mending(hook, "down") := sprintf("Restore Service %s", [refusals.service(hook)])

mending(hook, "untrusted") := sprintf(
	"Make the caBundle of webhook %s match the certificate of Service %s",
	[hook.name, refusals.service(hook)],
)

mending(hook, "condition") := sprintf("Correct the matchConditions of webhook %s", [hook.name])
