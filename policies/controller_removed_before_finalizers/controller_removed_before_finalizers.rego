# METADATA
# title: Controller deleted before what it must clean up
# description: >-
#   The controller that removes a finalizer is deleted with the target, and objects with
#   that finalizer are still there. In a namespace that holds both an operator and its
#   custom resources, pods are deleted first (since Kubernetes 1.33), so the operator is
#   gone when the rest is deleted. The operator's Deployment, its service account, its
#   namespace, and the role or binding that alone lets it update such objects are deleted
#   at once, but the objects cannot be deleted afterwards.
# related_resources:
#   - ref: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5080-ordered-namespace-deletion
#     description: Pods go first since 1.33.
#   - ref: https://github.com/cloudnative-pg/cloudnative-pg/issues/10535
#     description: Operator and operand in one namespace.
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
#     description: Roles, and bindings, which give them to service accounts.
# custom:
#   id: controller-removed-before-finalizers
#   severity: high
#   triggers: [delete]
#   needs: [data.cluster.removers.$NAMESPACE]
#   remedy: >-
#     Delete the objects with the finalizer first, wait until they are gone, and then
#     delete the controller. If it is too late, install the controller again, and the
#     deletion finishes. Last, clean up by hand what the finalizer protects, then remove
#     the finalizer: anything that nobody cleaned up stays behind.
#   limits: >-
#     Roles and bindings that are deleted with their namespace, roles that are only
#     aggregated into the controller's role, and rights from another authorizer than RBAC.
#     In manifests, see operator-in-same-set. A controller that runs outside the cluster,
#     or in several namespaces. A Deployment, role or binding that is deleted to be
#     created again: the deletions that wait for it then continue.
package termguard.controller_removed_before_finalizers

import data.termguard.lib.finalizers
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

deny contains finding(msg, bucket.ownership, plan) if {
	some [finalizer, resource, bucket] in within
	certain(resource, bucket)
	msg := sprintf("%s here have finalizer %s, and its controller is deleted first, with the pods", [resource, finalizer])
	plan := finalizers.going_first(resource, bucket)
}

warn contains finding(msg, bucket.ownership, plan) if {
	some [finalizer, resource, bucket] in within
	not certain(resource, bucket)
	msg := sprintf("%s here have finalizer %s, and its controller may be deleted first", [resource, finalizer])
	plan := finalizers.going_first(resource, bucket)
}

warn contains finding(msg, ownership, [step]) if {
	some finalizer, resources in removed
	some resource, signatures in resources
	some signature, _ in signatures
	ownership := data.cluster.finalizers[finalizer][resource][signature]
	elsewhere(resource, finalizer, signature) > 0
	msg := sprintf(
		"%s in %d %s have finalizer %s, and this deletes %s: delete those first",
		[resource, elsewhere(resource, finalizer, signature), places(resource, finalizer, signature), finalizer, needed],
	)
	step := steps.mend(sprintf("Delete the %s with finalizer %s first, and wait until they are gone", [resource, finalizer]), [])
}

# removed are the finalizers that rest on what goes.
removed := data.cluster.removers[request.name][sprintf("namespaces/%s", [request.name])] if request.deletes_namespace

removed := data.cluster.removers[request.namespace][sprintf("%s/%s", [request.resource, request.name])] if {
	request.deleting
}

# needed is what goes, in words.
default needed := "its controller"

needed := "the only right to remove it" if endswith(request.resource, ".rbac.authorization.k8s.io")

# within are the objects in the namespace that hold them.
within contains [finalizer, resource, bucket] if {
	request.deletes_namespace
	some finalizer, resources in removed
	some resource, signatures in resources
	some signature, _ in signatures
	bucket := data.cluster.finalized[request.name][finalizer][resource][signature]
}

# certain is false of pods, which go together, and of the order before 1.33.
certain(resource, bucket) if {
	resource != "pods"
	bucket.ownership.certainty == "will"
	object.get(data.cluster.version, "podsFirst", true)
}

# elsewhere is how many other namespaces hold such objects; those without one count
# as one.
elsewhere(resource, finalizer, signature) := object.get(group, "count", 0) - here if {
	group := data.cluster.spread[resource][finalizer][signature]
	here := count([1 | some [f, r, _] in within; f == finalizer; r == resource])
}

places(resource, finalizer, signature) := wording.plural(elsewhere(resource, finalizer, signature), "namespace", "namespaces")

finding(msg, ownership, plan) := {
	"msg": msg,
	"objects": [request.target],
	"evidence": object.get(ownership, "evidence", []),
	"steps": plan,
}
