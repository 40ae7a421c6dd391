# METADATA
# title: Webhook that blocks itself
# description: >-
#   A webhook with failurePolicy Fail denies all requests that it matches while its
#   backend does not answer. If it matches the creation of its own pods, they cannot be
#   recreated after all of them are deleted. If it matches deletes of pods, of workloads,
#   of kinds that every namespace contains, or of everything, nothing of that can be
#   deleted in the namespaces that it selects until the webhook configuration is deleted.
#   Matching updates of pods does the same to pods of Jobs that are not counted yet, which
#   have a finalizer. If it matches custom resources in its own namespace, they block the
#   deletion of that namespace, because its pods are deleted first. If it matches updates
#   of its own workloads, these stay when they are deleted in the foreground, as by Argo
#   CD.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/
#     description: Good practices, among them excluding the namespace of the webhook.
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#avoiding-operating-on-the-kube-system-namespace
#     description: Requests that a webhook should not match.
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
#     kubernetes.io/metadata.name (NotIn), select only the objects that it needs (rules,
#     objectSelector), or set failurePolicy: Ignore. If it blocks already, delete the
#     webhook configuration, and apply it again when its pods run.
#   manifest:
#     once: true
#     remedy: >-
#       Exclude the webhook's own namespace with a namespaceSelector on
#       kubernetes.io/metadata.name (NotIn), select only the objects that it needs (rules,
#       objectSelector), or set failurePolicy: Ignore.
#   limits: >-
#     Rules, selectors and failurePolicy that are set at run time. Own pods of a backend
#     that is called by URL. In manifests, own pods in a namespace that no manifest has, if
#     the webhook selects namespaces by labels: a readme may require them.
package termguard.self_blocking_webhook

import data.termguard.lib.request

warn contains {
	"msg": sprintf("webhook %s matches the creation of its own pods: after all are deleted, none can be created", [hook.name]),
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
	"msg": sprintf("webhook %s fails closed and matches %s: while its backend is down, %s", [hook.name, where(hook), held[0].loss]),
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
		"webhook %s matches updates of its own %s: a deletion in the foreground hangs after their pods are deleted",
		[hook.name, known.ownWorkloads[0]],
	),
	"objects": array.concat([request.target], backend(hook)),
	"evidence": [sprintf("failurePolicy Fail, and it matches UPDATE %s in its own namespace", [concat(", ", known.ownWorkloads)])],
	"field": sprintf("webhooks[%d].rules", [i]),
	"manifest": {"severity": "low"},
} if {
	request.applying
	some i, hook in input.request.object.webhooks
	known := data.cluster.webhooks[sprintf("%s/%s/%s", [type, request.name, hook.name])]
	count(known.ownWorkloads) > 0
	not "finalizers" in object.get(known, "everywhere", [])
}

# Users decide whether there are custom resources in the operator's namespace.
warn contains {
	"msg": sprintf(
		"webhook %s fails closed in its own namespace %s: if that is deleted, its %s may stay Terminating",
		[hook.name, home, kinds[0]],
	),
	"objects": array.concat([request.target], backend(hook)),
	"evidence": array.concat(
		[sprintf("failurePolicy Fail, and it matches %s there", [concat(", ", calls)])],
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

# workloads is the loss of kinds such as deployments.apps.
workloads(held) := [{"severity": "medium", "loss": sprintf("none of the %s in them can be deleted", [concat(", ", resources)])} |
	resources := [resource | some resource in held; contains(resource, ".")]
	count(resources) > 0
]

where(hook) := "every namespace" if object.get(hook, "namespaceSelector", {}) in [{}, null]

where(hook) := "every namespace that it selects" if not object.get(hook, "namespaceSelector", {}) in [{}, null]

# own lists the webhooks that match custom resources in their own namespace. Kinds of one group
# that another group defines are excluded.
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

# "*" in a group is replaced by all defined kinds.
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
