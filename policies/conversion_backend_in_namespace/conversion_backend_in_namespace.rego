# METADATA
# title: Conversion webhook deleted before its objects
# description: >-
#   Objects of a CustomResourceDefinition are deleted in the version that discovery lists
#   first; a conversion webhook converts objects stored in another version. If the webhook
#   is served from the deleted namespace, its pods are deleted first, and objects there
#   and elsewhere can no longer be converted. Since Kubernetes 1.31, lists fail as well
#   when the API server refills its cache, and then no namespace finishes.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/118357
#     description: A namespace with the conversion webhook of its own content.
#   - ref: https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.3/pkg/apiserver/conversion/webhook_converter.go
#     description: Which objects are converted, and the effect of a failure.
#   - ref: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#version-priority
#     description: Which version discovery lists first.
# custom:
#   id: conversion-backend-in-namespace
#   severity: high
#   class: order
#   triggers: [delete, apply]
#   resources: [namespaces, customresourcedefinitions.apiextensions.k8s.io]
#   needs: [data.cluster.conversionsFrom.$NAMESPACE, data.cluster.conversionsFrom.*.$NAME]
#   remedy: >-
#     Delete the objects while the conversion webhook still answers, and wait until they are
#     deleted; then delete the namespace. To keep objects in other namespaces, first store
#     them all in the version that discovery lists first, and remove the other versions from
#     status.storedVersions: the objects then need no conversion. If the webhook does not
#     run any more, restore it.
#   manifest:
#     once: true
#     severity: medium
#     remedy: >-
#       Make the newest served version the storage version: objects stored from then on can
#       be deleted without the conversion webhook. Or serve no version newer than the
#       storage version.
#   limits: >-
#     The version in which an object is stored: if several are possible, or if no slow pod
#     separates the end of the webhook from the deletion of the objects, the finding says
#     "may". Deletions of the Service or workload alone.
package termguard.conversion_backend_in_namespace

import data.termguard.lib.refusals
import data.termguard.lib.request
import data.termguard.lib.steps

deny contains finding(name, crd, msg, first(name)) if {
	some name, crd in lost
	here(name) > 0
	certain(crd)
	msg := sprintf(
		"the conversion webhook of %s is deleted before the objects here, so they cannot be converted to %s and deleted",
		[name, crd.version],
	)
}

warn contains finding(name, crd, msg, first(name)) if {
	some name, crd in lost
	here(name) > 0
	not certain(crd)
	msg := sprintf(
		"the conversion webhook of %s may be deleted before the objects here, which may need a conversion to %s",
		[name, crd.version],
	)
}

warn contains finding(name, crd, msg, elsewhere) if {
	some name, crd in lost
	here(name) == 0
	crd.instances > 0
	msg := sprintf(
		"the conversion webhook of %s is deleted, and objects in other namespaces (%d) may become undeletable",
		[name, crd.instances],
	)
}

warn contains object.union(finding(request.name, crd, msg, []), {"objects": [request.target, converter]}) if {
	request.applying
	request.resource == "customresourcedefinitions.apiextensions.k8s.io"
	some definitions in data.cluster.conversionsFrom
	crd := definitions[request.name]
	msg := sprintf(
		"objects are stored as %s and deleted as %s: while the conversion webhook does not answer, none can be deleted",
		[concat(" or ", crd.storedVersions), crd.version],
	)
}

lost[name] := crd if {
	request.deletes_namespace
	some name, crd in data.cluster.conversionsFrom[request.name]
	crd.backend.state != "down"
}

converter := {"resource": "services", "namespace": service.namespace, "name": service.name} if {
	service := input.request.object.spec.conversion.webhook.clientConfig.service
}

here(name) := object.get(data.cluster.counts, [request.name, name], 0)

certain(crd) if {
	not crd.version in crd.storedVersions
	refusals.ends_first(crd.backend)
}

finding(name, crd, msg, plan) := {
	"msg": msg,
	"objects": [{"resource": "customresourcedefinitions.apiextensions.k8s.io", "namespace": "", "name": name}],
	"evidence": array.concat(
		[sprintf("objects are stored as %s, and deleted as %s", [concat(" or ", crd.storedVersions), crd.version])],
		[sprintf("its conversion webhook is served from namespace %s", [request.name]) | request.deletes_namespace],
	),
	"field": "spec.conversion",
	"steps": plan,
}

first(name) := [steps.mend(
	sprintf(
		"Delete the %s here first, while the webhook still answers; continue after they are deleted",
		[name],
	),
	[],
)]

elsewhere := [steps.mend("Delete the objects in other namespaces first, or store them all in the version in which they are deleted", [])]
