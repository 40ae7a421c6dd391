# METADATA
# title: Webhook whose backend goes with the namespace
# description: >-
#   A webhook with failurePolicy Fail is served from the namespace that is deleted. Its
#   pods are deleted before anything else. From then on it refuses whatever it matches,
#   including what the namespace controller, the kubelet and the owners of finalizers
#   still have to do there. The configuration is cluster-scoped and stays.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/
#     description: Good practice for admission webhooks.
#   - ref: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5080-ordered-namespace-deletion
#     description: Pods go first since 1.33.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/deletion/namespaced_resources_deleter.go
#     description: The namespace controller's passes.
# custom:
#   id: webhook-backend-in-namespace
#   severity: high
#   class: order
#   triggers: [delete]
#   resources: [namespaces]
#   needs: [data.cluster.selfBlocked.$NAMESPACE]
#   remedy: >-
#     Delete the webhook's configuration first: without its backend it checks nothing
#     anyway. If it is too late, delete the configuration then, and the namespace finishes
#     by itself.
#   manifest:
#     remedy: >-
#       Leave the webhook's own namespace out with a namespaceSelector on
#       kubernetes.io/metadata.name (NotIn), take DELETE out of its rules if it need not
#       see deletes, or set failurePolicy: Ignore.
#   limits: >-
#     Backends that are reached by URL. If an objectSelector or a matchCondition goes by
#     the object, check and lint read up to 500 of them, check no Secrets; of others, and
#     where a condition reads who removes a finalizer, the finding says "may". So it does where no pod that takes time to
#     stop separates the end of the backend from that of the rest, and before Kubernetes
#     1.33: the namespace controller deletes in no fixed order then, and only
#     namespaces/finalize is sure to come last.
package termguard.webhook_backend_in_namespace

import data.termguard.lib.refusals
import data.termguard.lib.request
import data.termguard.lib.steps

deny contains finding(key, calls, "is refused") if {
	some key, calls in refused
	some call in calls
	sure(key, call)
}

warn contains object.union(finding(key, calls, "may be refused"), manifest(key, calls)) if {
	some key, calls in refused
	every call in calls {
		not sure(key, call)
	}
}

# manifest is what a maintainer should make of it: where labels or conditions choose the
# objects, or labels of a namespace that is not there, the manifests do not tell whether
# there are any.
default manifest(_, _) := {}

manifest(key, _) := {"manifest": {"severity": "low"}} if unlabelled(key)

manifest(_, calls) := {"manifest": {"severity": "low"}} if {
	every call in calls {
		call.certainty == "may"
	}
}

# unlabelled tells that no manifest has the namespace, and that the webhook goes by
# labels that whoever creates it may set.
unlabelled(key) if {
	data.cluster.namespaces[request.name].implied
	some requirement in object.get(data.cluster.webhooks[key], ["namespaceSelector", "matchExpressions"], [])
	requirement.key != "kubernetes.io/metadata.name"
}

# refused are the requests that remain to be done when the backend is gone. A
# refused update of namespaces/status does not stop the namespace controller.
refused[key] := calls if {
	request.deletes_namespace
	some key, blocked in data.cluster.selfBlocked[request.name]
	calls := [call | some call in blocked; call.subresource != "status"]
	count(calls) > 0
}

# Since 1.33, the namespace controller goes on to what is not a pod in a later pass,
# when the pods behind the Service have stopped. Whether the kubelet's own request to
# remove a pod still finds one of them is a race.
sure(key, call) if {
	call.certainty == "will"
	call.resource != "pods"
	not unlabelled(key)
	refusals.ends_first(data.cluster.webhooks[key].backend)
}

# In one pass all goes in any order; but this comes last.
sure(key, call) if {
	call.certainty == "will"
	not unlabelled(key)
	[call.resource, call.subresource] == ["namespaces", "finalize"]
}

# left_out says what may keep the webhook from seeing the namespace.
left_out(key) := ["no manifest has the namespace: one of its labels may leave it out"] if {
	unlabelled(key)
} else := []

# chance says of requests that are refused if they come late that they may come early.
chance(key, calls) := ["the namespace controller deletes in no fixed order: what it does before the backend ends is not refused"] if {
	not unlabelled(key)
	every call in calls {
		not sure(key, call)
	}
	some call in calls
	call.certainty == "will"
} else := []

finding(key, calls, outcome) := {
	"msg": sprintf(
		"webhook %s fails closed and is served from namespace %s: once that is gone, %s",
		[hook.name, request.name, refusals.first(calls, outcome)],
	),
	"objects": [{"resource": resource, "namespace": "", "name": hook.configuration}],
	"evidence": array.flatten([
		sprintf("%s, failurePolicy Fail, calls Service %s/%s", [key, hook.service.namespace, hook.service.name]),
		[sprintf("it sees %s", [refusals.counted(call)]) | some call in calls],
		left_out(key),
		chance(key, calls),
	]),
	"steps": [steps.remove(
		"Delete the webhook configuration before its backend: without that it checks nothing",
		steps.deletion([sprintf("%s/%s", [resource, hook.configuration])], ""),
	)],
} if {
	hook := data.cluster.webhooks[key]
	resource := sprintf("%swebhookconfigurations.admissionregistration.k8s.io", [hook.type])
}
