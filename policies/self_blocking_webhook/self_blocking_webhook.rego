# METADATA
# title: Webhook that blocks itself
# description: >-
#   A webhook with failurePolicy Fail refuses what it sees while its backend does not
#   answer. If it sees the creation of its own pods, they cannot come back once they are
#   all gone. If it sees deletes of pods, of workloads such as Deployments, of what every
#   namespace holds, or of everything, then nothing of that can be deleted, in any
#   namespace that it selects, until the webhook configuration is deleted. If it sees updates of pods, that is so of the pods of
#   Jobs, until they are counted: each has a finalizer. If it sees custom resources in its own namespace,
#   they hold that namespace when it is deleted, for its pods go first. If it sees updates of
#   its own workloads, these stay when they are deleted in the foreground, as Argo CD does.
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
#   needs:
#     - data.cluster.webhooks.*.ownPods
#     - data.cluster.webhooks.*.ownWorkloads
#     - data.cluster.webhooks.*.everywhere
#     - data.cluster.webhooks.*.home
#   remedy: >-
#     Exclude the webhook's own namespace with a namespaceSelector on
#     kubernetes.io/metadata.name (NotIn), select only what it is for (rules,
#     objectSelector), or set failurePolicy: Ignore. If it is too late, delete the webhook
#     configuration, and apply it again when its pods run.
#   manifest:
#     once: true
#     remedy: >-
#       Exclude the webhook's own namespace with a namespaceSelector on
#       kubernetes.io/metadata.name (NotIn), select only what it is for (rules,
#       objectSelector), or set failurePolicy: Ignore.
#   limits: >-
#     Rules, selectors and failurePolicy that are filled in at run time. Own pods of a
#     backend that is called by URL. In manifests, own pods in a namespace that no manifest
#     has, where the webhook selects namespaces by labels: a readme may ask for them.
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
	"msg": sprintf("webhook %s fails closed and sees %s: while its backend is down, %s", [hook.name, where(hook), held[0].loss]),
	"objects": array.concat([request.target], backend(hook)),
	"evidence": array.concat(["failurePolicy Fail"], [sprintf("and %s", [other.loss]) | some other in array.slice(held, 1, 4)]),
	"field": sprintf("webhooks[%d].rules", [i]),
	"manifest": {"severity": held[0].severity},
} if {
	request.applying
	some i, hook in input.request.object.webhooks
	known := data.cluster.webhooks[sprintf("%s/%s/%s", [type, request.name, hook.name])]
	held := array.flatten([
		[losses[loss] | some loss in ["everything", "namespaces", "pods", "finalizers"]; loss in known.everywhere],
		workloads(known.everywhere),
		[losses.jobs | "jobs" in known.everywhere],
	])
	count(held) > 0
}

warn contains {
	"msg": sprintf(
		"webhook %s sees updates of its own %s: deleted in the foreground, they stay when their pods are gone",
		[hook.name, known.ownWorkloads[0]],
	),
	"objects": array.concat([request.target], backend(hook)),
	"evidence": [sprintf("failurePolicy Fail, and it sees UPDATE %s in its own namespace", [concat(", ", known.ownWorkloads)])],
	"field": sprintf("webhooks[%d].rules", [i]),
	"manifest": {"severity": "low"},
} if {
	request.applying
	some i, hook in input.request.object.webhooks
	known := data.cluster.webhooks[sprintf("%s/%s/%s", [type, request.name, hook.name])]
	count(known.ownWorkloads) > 0
	not "finalizers" in object.get(known, "everywhere", [])
}

# Operators do not ship custom resources: users decide whether there are any in the operator's
# namespace.
warn contains {
	"msg": sprintf(
		"webhook %s fails closed in namespace %s, which serves it: once that is deleted, its %s may be left behind",
		[hook.name, home, kinds[0]],
	),
	"objects": array.concat([request.target], backend(hook)),
	"evidence": array.concat(
		[sprintf("failurePolicy Fail, and it sees %s there", [concat(", ", calls)])],
		[sprintf("the same is true of %d more of its webhooks", [more]) | more := count(own) - 1; more > 0],
	),
	"field": sprintf("webhooks[%d].rules", [i]),
	"manifest": {"severity": severity},
} if {
	count(own) > 0
	i := min(object.keys(own))
	calls := own[i]
	hook := input.request.object.webhooks[i]
	home := hook.clientConfig.service.namespace
	not home in request.immortal
	home != "system" # the placeholder of kubebuilder, which a kustomization renames
	regex.match(`^[a-z0-9-]+$`, home) # otherwise a template
	kinds := [split(call, " ")[1] | some call in calls]
	severity := {true: "low", false: "info"}[deletes]
}

losses := {
	"everything": {"severity": "high", "loss": "nothing in them can be deleted"},
	"namespaces": {"severity": "high", "loss": "none of them can be deleted"},
	"pods": {"severity": "high", "loss": "no pod in them can be deleted"},
	"finalizers": {"severity": "high", "loss": "no finalizer in them can be removed"},
	"jobs": {"severity": "info", "loss": "no pod of a Job that runs in them can be deleted"},
}

# workloads is the loss of kinds named by their resource, such as deployments.apps.
workloads(held) := [{"severity": "medium", "loss": sprintf("none of the %s in them can be deleted", [concat(", ", resources)])} |
	resources := [resource | some resource in held; contains(resource, ".")]
	count(resources) > 0
]

where(hook) := "every namespace" if object.get(hook, "namespaceSelector", {}) in [{}, null]

where(hook) := "every namespace except those that it leaves out" if not object.get(hook, "namespaceSelector", {}) in [{}, null]

# own lists the webhooks that match custom resources in their own namespace, with the requests.
# Cluster-scoped kinds are excluded, and, if a rule has several groups, kinds of one group that
# another group defines.
own[i] := calls if {
	request.applying
	some i, hook in input.request.object.webhooks
	known := data.cluster.webhooks[sprintf("%s/%s/%s", [type, request.name, hook.name])]
	calls := [call |
		some seen in known.home
		some call in named(split(seen, " "))
		not in_no_namespace(split(call, " ")[1])
		not of_another_group(split(call, " ")[1], known.home)
	]
	count(calls) > 0
}

# named is a request by its kind: "*" in a group is replaced by all defined kinds.
named(seen) := [concat(" ", [seen[0], kind]) |
	some kind, _ in data.cluster.crds
	group(kind) == group(seen[1])
] if {
	startswith(seen[1], "*.")
}

named(seen) := [concat(" ", seen)] if not startswith(seen[1], "*.")

group(kind) := substring(kind, indexof(kind, ".") + 1, -1)

in_no_namespace(kind) if data.cluster.crds[kind].scope == "Cluster"

of_another_group(kind, seen) if {
	not data.cluster.crds[kind]
	some call in seen
	other := split(call, " ")[1]
	split(other, ".")[0] == split(kind, ".")[0]
	data.cluster.crds[other]
}

default deletes := false

deletes if {
	some calls in own
	some call in calls
	startswith(call, "DELETE ")
}

default backend(_) := []

backend(hook) := [{"resource": "services", "namespace": service.namespace, "name": service.name}] if {
	service := hook.clientConfig.service
}

type := "validating" if startswith(request.resource, "validating")

type := "mutating" if startswith(request.resource, "mutating")
