# METADATA
# title: Webhook that blocks itself
# description: >-
#   A webhook with failurePolicy Fail refuses what it sees while its backend does not
#   answer. If it sees the creation of its own pods, they cannot come back once they are
#   all gone. If it sees every DELETE or UPDATE, then nothing in the cluster can be
#   deleted, or lose its finalizers, until the webhook configuration is deleted.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/
#     description: Good practices, among them leaving out the namespace of the webhook.
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#avoiding-operating-on-the-kube-system-namespace
#     description: What a webhook should not match.
# custom:
#   id: self-blocking-webhook
#   aliases: [webhook-backend-in-namespace]
#   severity: medium
#   triggers: [apply]
#   resources:
#     - validatingwebhookconfigurations.admissionregistration.k8s.io
#     - mutatingwebhookconfigurations.admissionregistration.k8s.io
#   remedy: >-
#     Exclude the webhook's own namespace with a namespaceSelector on
#     kubernetes.io/metadata.name (NotIn), name the groups and resources that it is for in
#     its rules, or set failurePolicy: Ignore. If it is too late, delete the webhook
#     configuration, and apply it again when its pods run.
#   limits: >-
#     Rules, selectors and failurePolicy that are filled in at run time. Backends that are
#     called by URL.
package termguard.self_blocking_webhook

import data.termguard.lib.request

warn contains {
	"msg": sprintf("webhook %s sees the creation of its own pods: once all are gone, none can come back", [hook.name]),
	"objects": [request.target, {
		"resource": "services",
		"namespace": hook.clientConfig.service.namespace,
		"name": hook.clientConfig.service.name,
	}],
	"evidence": [sprintf("failurePolicy Fail, served from namespace %s", [hook.clientConfig.service.namespace])],
	"field": sprintf("webhooks[%d].rules", [i]),
} if {
	request.applying
	some i, hook in input.request.object.webhooks
	known := data.cluster.webhooks[sprintf("%s/%s/%s", [type, request.name, hook.name])]
	known.ownPods in {"will", "may"}
}

warn contains {
	"msg": sprintf("webhook %s sees every %s: while its backend is down, %s", [hook.name, concat(" and ", operations), loss]),
	"objects": [request.target],
	"evidence": ["failurePolicy Fail, no selectors and no matchConditions"],
	"field": sprintf("webhooks[%d].rules", [i]),
} if {
	request.applying
	some i, hook in input.request.object.webhooks
	object.get(hook, "failurePolicy", "Fail") == "Fail"
	every key in ["namespaceSelector", "objectSelector", "matchConditions"] {
		object.get(hook, key, {}) in [{}, [], null]
	}
	operations := {operation |
		some operation in ["DELETE", "UPDATE"]
		some rule in hook.rules
		everything(rule, operation)
	}
	count(operations) > 0
	loss := [text | some operation, text in losses; operation in operations][0]
}

losses := {
	"DELETE": "nothing in the cluster can be deleted",
	"UPDATE": "no finalizer in the cluster can be removed",
}

everything(rule, operation) if {
	"*" in rule.apiGroups
	object.get(rule, "scope", "*") in {"*", "Namespaced"}
	some o in rule.operations
	o in {operation, "*"}
	some resource in rule.resources
	resource in {"*", "*/*"}
}

type := "validating" if startswith(request.resource, "validating")

type := "mutating" if startswith(request.resource, "mutating")
