# METADATA
# title: Webhook whose backend is deleted
# description: >-
#   A webhook with failurePolicy Fail is served from the deleted namespace, whose pods are
#   deleted first. From then on it denies all requests that it matches, including those
#   that the namespace controller, the kubelet and the owners of finalizers still need
#   there. Its configuration is cluster-scoped and stays. If only its Service is deleted,
#   the webhook denies updates that remove finalizers, in all namespaces that it matches.
#   Without a Secret that its pods mount, such as that of its certificate, the pods work
#   until they restart.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/
#     description: Good practice for admission webhooks.
#   - ref: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5080-ordered-namespace-deletion
#     description: Pods are deleted first since 1.33.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/deletion/namespaced_resources_deleter.go
#     description: The namespace controller's passes.
# custom:
#   id: webhook-backend-in-namespace
#   severity: high
#   class: order
#   triggers: [delete]
#   resources: [namespaces, services, secrets]
#   needs:
#     - data.cluster.selfBlocked.$NAMESPACE
#     - data.cluster.webhooks.*.service.name is $NAME
#     - data.cluster.webhooks.*.backend.secrets.$NAME
#   relies_on:
#     - kinds:
#         - validatingwebhookconfigurations.admissionregistration.k8s.io
#         - mutatingwebhookconfigurations.admissionregistration.k8s.io
#       for: [services, secrets]
#   remedy: >-
#     Delete the webhook's configuration first: without its backend it checks nothing
#     anyway. If the namespace is Terminating already, delete the configuration, and the
#     deletion finishes by itself.
#   manifest:
#     remedy: >-
#       Exclude the webhook's own namespace with a namespaceSelector on
#       kubernetes.io/metadata.name (NotIn), remove DELETE from its rules if it does not
#       need deletes, or set failurePolicy: Ignore.
#   limits: >-
#     Backends that are reached by URL. For a Service, the finding says "may": namespaces
#     and objects that the webhook selects by label or condition, and pods, are not
#     evaluated. If an objectSelector or a matchCondition depends on the object, check and
#     lint read up to 500 objects (check reads no Secrets). The finding says "may" for
#     other objects, if a condition reads the user who removes a finalizer, if no slow pod
#     separates the end of the backend from the deletion of the rest, and before
#     Kubernetes 1.33: the namespace controller then deletes in no fixed order, and only
#     namespaces/finalize is sure to come last.
package termguard.webhook_backend_in_namespace

import data.termguard.lib.refusals
import data.termguard.lib.request
import data.termguard.lib.steps

deny contains finding(key, calls, "is denied") if {
	some key, calls in refused
	some call in calls
	sure(key, call)
}

warn contains object.union(finding(key, calls, "may be denied"), manifest(key, calls)) if {
	some key, calls in refused
	every call in calls {
		not sure(key, call)
	}
}

# A deleted Service deletes nothing else, and blocks nothing itself.
warn contains lost(key, sprintf("no finalizer can be removed from %s", [some_of(resources)]), resources) if {
	some key, hook in served
	resources := sort(freed(hook))
	count(resources) > 0
}

warn contains lost(key, sprintf("it denies updates, and %s could not be read", [some_of(resources)]), resources) if {
	some key, hook in served
	count(freed(hook)) == 0
	resources := sort({hidden.resource |
		some hidden in data.cluster.unseen
		matters(hook, hidden.resource)
	})
	count(resources) > 0
}

served[key] := hook if {
	request.deleting
	request.resource == "services"
	some key, hook in data.cluster.webhooks
	hook.service == {"namespace": request.namespace, "name": request.name}
	hook.failurePolicy == "Fail"
	hook.backend.state != "down"
}

# The same for a deleted Secret that pods mount, unless it is recreated.
served[key] := hook if {
	request.deleting
	request.resource == "secrets"
	not remade
	some key, hook in data.cluster.webhooks
	hook.backend.secrets[request.name]
	hook.service.namespace == request.namespace
	hook.failurePolicy == "Fail"
	hook.backend.state != "down"
}

remade if input.request.oldObject.metadata.annotations["cert-manager.io/certificate-name"]

remade if {
	some owner in input.request.oldObject.metadata.ownerReferences
	owner.controller
}

# freed lists the kinds whose running owners need updates that the webhook matches.
freed(hook) := {resource |
	some resource, finalizers in data.cluster.spread
	resource != "pods" # pods of Jobs finish
	sees_updates(hook, resource)
	some finalizer, signatures in finalizers
	some signature, _ in signatures
	data.cluster.finalizers[finalizer][resource][signature].state == "alive"
}

# matters reports whether the webhook may deny an owner's update of an unseen kind.
matters(hook, resource) if {
	resource != "secrets" # often unseen, and few have finalizers
	sees_updates(hook, resource)
}

matters(hook, resource) if {
	resource in {
		"customresourcedefinitions.apiextensions.k8s.io",
		"clusterroles.rbac.authorization.k8s.io",
		"clusterrolebindings.rbac.authorization.k8s.io",
	}
	count(of_updates(hook)) > 0
}

sees_updates(hook, resource) if {
	[plural, group] := named(resource)
	some rule in of_updates(hook)
	some in_group in rule.apiGroups
	in_group in {"*", group}
	some of in rule.resources
	of in {"*", "*/*", plural}
}

# of_updates lists the webhook's rules that match updates.
of_updates(hook) := [rule |
	some rule in hook.rules
	some operation in rule.operations
	operation in {"UPDATE", "*"}
]

named(resource) := [substring(resource, 0, dot), substring(resource, dot + 1, -1)] if {
	dot := indexof(resource, ".")
	dot > 0
}

named(resource) := [resource, ""] if not contains(resource, ".")

# manifest lowers the severity if labels or conditions select objects: manifests do not show
# whether there are any.
default manifest(_, _) := {}

manifest(key, _) := {"manifest": {"severity": "low"}} if unlabelled(key)

manifest(_, calls) := {"manifest": {"severity": "low"}} if {
	every call in calls {
		call.certainty == "may"
	}
}

# unlabelled reports whether no manifest has the namespace, and its creator may set labels.
unlabelled(key) if {
	data.cluster.namespaces[request.name].implied
	some requirement in object.get(data.cluster.webhooks[key], ["namespaceSelector", "matchExpressions"], [])
	requirement.key != "kubernetes.io/metadata.name"
}

# A denied update of namespaces/status does not stop the namespace controller.
refused[key] := calls if {
	request.deletes_namespace
	some key, blocked in data.cluster.selfBlocked[request.name]
	calls := [call | some call in blocked; call.subresource != "status"]
	count(calls) > 0
}

# Since 1.33, objects other than pods are deleted after the pods have stopped. Whether the
# kubelet's own request reaches one of these is a race.
sure(key, call) if {
	call.certainty == "will"
	call.resource != "pods"
	not unlabelled(key)
	refusals.ends_first(data.cluster.webhooks[key].backend)
}

# In one pass the order is not fixed, but this request comes last.
sure(key, call) if {
	call.certainty == "will"
	not unlabelled(key)
	[call.resource, call.subresource] == ["namespaces", "finalize"]
}

left_out(key) := ["no manifest has the namespace: one of its labels may exclude it"] if {
	unlabelled(key)
} else := []

chance(key, calls) := ["the namespace controller deletes in no fixed order: requests before the backend ends are not denied"] if {
	not unlabelled(key)
	every call in calls {
		not sure(key, call)
	}
	some call in calls
	call.certainty == "will"
} else := []

lost(key, outcome, resources) := {
	"msg": sprintf("webhook %s fails closed and is served by %s, %s", [hook.name, backing(hook), outcome]),
	"objects": [{"resource": resource, "namespace": "", "name": hook.configuration}],
	"evidence": [sprintf("%s, failurePolicy Fail, matches UPDATE %s", [key, concat(", ", array.slice(resources, 0, 10))])],
	"steps": [unserved(resource, hook)],
} if {
	hook := data.cluster.webhooks[key]
	resource := configurations(hook)
}

backing(_) := sprintf("%s: without it", [request.word]) if request.resource == "services"

backing(hook) := sprintf("%s with this Secret: after its pods restart", [hook.backend.secrets[request.name]]) if {
	request.resource == "secrets"
}

some_of(resources) := resources[0] if count(resources) == 1

some_of(resources) := sprintf("%s (and %d more)", [resources[0], count(resources) - 1]) if count(resources) > 1

unserved(resource, hook) := steps.remove(
	"Delete the webhook configuration before its backend: without a backend it checks nothing",
	steps.deletion([sprintf("%s/%s", [resource, hook.configuration])], ""),
)

configurations(hook) := sprintf("%swebhookconfigurations.admissionregistration.k8s.io", [hook.type])

finding(key, calls, outcome) := {
	"msg": sprintf(
		"webhook %s fails closed and is served from namespace %s: after that is deleted, %s",
		[hook.name, request.name, refusals.first(calls, outcome)],
	),
	"objects": [{"resource": resource, "namespace": "", "name": hook.configuration}],
	"evidence": array.flatten([
		sprintf("%s, failurePolicy Fail, calls Service %s/%s", [key, hook.service.namespace, hook.service.name]),
		[sprintf("it matches %s", [refusals.counted(call)]) | some call in calls],
		left_out(key),
		chance(key, calls),
	]),
	"steps": [unserved(resource, hook)],
} if {
	hook := data.cluster.webhooks[key]
	resource := configurations(hook)
}
