# METADATA
# title: Namespace deleted with objects that its finalizers need
# description: >-
#   The owner of a finalizer often reads another object first: a Secret with credentials,
#   the ServiceAccount that it impersonates and its bindings, a ConfigMap, a custom
#   resource; or only a RoleBinding allows it to update the object. If that is in the
#   deleted namespace without a finalizer, the namespace controller deletes it at once.
#   The owner then retries forever, and the namespace stays Terminating.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/deletion/namespaced_resources_deleter.go
#     description: Kind by kind, in no fixed order (deleteAllContent).
#   - ref: https://github.com/Azure/azure-service-operator/issues/4679
#     description: A credential Secret deleted before the Azure resources.
#   - ref: https://github.com/kubernetes/kubernetes/issues/115070
#     description: RoleBindings deleted before the cleanup of their operator.
# custom:
#   id: needs-go-with-namespace
#   severity: high
#   class: order
#   triggers: [delete]
#   resources: [namespaces]
#   needs:
#     - data.cluster.needs.$NAMESPACE
#     - data.cluster.needed.$NAMESPACE.*.*.$CLUSTER
#     - data.cluster.removers.$NAMESPACE.rights
#   relies_on:
#     - kinds: [$ELSEWHERE]
#       except: [secrets] # reported one by one
#   remedy: >-
#     Delete the objects with the finalizers first, and wait until they are deleted: then
#     delete the namespace. If it is Terminating already, the missing object cannot be
#     recreated there; clean up the protected resources by hand, then remove the finalizer.
#   manifest:
#     remedy: >-
#       Keep the objects that the owner of the finalizer reads in a namespace that is
#       deleted later, or keep the objects in a folder, or a release, of their own, which is
#       deleted first.
#   limits: >-
#     Only the catalog knows the objects that an owner reads, except Secrets that fields
#     name (see missing-reference). Whether the owner reads them in time is a race: the
#     finding says "may", also for a cluster-scoped object that is not deleted yet.
#     Objects in other namespaces that need an object in this one. Rights from another
#     authorizer than RBAC, and from a RoleBinding to admin, edit or cluster-admin.
package termguard.needs_go_with_namespace

import data.termguard.lib.finalizers
import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

warn contains {
	"msg": sprintf(
		"%s %s finalizer %s: %s",
		[wording.counted(group.count, resource), wording.plural(group.count, "has", "have"), finalizer, why],
	),
	"cause": owners.needs(finalizer, why),
	"objects": array.concat(
		[{"resource": resource, "namespace": request.name, "name": name} | some name in group.names],
		[{"resource": thing, "namespace": request.name, "name": name} | some name in group.needed.names],
	),
	"evidence": array.concat(
		[sprintf("no finalizer protects %s %s", [thing, name]) | some name in group.needed.names],
		object.get(working[0], "evidence", []),
	),
	"steps": finalizers.going_first(request.name, finalizer, resource, group),
} if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.needs[request.name]
	some resource, things in resources
	working := owners.at_work(request.name, finalizer, resource)
	count(working) > 0
	some thing, states in things
	some state in {"goes", "going"}
	group := states[state]
	why := sprintf("%s %s %s to remove it, which the namespace controller may delete first", [
		owners.its(working[0]), requires[state == "going"],
		listed(thing, group.needed),
	])
}

# A cluster-scoped object may be deleted with the content of the namespace, as a
# VolumeSnapshotContent with its VolumeSnapshot.
warn contains {
	"msg": sprintf(
		"%s %s finalizer %s: %s",
		[wording.counted(group.count, resource), wording.plural(group.count, "has", "have"), finalizer, why],
	),
	"cause": owners.needs(finalizer, why),
	"objects": array.concat(
		[{"resource": resource, "namespace": "", "name": name} | some name in group.names],
		[{"resource": thing, "namespace": request.name, "name": needed}],
	),
	"evidence": array.concat(
		[sprintf("no finalizer protects %s %s", [thing, needed])],
		object.get(working[0], "evidence", []),
	),
	"steps": [steps.mend(sprintf("Keep the namespace until the %s are deleted, or change the reference", [resource]), [])],
} if {
	request.deletes_namespace
	some thing, things in data.cluster.needed[request.name]
	some needed, holders in things
	some finalizer, resources in holders[""]
	some resource, group in resources
	working := owners.at_work("", finalizer, resource)
	count(working) > 0
	need := requires[object.get(group, "named", false)]
	why := sprintf("%s %s %s %s to remove it, which is deleted with the namespace", [owners.its(working[0]), need, thing, needed])
}

warn contains {
	"msg": sprintf(
		"%s %s finalizer %s: %s",
		[wording.counted(bucket.count, resource), wording.plural(bucket.count, "has", "have"), finalizer, why],
	),
	"cause": owners.needs(finalizer, why),
	"objects": array.concat(
		[{"resource": resource, "namespace": request.name, "name": name} | some name in bucket.names],
		[{"resource": "rolebindings.rbac.authorization.k8s.io", "namespace": request.name, "name": name} |
			some name in bindings
		],
	),
	"evidence": array.concat(
		[sprintf("only RoleBinding %s gives it the right to update %s here", [name, resource]) | some name in bindings],
		object.get(bucket.ownership, "evidence", []),
	),
	"steps": finalizers.going_first(request.name, finalizer, resource, bucket),
} if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.removers[request.name].rights
	some resource, signatures in resources
	some signature, _ in signatures
	bucket := data.cluster.finalized[request.name][finalizer][resource][signature]
	bindings := bucket.ownership.bindings
	why := sprintf(
		"only RoleBinding %s, which the namespace controller may delete first, allows %s to remove it",
		[concat(", ", bindings), owners.its(bucket.ownership)],
	)
}

requires := {true: "may need", false: "needs"}

listed(thing, needed) := sprintf("%s %s", [thing, needed.names[0]]) if needed.count == 1

listed(thing, needed) := sprintf("%d %s", [needed.count, thing]) if needed.count != 1
