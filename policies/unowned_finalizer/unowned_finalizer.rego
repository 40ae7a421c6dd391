# METADATA
# title: Finalizer that nobody is known to remove
# description: >-
#   The manifest gives the object a finalizer that the catalog does not know, and no
#   controller in the manifests or the cluster could remove it. When the object is
#   deleted, it stays Terminating until somebody removes the finalizer, and its namespace
#   with it.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
# custom:
#   id: unowned-finalizer
#   aliases: [orphaned-finalizer]
#   severity: medium
#   triggers: [apply]
#   needs: [input.ownership.*.state unless alive]
#   remedy: >-
#     Leave the finalizer to the controller that removes it: the controller adds it by
#     itself. If its controller is installed elsewhere, declare it with the annotation
#     termguard.dev/finalizer-owner (KIND/NAMESPACE/NAME, or external), or with owners in
#     the configuration. If there is no controller, remove the finalizer from the
#     manifest.
#   limits: >-
#     Controllers that are neither in the manifests nor in the cluster.
package termguard.unowned_finalizer

import data.termguard.lib.owners
import data.termguard.lib.request

warn contains {
	"msg": sprintf("no controller is known to remove finalizer %s: once deleted, %s may stay Terminating", [finalizer, request.word]),
	"objects": [request.target],
	"evidence": ownership.evidence,
	"field": field,
	"manifest": told(ownership),
} if {
	request.applying
	some field, finalizer in given
	ownership := input.ownership[finalizer]
	ownership.state in {"unasked", "absent"}
	owners.name(ownership) == ""
}

default told(_) := {}

# Without a cluster, other installed software is unknown.
told(ownership) := {"severity": "low"} if ownership.state == "unasked"

# given lists the finalizers of the manifest by path. The namespace controller removes its own
# from the spec.
given[sprintf("metadata.finalizers[%d]", [i])] := finalizer if some i, finalizer in input.request.object.metadata.finalizers

given[sprintf("spec.finalizers[%d]", [i])] := finalizer if {
	request.resource == "namespaces"
	some i, finalizer in input.request.object.spec.finalizers
	finalizer != "kubernetes"
}
