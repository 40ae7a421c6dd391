# METADATA
# title: Request that is refused at once
# description: >-
#   Not every deletion starts. The API server refuses the request itself where a webhook
#   with failurePolicy Fail sees it and cannot be called, where an admission policy denies
#   it, and for the namespaces default, kube-public and kube-system. kubectl then fails
#   with InternalError or Forbidden, and nothing happens to the object. Helm before 4 deletes
#   the Service of a webhook long before its configuration, which refuses what comes between.
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
#     Bring back the Service behind the webhook, or do as the policy asks, and make the
#     request again. If the software is gone for good, delete its configuration.
#   limits: >-
#     A backend that is up and refuses. What depends on who asks, where that is not known,
#     and on an object that could not be read: the finding then says "may". Quotas,
#     authorization, and admission plugins of a distribution.
#   manifest:
#     severity: info
#     remedy: >-
#       Narrow the selectors or conditions of the webhook or policy, so that it lets pass
#       what is deleted with it.
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

asked := sprintf("%s %s", [input.request.operation, request.word])

finding(refusal) := {
	"kind": "refused",
	"msg": sprintf("%s: it sees %s", [why, asked]),
	"cause": {"title": why, "refusal": refusal.by},
	"objects": [request.target, {"resource": resource, "namespace": "", "name": hook.configuration}],
	"evidence": [sprintf("%s, failurePolicy Fail: %s", [key, refusal.why])],
	"steps": refusals.by_cause(refusal.cause, [
		steps.then("again", mending(hook, refusal.cause), []),
		steps.remove(
			sprintf("If the software of webhook configuration %s is gone for good, delete the configuration", [hook.configuration]),
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
	"msg": sprintf("%s: it sees %s", [why, asked]),
	"cause": {"title": why, "refusal": refusal.by},
	"objects": [request.target, {"resource": resource, "namespace": "", "name": hook.configuration}],
	"evidence": [
		sprintf("%s, failurePolicy Fail", [key]),
		sprintf("%s deletes Service %s before %s", [data.cluster.setOrder.by, refusals.service(hook), request.word]),
	],
	"steps": [steps.remove(
		sprintf("Delete webhook configuration %s first: without its Service it only refuses", [hook.configuration]),
		steps.deletion([sprintf("%s/%s", [resource, hook.configuration])], ""),
	)],
} if {
	refusal.cause == "goes"
	key := trim_prefix(refusal.by, "webhook/")
	hook := data.cluster.webhooks[key]
	why := sprintf(
		"webhook %s/%s fails closed, and its Service %s goes before",
		[hook.configuration, hook.name, refusals.service(hook)],
	)
	resource := sprintf("%swebhookconfigurations.admissionregistration.k8s.io", [hook.type])
}

finding(refusal) := {
	"kind": "refused",
	"msg": sprintf("%s admission policy %s denies %s", [kind, policy, asked]),
	"cause": {"refusal": refusal.by},
	"objects": [
		request.target,
		{"resource": sprintf("%sadmissionpolicies.admissionregistration.k8s.io", [kind]), "namespace": "", "name": policy},
		{"resource": sprintf("%sadmissionpolicybindings.admissionregistration.k8s.io", [kind]), "namespace": "", "name": binding},
	],
	"evidence": array.concat(
		[sprintf("binding %s denies, failurePolicy %s", [binding, facts.failurePolicy])],
		[sprintf("it demands: %s", [demand]) | some demand in facts.validations],
	),
	"steps": [steps.mend("Do what the policy asks for, or talk to those who own it", [])],
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
	"steps": [steps.mend("Delete what is in the namespace instead: the namespace itself belongs to Kubernetes", [])],
} if {
	refusal.cause == "protected"
}

mending(hook, "down") := sprintf("Bring back Service %s", [refusals.service(hook)])

mending(hook, "untrusted") := sprintf(
	"Make the caBundle of webhook %s match the certificate of Service %s",
	[hook.name, refusals.service(hook)],
)

mending(hook, "condition") := sprintf("Correct the matchConditions of webhook %s", [hook.name])
