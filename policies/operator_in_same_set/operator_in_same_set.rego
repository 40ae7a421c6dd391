# METADATA
# title: Operator deleted together with its custom resources
# description: >-
#   One command deletes the object and the workload that removes its finalizer. kubectl
#   delete -f deletes in the order of the files and waits only at the end; helm uninstall
#   deletes Deployments and roles before custom resources, and does not wait. It is a race
#   whether the controller handles the object before it is stopped or loses its
#   permissions. If not, the object stays Terminating, with its namespace and its
#   CustomResourceDefinition. If the client waits until the workload is deleted before it
#   deletes the object, as Argo CD does between sync waves, the object surely hangs.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
#   - ref: https://github.com/kubernetes/kubectl/blob/v0.36.3/pkg/cmd/delete/delete.go
#     description: Everything is deleted first, then waited for (DeleteResult).
#   - ref: https://github.com/helm/helm/blob/v4.3.1/pkg/release/v1/util/kind_sorter.go
#     description: The order of helm uninstall (UninstallOrder). Kinds that it does not name come last.
# custom:
#   id: operator-in-same-set
#   severity: medium
#   class: order
#   triggers: [delete]
#   needs:
#     - data.cluster.set and input.ownership.*.state is alive
#     - data.cluster.set and data.cluster.spread.$NAME for customresourcedefinitions.apiextensions.k8s.io
#   remedy: >-
#     Delete the custom resources first, and wait until they are deleted; then delete the
#     rest. Keep them in a directory, or a release, of their own. If the operator is deleted
#     already, reinstall it, and the deletion finishes by itself.
#   manifest:
#     once: true
#     remedy: >-
#       Keep the custom resources in a folder, or a release, of their own, and delete it
#       before the operator.
#   limits: >-
#     Finalizers that are neither in the catalog nor in the manifests. The result of the
#     race.
package termguard.operator_in_same_set

import data.termguard.lib.finalizers as lib_finalizers
import data.termguard.lib.request
import data.termguard.lib.steps

deny contains finding(workload, finalizers) if {
	some workload, finalizers in removes
	certain(finalizers)
}

warn contains finding(workload, finalizers) if {
	some workload, finalizers in removes
	not certain(finalizers)
}

finding(workload, finalizers) := {
	"msg": message(workload, finalizers),
	"objects": [request.target, workload],
	"evidence": sort({fact | some finalizer in finalizers; some owner in clearing[finalizer]; some fact in owner.evidence}),
	"manifest": expected,
	"steps": first,
}

first := [steps.mend(
	sprintf("Delete %s first; continue after it is deleted", [request.word]),
	steps.deleted([request.word], request.namespace),
)] if {
	not request.deletes_definition
	not request.leaving
}

first := [steps.mend(sprintf("Keep the rest until %s is deleted", [request.word]), [])] if {
	not request.deletes_definition
	request.leaving
}

# The user may not intend to delete the instances.
first := [steps.mend(lib_finalizers.first(request.name), [])] if request.deletes_definition

message(workload, finalizers) := sprintf(
	"%s deletes %s together with %s, which removes %s",
	[command, request.word, called(workload), several(finalizers)],
) if {
	place(workload) >= place(request.target)
}

message(workload, finalizers) := sprintf(
	"%s deletes %s, which removes %s, before %s",
	[command, called(workload), several(finalizers), request.word],
) if {
	place(workload) < place(request.target)
}

default command := "kubectl delete -f"

command := data.cluster.setOrder.by

default expected := {}

# Only flux bootstrap writes both into one folder.
expected := {
	"severity": "low",
	"remedy": "Nothing in manifests of flux bootstrap: uninstall with flux uninstall, which removes the finalizers.",
} if {
	endswith(request.resource, ".toolkit.fluxcd.io")
}

# removes lists the workloads that are deleted before the object or at once, with its finalizers
# that they remove.
removes[workload] contains finalizer if {
	some finalizer, owners in clearing
	some owner in owners
	some workload in owner.workloads
	too_early(workload)
}

clearing[finalizer] contains owner if {
	request.deleting
	some finalizer in input.request.oldObject.metadata.finalizers
	owner := input.ownership[finalizer]
	owner.state == "alive"
}

# For a definition, it lists those of its instances outside the set.
clearing[finalizer] contains owner if {
	request.deletes_definition
	not data.cluster.set[request.name]
	some finalizer, signatures in data.cluster.spread[request.name]
	some signature, _ in signatures
	owner := data.cluster.finalizers[finalizer][request.name][signature]
	owner.state == "alive"
}

too_early(workload) if {
	place(workload) <= place(request.target)
}

too_early(workload) if {
	place(workload) > place(request.target)
	not waits
}

# certain reports whether all owners of one finalizer are deleted before the object.
certain(finalizers) if {
	waits
	some finalizer in finalizers
	some owner in clearing[finalizer]
	owner.certainty == "will"
	every workload in owner.workloads {
		place(workload) < place(request.target)
	}
}

waits if data.cluster.setOrder.waits

place(of) := data.cluster.set[of.resource][of.namespace][of.name]

several(finalizers) := sprintf("%s of its instances", [named(finalizers)]) if request.deletes_definition

several(finalizers) := named(finalizers) if not request.deletes_definition

named(finalizers) := finalizer if {
	count(finalizers) == 1
	some finalizer in finalizers
}

named(finalizers) := sprintf("%d finalizers", [count(finalizers)]) if count(finalizers) > 1

called(workload) := sprintf("%s %s/%s", [trim_suffix(workload.resource, "s.apps"), workload.namespace, workload.name])
