# METADATA
# title: Conversion webhook that does not answer
# description: >-
#   Objects of a CustomResourceDefinition are deleted in the version that discovery lists
#   first; a conversion webhook converts objects stored in another version. While it does
#   not answer, they can be neither listed nor deleted. Since Kubernetes 1.31, one object
#   that cannot be converted keeps the API server's cache of the resource empty: lists
#   fail in every namespace, and no namespace finishes. Deleting the definition uses its
#   storage version: it hangs if there are objects in an older one.
# related_resources:
#   - ref: https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.3/pkg/apiserver/conversion/webhook_converter.go
#     description: Which objects are converted, and the effect of a failure.
#   - ref: https://github.com/kubernetes/apiserver/blob/v0.36.3/pkg/storage/cacher/delegator.go
#     description: Lists fail while the cache cannot be filled.
#   - ref: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
#     description: Versions, storedVersions and how objects are moved to another one.
# custom:
#   id: failing-conversion-webhook
#   severity: high
#   class: broken
#   triggers: [delete]
#   resources: [namespaces, customresourcedefinitions.apiextensions.k8s.io]
#   needs: [data.cluster.unconverted for namespaces, data.cluster.unconverted.$NAME]
#   remedy: >-
#     Restore the Service behind the conversion webhook, and the deletion finishes within a
#     minute or two. If its software was uninstalled and all objects are stored in one
#     version, stop serving the others: deletions then need no conversion, and nothing is
#     lost. Setting the conversion to None always helps, at a price: objects that stay lose
#     the fields that their version does not have when they are next written.
#   manifest:
#     remedy: >-
#       Ship the backend of the conversion webhook, stop serving the versions in which
#       nothing is stored, or set the conversion strategy to None.
#   limits: >-
#     The version in which an object is stored: if several are possible, the finding says
#     "may", unless lists fail already. While the API server still has an older cache,
#     only namespaces with such objects hang. Owners of finalizers that use another
#     version. A repaired webhook counts as broken for up to half a minute.
package termguard.failing_conversion_webhook

import data.termguard.lib.request
import data.termguard.lib.steps

deny contains finding(name, crd, msg, namespace_steps(name, crd)) if {
	some name, crd in unconverted
	everywhere(crd)
	msg := sprintf(
		"the conversion webhook of %s does not answer, and lists as %s fail, so no namespace can finish deleting",
		[name, crd.version],
	)
}

deny contains finding(name, crd, msg, namespace_steps(name, crd)) if {
	some name, crd in unconverted
	not everywhere(crd)
	not crd.version in crd.storedVersions
	here(name, crd)
	msg := sprintf(
		"the conversion webhook of %s does not answer, so objects here cannot be converted to %s and deleted",
		[name, crd.version],
	)
}

deny contains finding(request.name, older, msg, definition_steps(request.name, older)) if {
	unreadable(older)
	msg := sprintf("the conversion webhook does not answer, so instances cannot be listed as %s and deleted", [older.storage])
}

warn contains finding(name, crd, msg, namespace_steps(name, crd)) if {
	some name, crd in unconverted
	not everywhere(crd)
	crd.version in crd.storedVersions
	count(crd.storedVersions) > 1
	here(name, crd)
	msg := sprintf(
		"the conversion webhook of %s does not answer, and objects here may be stored in another version than %s",
		[name, crd.version],
	)
}

warn contains finding(name, crd, msg, namespace_steps(name, crd)) if {
	some name, crd in unconverted
	soon(crd)
	not here(name, crd)
	msg := sprintf(
		"the conversion webhook of %s does not answer: when lists as %s fail, no namespace can finish deleting",
		[name, crd.version],
	)
}

warn contains finding(request.name, older, msg, definition_steps(request.name, older)) if {
	not unreadable(older)
	older.instances > 0
	msg := sprintf(
		"the conversion webhook does not answer, and some instances may be stored as %s, not as %s",
		[concat(", ", before(older)), older.storage],
	)
}

unconverted[name] := crd if {
	request.deletes_namespace
	some name, crd in data.cluster.unconverted
	crd.namespaced
	crd.version != ""
}

everywhere(crd) if {
	crd.refused
	object.get(data.cluster.version, "listsFromCache", true)
}

# soon reports whether lists still come from an older cache.
soon(crd) if {
	crd.listError != ""
	not crd.refused
	object.get(data.cluster.version, "listsFromCache", true)
}

here(name, crd) if {
	count(crd.storedVersions) > 0
	data.cluster.counts[request.name][name] > 0
}

# older is the definition to delete, if instances may be stored in an older version.
older := crd if {
	request.deletes_definition
	crd := data.cluster.unconverted[request.name]
	count(before(crd)) > 0
}

before(crd) := [v | some v in crd.storedVersions; v != crd.storage]

unreadable(crd) if {
	crd.version == crd.storage
	crd.listError != ""
}

finding(name, crd, msg, plan) := {
	"msg": msg,
	"cause": {"object": definition},
	"objects": [definition],
	"evidence": array.concat(
		[
			sprintf("conversion webhook of %s: %s", [name, crd.backend.reason]),
			sprintf("objects are stored as %s, and deleted as %s", [concat(" or ", crd.storedVersions), crd.version]),
		],
		[sprintf("listing them fails: %s", [crd.listError]) | crd.listError != ""],
	),
	"steps": plan,
} if {
	definition := {"resource": "customresourcedefinitions.apiextensions.k8s.io", "namespace": "", "name": name}
}

namespace_steps(name, crd) := array.flatten([restore(crd), unserve(name, crd), steps.force(
	sprintf(
		"Set the conversion of %s to None: objects that stay lose fields that are not in both versions when they are next written",
		[name],
	),
	unconvert(name),
)])

definition_steps(name, crd) := [restore(crd), steps.remove(
	sprintf("If the software of %s was uninstalled, set the conversion to None: the instances are deleted anyway", [name]),
	unconvert(name),
)]

restore(crd) := steps.mend(sprintf("Restore %s, and the deletion finishes within a minute or two", [converter(crd)]), [])

converter(crd) := sprintf("Service %s/%s", [crd.service.namespace, crd.service.name])

converter(crd) := "the conversion webhook" if not crd.service

unserve(name, crd) := [steps.remove(
	sprintf(
		"If the conversion webhook was uninstalled, stop serving %s of %s: deletions then use %s, the stored version (nothing is lost)",
		[crd.version, name, stored],
	),
	{"verb": "patch", "objects": [sprintf("customresourcedefinitions/%s", [name])], "type": "json", "patch": [
		{"op": "test", "path": sprintf("/spec/versions/%d/name", [i]), "value": crd.version},
		{"op": "replace", "path": sprintf("/spec/versions/%d/served", [i]), "value": false},
	]},
) |
	some stored in crd.storedVersions
	count(crd.storedVersions) == 1
	served := {v.name: i | some i, v in data.cluster.crds[name].versions; v.served}
	object.keys(served) == {stored, crd.version}
	i := served[crd.version]
]

unconvert(name) := {
	"verb": "patch",
	"objects": [sprintf("customresourcedefinitions/%s", [name])],
	"type": "merge",
	"patch": {"spec": {"conversion": {"strategy": "None", "webhook": null}}},
}
