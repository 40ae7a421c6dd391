# METADATA
# title: Finalizer without a known owner
# description: >-
#   The manifest gives the object a finalizer that the catalog does not know, and no
#   controller in the manifests or the cluster could remove it. The deleted object stays
#   Terminating until the finalizer is removed, and its namespace with it.
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
#     Do not write the finalizer in the manifest: its controller adds it by itself. If the
#     controller is installed elsewhere, declare it with the annotation
#     termguard.dev/finalizer-owner (KIND/NAMESPACE/NAME, or external), or with owners in
#     the configuration. If there is no controller, remove the finalizer from the manifest.
#   limits: >-
#     Controllers that are neither in the manifests nor in the cluster.
package termguard.unowned_finalizer

import data.termguard.lib.owners
import data.termguard.lib.request

warn contains {
	"msg": sprintf("no controller is known to remove finalizer %s: a deletion of %s may hang", [finalizer, request.word]),
	"objects": [request.target],
	"evidence": ownership.evidence,
	"field": field,
	"manifest": severity(ownership),
} if {
	request.applying
	some field, finalizer in given
	ownership := input.ownership[finalizer]
	ownership.state in {"unasked", "absent"}
	owners.name(ownership) == ""
}

default severity(_) := {}

# Without a cluster, other installed software is unknown.
severity(ownership) := {"severity": "low"} if ownership.state == "unasked"

# The namespace controller removes its own from the spec.
given[sprintf("metadata.finalizers[%d]", [i])] := finalizer if some i, finalizer in input.request.object.metadata.finalizers

given[sprintf("spec.finalizers[%d]", [i])] := finalizer if {
	request.resource == "namespaces"
	some i, finalizer in input.request.object.spec.finalizers
	finalizer != "kubernetes"
}
