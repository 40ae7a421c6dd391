# METADATA
# title: Finalizer removed by hand while its owner runs
# description: >-
#   A finalizer stands for work before its object is deleted: delete a load balancer, a
#   volume, rows in a database. If a user removes it while its owner runs, the object is
#   deleted at once, and the protected resources are leaked.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: The purpose of finalizers, and why not to remove them by hand.
# custom:
#   id: finalizer-stripped-while-controller-alive
#   severity: high
#   triggers: [finalizer-edit]
#   needs: [input.ownership]
#   relies_on:
#     - kinds:
#         - pods
#         - deployments.apps
#         - statefulsets.apps
#         - daemonsets.apps
#         - roles.rbac.authorization.k8s.io
#         - clusterroles.rbac.authorization.k8s.io
#         - rolebindings.rbac.authorization.k8s.io
#         - clusterrolebindings.rbac.authorization.k8s.io
#       for: [$FINALIZERS]
#   remedy: >-
#     Keep the finalizer and give its owner time. The log of the owner and the events of the
#     object show the blocker. As a last resort, if you remove the finalizer anyway, clean
#     up the protected resources by hand: nothing else will.
#   limits: >-
#     Whether the owner will ever finish. Only users are warned, because some software
#     removes the finalizers of other software; a service account that a person uses
#     counts as software.
package termguard.finalizer_stripped_while_controller_alive

import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps

warn contains {
	"msg": sprintf("finalizer %s is removed by hand while %s runs: anything not cleaned up is leaked", [finalizer, owners.its(ownership)]),
	"objects": [request.target],
	"evidence": object.get(ownership, "evidence", []),
	"field": field,
	"steps": [
		steps.mend(
			sprintf("Keep %s, and look at the log of %s and at the events of the object", [finalizer, who(ownership)]),
			[],
		),
		steps.force(
			sprintf(
				"Remove the finalizer, and do the cleanup of its owner by hand%s: nothing else will",
				[owners.cleared(ownership)],
			),
			[],
		),
	],
} if {
	request.person
	some field, finalizer in taken
	ownership := input.ownership[finalizer]
	ownership.state == "alive"
}

taken[sprintf("metadata.finalizers[%d]", [i])] := finalizer if {
	input.request.operation == "UPDATE"
	object.get(input.request, "subResource", "") == ""
	some i, finalizer in input.request.oldObject.metadata.finalizers
	not finalizer in object.get(input.request.object, ["metadata", "finalizers"], [])
}

taken[sprintf("spec.finalizers[%d]", [i])] := finalizer if {
	request.resource == "namespaces"
	input.request.operation == "UPDATE"
	input.request.subResource == "finalize"
	some i, finalizer in input.request.oldObject.spec.finalizers
	not finalizer in object.get(input.request.object, ["spec", "finalizers"], [])
}

who(ownership) := {true: "its owner", false: owners.name(ownership)}[owners.name(ownership) == ""]
