# METADATA
# title: Finalizer that nobody is known to remove
# description: >-
#   The manifest gives the object a finalizer that the catalog does not know, and nothing
#   in the facts, manifests or a cluster, could remove it. Deleting the object takes
#   somebody who does, or it stays Terminating, and its namespace with it.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
# custom:
#   id: unowned-finalizer
#   severity: medium
#   triggers: [apply]
#   needs: [input.request.object.metadata.finalizers]
#   remedy: >-
#     Leave the finalizer to the controller that removes it: it adds it by itself. If
#     its controller is installed elsewhere, say so with the annotation
#     termguard.dev/finalizer-owner (KIND/NAMESPACE/NAME, or external), or with owners
#     in the configuration. If there is none, take it out.
#   limits: >-
#     Controllers outside of what the facts show.
package termguard.unowned_finalizer

import data.termguard.lib.owners
import data.termguard.lib.request

warn contains {
	"msg": sprintf("nothing is known to remove finalizer %s: once deleted, this may stay Terminating", [finalizer]),
	"objects": [request.target],
	"evidence": ownership.evidence,
	"field": sprintf("metadata.finalizers[%d]", [i]),
} if {
	request.applying
	some i, finalizer in input.request.object.metadata.finalizers
	ownership := input.ownership[finalizer]
	ownership.state in {"unasked", "absent"}
	owners.name(ownership) == ""
}
