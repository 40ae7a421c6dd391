# METADATA
# title: Conversion webhook that deletions need
# description: >-
#   Objects of a CustomResourceDefinition are deleted in the version that discovery lists
#   first. Where they are stored in another, a conversion webhook has to answer for each.
#   If it is served from the namespace that is deleted, its pods go before the objects
#   there, and nobody converts these, or those in any other namespace. The definition is
#   cluster-scoped and stays. Since Kubernetes 1.31, lists fail as well once the API server
#   has to fill its cache anew, and then no namespace finishes.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/118357
#     description: A namespace with the conversion webhook of what it holds.
#   - ref: https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.3/pkg/apiserver/conversion/webhook_converter.go
#     description: Which objects are converted, and what happens if that fails.
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
#     Delete the objects while the conversion webhook still answers, and wait until they
#     are gone; then delete the namespace. If objects elsewhere are to stay, first have
#     them all stored in the version that discovery lists first, and take the others out
#     of status.storedVersions: they need no conversion then. If it is too late, bring the
#     webhook back.
#   manifest:
#     once: true
#     severity: medium
#     remedy: >-
#       Make the newest served version the storage version: what is stored from then on
#       can be deleted without the conversion webhook. Or serve no newer version than the
#       one that is stored.
#   limits: >-
#     In which version an object is stored: if several are possible, the finding says
#     "may". So it does where no pod that takes time to stop separates the end of the
#     webhook from that of the objects. Deletions of the Service or workload alone.
package termguard.conversion_backend_in_namespace

import data.termguard.lib.refusals
import data.termguard.lib.request
import data.termguard.lib.steps

deny contains finding(name, crd, msg, first(name)) if {
	some name, crd in lost
	here(name) > 0
	certain(crd)
	msg := sprintf("the conversion webhook of %s goes before those here, so they cannot be converted to %s and deleted", [name, crd.version])
}

warn contains finding(name, crd, msg, first(name)) if {
	some name, crd in lost
	here(name) > 0
	not certain(crd)
	msg := sprintf("the conversion webhook of %s may go before those here, which may have to be converted to %s", [name, crd.version])
}

warn contains finding(name, crd, msg, elsewhere) if {
	some name, crd in lost
	here(name) == 0
	crd.instances > 0
	msg := sprintf("the conversion webhook of %s goes, without which %d elsewhere may not be deleted any more", [name, crd.instances])
}

warn contains object.union(finding(request.name, crd, msg, []), {"objects": [request.target, converter]}) if {
	request.applying
	request.resource == "customresourcedefinitions.apiextensions.k8s.io"
	some definitions in data.cluster.conversionsFrom
	crd := definitions[request.name]
	msg := sprintf(
		"stored as %s and deleted as %s: while the conversion webhook does not answer, none can be deleted",
		[concat(" or ", crd.storedVersions), crd.version],
	)
}

# lost lists the definitions whose conversion webhook is deleted with the namespace, and may
# work until then.
lost[name] := crd if {
	request.deletes_namespace
	some name, crd in data.cluster.conversionsFrom[request.name]
	crd.backend.state != "down"
}

# converter is the Service of the conversion webhook.
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

first(name) := [steps.mend(sprintf("Delete the %s here first, while the webhook still answers; go on when they are gone", [name]), [])]

elsewhere := [steps.mend("Delete those elsewhere first, or have them all stored in the version that they are deleted in", [])]
