# METADATA
# title: Operator deleted together with its custom resources
# description: >-
#   One kubectl delete -f deletes the object and the workload that removes its finalizer.
#   kubectl deletes in the order of the files and waits only at the end. Whether the
#   controller gets to the object before it is stopped, or loses its permissions, is
#   chance. If it does not, the object stays Terminating, and so do its namespace and its
#   CustomResourceDefinition.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
#   - ref: https://github.com/kubernetes/kubectl/blob/v0.36.3/pkg/cmd/delete/delete.go
#     description: Everything is deleted first, then waited for (DeleteResult).
# custom:
#   id: operator-in-same-set
#   severity: medium
#   triggers: [delete]
#   needs: [data.cluster.set]
#   remedy: >-
#     Delete the custom resources first, and wait until they are gone; then delete the
#     rest. Keep them in a directory, or a release, of their own. If it is too late, bring
#     back the operator, and the deletion finishes by itself.
#   manifest:
#     once: true
#     remedy: >-
#       Keep the custom resources in a folder, or a release, of their own: it is deleted
#       first, and the operator when that is gone.
#   limits: >-
#     Finalizers that the catalog does not know and that are not in the manifests. Which
#     of the two is faster.
package termguard.operator_in_same_set

import data.termguard.lib.request

warn contains {
	"msg": sprintf("kubectl delete -f deletes %s together with %s, which removes %s", [request.word, called(workload), several(finalizers)]),
	"objects": [request.target, workload],
	"evidence": sort({fact | some finalizer in finalizers; some fact in input.ownership[finalizer].evidence}),
	"manifest": told,
} if {
	request.deleting
	some workload, finalizers in removes
}

default told := {}

# flux bootstrap writes both into one folder, and nobody else.
told := {
	"severity": "low",
	"remedy": "Nothing in manifests that flux bootstrap wrote: uninstall by flux uninstall, which removes the finalizers.",
} if {
	endswith(request.resource, ".toolkit.fluxcd.io")
}

# removes are the workloads that go with the set, each with the finalizers of the
# object that it removes.
removes[workload] contains finalizer if {
	some finalizer in input.request.oldObject.metadata.finalizers
	input.ownership[finalizer].state == "alive"
	some workload in input.ownership[finalizer].workloads
	data.cluster.set[workload.resource][workload.namespace][workload.name]
}

several(finalizers) := finalizer if {
	count(finalizers) == 1
	some finalizer in finalizers
}

several(finalizers) := sprintf("%d finalizers of it", [count(finalizers)]) if count(finalizers) > 1

# called is a workload as people call it.
called(workload) := sprintf("%s %s/%s", [trim_suffix(workload.resource, "s.apps"), workload.namespace, workload.name])
