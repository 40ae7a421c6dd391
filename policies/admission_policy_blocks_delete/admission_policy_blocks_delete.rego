# METADATA
# title: Admission policy that denies a request of a deletion
# description: >-
#   An admission policy denies requests that others make during a deletion: the namespace
#   controller deletes the content of a namespace and updates namespaces/finalize, the
#   kubelet deletes a pod a second time, and the owner of a finalizer removes it with an
#   UPDATE. The deletion then never finishes. The policy is evaluated for the user of each
#   request, with its parameters and the namespace; in check, also with the objects. A
#   MutatingAdmissionPolicy denies a request if it fails and failurePolicy is Fail.
# related_resources:
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
#     description: Validating admission policies.
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/
#     description: Mutating admission policies.
#   - ref: https://github.com/kubernetes/apiserver/blob/v0.36.3/pkg/admission/plugin/policy/validating/validator.go
#     description: Decisions of a policy, and the effect of an error.
# custom:
#   id: admission-policy-blocks-delete
#   severity: high
#   class: rule
#   triggers: [delete]
#   needs: [data.cluster.denied]
#   relies_on:
#     - kinds:
#         - validatingadmissionpolicies.admissionregistration.k8s.io
#         - validatingadmissionpolicybindings.admissionregistration.k8s.io
#         - mutatingadmissionpolicies.admissionregistration.k8s.io
#         - mutatingadmissionpolicybindings.admissionregistration.k8s.io
#       for: [namespaces, customresourcedefinitions.apiextensions.k8s.io, $FINALIZERS]
#   remedy: >-
#     Change the policy or its binding so that it allows the requests of the control plane
#     and of the owners of finalizers (a matchCondition on request.userInfo), or exclude the
#     namespace in the binding. The deletion then finishes by itself. As a last resort,
#     delete the binding: until it is restored, nothing enforces the policy.
#   manifest:
#     remedy: >-
#       Exempt the control plane and the owners of finalizers with a matchCondition on
#       request.userInfo, or exclude the namespace in the binding.
#   limits: >-
#     The finding says "may" if the policy reads the object, the namespace's status, the
#     authorizer, or options of the request, or if the finalizer is not one of Kubernetes
#     itself. check and lint read up to 500 matching objects (check reads no Secrets);
#     parameters are read every 10 s, except Secrets. Whether the result of a
#     MutatingAdmissionPolicy can be applied.
package termguard.admission_policy_blocks_delete

import data.termguard.lib.refusals
import data.termguard.lib.steps

deny contains finding(key, calls, "is denied") if {
	some key, calls in refused
	refusals.sure(calls)
}

# A manifest shows neither users nor objects: a policy that depends on them allows most requests.
warn contains object.union(finding(key, calls, "may be denied"), {"manifest": {"severity": "low"}}) if {
	some key, calls in refused
	not refusals.sure(calls)
}

# refused lists the needed requests that are denied, by policy and binding.
refused[key] := calls if {
	some key, denied in data.cluster.denied[refusals.within]
	calls := [call | some call in denied; call in refusals.needed]
	count(calls) > 0
}

finding(key, calls, outcome) := {
	"msg": sprintf(
		"%sAdmissionPolicy %s %s a request of the deletion: %s",
		[words.named, policy, words.verb, refusals.first(calls, outcome)],
	),
	"cause": {"refusal": sprintf("policy/%s", [key])},
	"objects": [
		{"resource": sprintf("%sadmissionpolicies.admissionregistration.k8s.io", [kind]), "namespace": "", "name": policy},
		{"resource": resource, "namespace": "", "name": binding},
	],
	"evidence": evidence(words, binding, facts, calls),
	"steps": [
		steps.mend(
			"Exempt the control plane and the owners of finalizers from the policy, or exclude the namespace in the binding",
			[],
		),
		steps.force(
			"Delete the binding: until it is restored, nothing enforces the policy",
			steps.deletion([sprintf("%s/%s", [resource, binding])], ""),
		),
	],
} if {
	[kind, policy, binding] := split(key, "/")
	words := in_words[kind]
	facts := data.cluster.admissionpolicies[sprintf("%s/%s", [kind, policy])]
	resource := sprintf("%sadmissionpolicybindings.admissionregistration.k8s.io", [kind])
}

# in_words names a kind of policy, and the effects of it and its binding.
in_words := {
	"validating": {"named": "Validating", "verb": "denies", "binding": "denies"},
	"mutating": {"named": "Mutating", "verb": "fails on", "binding": "is in force"},
}

evidence(words, binding, facts, calls) := array.flatten([
	sprintf("binding %s %s, failurePolicy %s", [binding, words.binding, facts.failurePolicy]),
	[sprintf("it requires: %s", [demand]) | some demand in facts.validations],
	[sprintf("it %s %s", [words.verb, refusals.counted(call)]) | some call in calls],
	[sprintf("among them %s", [name]) | some call in calls; some name in array.slice(call.names, 0, 3)],
])
