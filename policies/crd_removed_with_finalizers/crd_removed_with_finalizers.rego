# METADATA
# title: Definition removed while instances have finalizers
# description: >-
#   Deleting a CustomResourceDefinition deletes all of its instances inside the API
#   server: no admission webhook sees them. If an instance has a finalizer that no
#   controller removes, it stays, and the definition with it. If a definition serves no
#   version, no client can see its instances or remove their finalizers.
# related_resources:
#   - ref: https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.3/pkg/controller/finalizer/crd_finalizer.go
#     description: How instances are deleted with their definition.
#   - ref: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#delete-a-customresourcedefinition
#     description: Delete a CustomResourceDefinition.
# custom:
#   id: crd-removed-with-finalizers
#   severity: high
#   class: broken
#   triggers: [delete]
#   resources: [customresourcedefinitions.apiextensions.k8s.io]
#   needs: [data.cluster.spread.$NAME, data.cluster.crds.$NAME.versions.*.served unless true]
#   relies_on:
#     - kinds: [$INSTANCES]
#   remedy: >-
#     Keep the definition and its software, delete the instances first, and wait until they
#     are deleted. If the software will not run again, clean up the resources that each
#     finalizer protects, then remove it from the instances by hand: anything not cleaned up
#     is leaked.
#   manifest:
#     remedy: >-
#       Keep the CustomResourceDefinition apart from its custom resources, in a folder or a
#       release that is deleted last, and ship the owners of their finalizers.
#   limits: >-
#     Instances that cannot be listed, for example because the conversion webhook is down.
package termguard.crd_removed_with_finalizers

import data.termguard.lib.finalizers
import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps

deny contains finding(finalizer, known[0]) if some finalizer, known in held.certain

warn contains finding(finalizer, known[0]) if some finalizer, known in held.uncertain

warn contains {
	"msg": "the definition serves no version, so finalizers of its instances can neither be seen nor removed",
	"objects": [request.target],
	"evidence": [sprintf("versions that are not served: %s", [concat(", ", [v.name | some v in versions])])],
	"steps": [steps.mend("Serve the version that the definition stores, and check again: its instances are then visible", {
		"verb": "patch",
		"objects": [sprintf("customresourcedefinitions/%s", [request.name])],
		"type": "json",
		"patch": [{"op": "replace", "path": sprintf("/spec/versions/%d/served", [i]), "value": true}],
	})],
	"manifest": retired,
} if {
	request.deletes_definition
	versions := data.cluster.crds[request.name].versions
	every v in versions { not v.served }
	some i, stored in versions
	stored.storage
}

# This usually retires a kind on purpose.
retired := {
	"severity": "low",
	"remedy": "If there are instances, serve the version that it stores until they are deleted.",
}

# held lists the finalizers of instances that are not removed: by class, with their owners.
held[class][finalizer] := known if {
	request.deletes_definition
	some class in ["certain", "uncertain"]
	some finalizer, signatures in data.cluster.spread[request.name]
	known := [ownership |
		some signature, _ in signatures
		ownership := data.cluster.finalizers[finalizer][request.name][signature]
		owners.class(ownership) == class
	]
	count(known) > 0
}

finding(finalizer, ownership) := {
	"msg": sprintf("instances have finalizer %s, and its controller is %s", [finalizer, words(ownership)]),
	"cause": {
		"finalizer": finalizer,
		"title": sprintf("its controller is %s", [words(ownership)]),
		"owner": {"name": owners.name(ownership), "state": ownership.state},
	},
	"objects": [request.target],
	"evidence": object.get(ownership, "evidence", []),
	"steps": array.concat(finalizers.bringing_back(ownership), finalizers.giving_up(finalizer, request.name, ownership)),
}

words(ownership) := "not found" if {
	ownership.state == "absent"
	owners.uncertain(ownership)
}

words(ownership) := "not installed" if {
	ownership.state == "absent"
	owners.certain(ownership)
}

words(ownership) := {
	"barred": "without the right to remove it",
	"down": "not running",
	"unknown": "not known",
}[ownership.state]
