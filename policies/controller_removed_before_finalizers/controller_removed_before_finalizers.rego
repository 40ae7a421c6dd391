# METADATA
# title: Controller deleted before the objects that it must clean up
# description: >-
#   The controller that removes a finalizer is deleted with the target, while objects with
#   that finalizer exist. In a namespace with an operator and its custom resources, pods
#   are deleted first (since Kubernetes 1.33), so the operator is gone when the rest is
#   deleted. The same is true of the operator's Deployment, service account and namespace,
#   of the only role or binding that lets it update such objects or renew its lease, and
#   of an owner of the Deployment, such as a Kafka cluster, a ClusterServiceVersion or a
#   Crossplane Provider: the garbage collector deletes the Deployment after its owner, and
#   in the foreground before it. A controller that crashes or is scaled to zero never
#   works again without these objects.
# related_resources:
#   - ref: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5080-ordered-namespace-deletion
#     description: Pods are deleted first since 1.33.
#   - ref: https://github.com/cloudnative-pg/cloudnative-pg/issues/10535
#     description: Operator and operand in one namespace.
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
#     description: Roles, and bindings, which give them to service accounts.
#   - ref: https://kubernetes.io/docs/concepts/architecture/garbage-collection/#cascading-deletion
#     description: Which dependents are deleted with their owner, and when.
#   - ref: https://github.com/cozystack/cozystack/issues/3793
#     description: KafkaTopics whose operator was deleted with the Kafka cluster.
# custom:
#   id: controller-removed-before-finalizers
#   severity: high
#   class: order
#   triggers: [delete]
#   needs: [data.cluster.removers.$NAMESPACE]
#   relies_on:
#     - kinds: [$ELSEWHERE]
#       except: # operators seldom protect them, and they show no owners or rights
#         - events
#         - services
#         - endpointslices.discovery.k8s.io
#         - poddisruptionbudgets.policy
#         - resourceclaims.resource.k8s.io
#         - secrets # termguard can be installed without reading them
#       for:
#         - namespaces
#         - deployments.apps
#         - statefulsets.apps
#         - daemonsets.apps
#         - serviceaccounts
#         - roles.rbac.authorization.k8s.io
#         - rolebindings.rbac.authorization.k8s.io
#         - clusterroles.rbac.authorization.k8s.io
#         - clusterrolebindings.rbac.authorization.k8s.io
#         - customresourcedefinitions.apiextensions.k8s.io
#         - $CUSTOM
#   remedy: >-
#     Delete the objects with the finalizer first, wait until they are deleted, and then
#     delete the controller. If the controller is deleted already, reinstall it, and the
#     deletion finishes. As a last resort, clean up the protected resources by hand, then
#     remove the finalizer: anything not cleaned up is leaked.
#   limits: >-
#     Roles and bindings that are deleted with their namespace, aggregated roles, and
#     other authorizers than RBAC. A lease in another namespace than its controller. For
#     manifests, see operator-in-same-set. A controller outside the cluster, or in several
#     namespaces. A Deployment with several owners, one of them deleted. A Deployment,
#     role or binding that is recreated: the waiting deletions then continue. Of custom
#     resources without finalizers, the webhook gets only deletions of Kafka clusters,
#     ClusterServiceVersions and Crossplane packages, and deletions in the foreground;
#     check reports all. With two Kafka clusters, the operator of either counts as the
#     owner of the finalizers of both. Secrets with finalizers, if Secrets cannot be
#     listed.
package termguard.controller_removed_before_finalizers

import data.termguard.lib.finalizers
import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

deny contains finding(msg, cause, bucket.ownership, plan) if {
	some [finalizer, resource, bucket] in within
	certain(resource, bucket)
	msg := sprintf("%s here have finalizer %s, and its controller is deleted first, with the pods", [resource, finalizer])
	cause := owners.needs(finalizer, "its controller is deleted first, with the pods")
	plan := within_first(finalizer, resource, bucket)
}

warn contains finding(msg, cause, bucket.ownership, plan) if {
	some [finalizer, resource, bucket] in within
	not certain(resource, bucket)
	msg := sprintf("%s here have finalizer %s, and its controller may be deleted first", [resource, finalizer])
	cause := owners.needs(finalizer, "its controller may be deleted first")
	plan := within_first(finalizer, resource, bucket)
}

warn contains finding(msg, deletes(finalizer), ownership, plan) if {
	some [finalizer, resource, signature] in removed
	ownership := data.cluster.finalizers[finalizer][resource][signature]
	elsewhere(resource, finalizer, signature) > 0
	ownership.state == "alive"
	msg := sprintf("%s%s", [left(resource, finalizer, signature, needed), advice(resource)])
	plan := before(finalizer, resource, signature)
}

# A controller that does not work will never work again.
warn contains finding(msg, deletes(finalizer), ownership, [step]) if {
	some [finalizer, resource, signature] in removed
	ownership := data.cluster.finalizers[finalizer][resource][signature]
	elsewhere(resource, finalizer, signature) > 0
	ownership.state != "alive"
	msg := sprintf("%s, which does not work now", [left(resource, finalizer, signature, idle)])
	step := steps.mend(
		sprintf(
			"Repair its controller, then delete the %s with finalizer %s; continue after they are deleted",
			[resource, finalizer],
		),
		[],
	)
}

# In the foreground, the dependents of the target are deleted first.
warn contains finding(msg, cause, ownership, [step]) if {
	request.foreground
	some [finalizer, resource, _] in removed
	resource == request.resource
	finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
	ownership.state == "alive"
	msg := sprintf("the controller of its finalizer %s is its dependent, and is deleted first in the foreground", [finalizer])
	cause := owners.needs(finalizer, "its controller is a dependent of the object, and is deleted first")
	step := steps.mend(
		sprintf("Delete %s in the background: its controller is then deleted after it", [request.word]),
		object.union(steps.deletion([request.word], request.namespace), {"cascade": "background"}),
	)
}

deletes(finalizer) := owners.needs(finalizer, sprintf("this deletes %s", [needed]))

left(resource, finalizer, signature, what) := sprintf(
	"%s in %d %s have finalizer %s, and this deletes %s",
	[resource, elsewhere(resource, finalizer, signature), places(resource, finalizer, signature), finalizer, what],
)

within_first(finalizer, resource, bucket) := finalizers.going_first(request.name, finalizer, resource, bucket) if not made(resource)

within_first(_, resource, _) := [step |
	some [finalizer, of, signature] in customs
	some step in finalizers.going_first(request.name, finalizer, of, data.cluster.finalized[request.name][finalizer][of][signature])
] if {
	made(resource)
}

# Volumes are not deleted to remove a controller.
before(finalizer, resource, signature) := first(finalizer, resource, signature) if {
	not spared(resource)
}

before(_, resource, _) := [step |
	some [finalizer, of, signature] in customs
	some step in first(finalizer, of, signature)
] if {
	made(resource)
}

before(finalizer, resource, _) := [steps.mend(
	sprintf("Keep %s while there are %s with finalizer %s: without it, they stay Terminating", [request.word, resource, finalizer]),
	[],
)] if {
	not made(resource)
	resource in data_kinds
}

data_kinds := {"persistentvolumeclaims", "persistentvolumes"}

advice(resource) := ": delete those first" if not spared(resource)

advice(resource) := "" if spared(resource)

spared(resource) if made(resource)

spared(resource) if resource in data_kinds

# made reports whether the controller creates objects of a kind for its custom resources.
made(resource) if {
	not data.cluster.crds[resource]
	count(customs) > 0
}

customs contains [finalizer, resource, signature] if {
	some [finalizer, resource, signature] in removed
	data.cluster.crds[resource]
}

# first names the objects in other namespaces if they are few.
first(finalizer, resource, signature) := [step |
	some ns, names in staying(finalizer, resource, signature)
	some step in finalizers.going_first(ns, finalizer, resource, {"names": names, "count": count(names)})
] if {
	named(finalizer, resource, signature)
}

first(finalizer, resource, signature) := [step] if {
	not named(finalizer, resource, signature)
	step := steps.mend(sprintf("Delete the %s with finalizer %s first; continue after they are deleted", [resource, finalizer]), [])
}

staying(finalizer, resource, signature) := {ns: names |
	some ns in data.cluster.spread[resource][finalizer][signature].names
	not ns in going(resource, finalizer, signature)
	bucket := data.cluster.finalized[ns][finalizer][resource][signature]
	bucket.count == count(bucket.names)
	names := [name | some name in bucket.names; not together(resource, ns, name)]
}

named(finalizer, resource, signature) if {
	few := count(staying(finalizer, resource, signature))
	few == elsewhere(resource, finalizer, signature)
	few <= 10
}

# removed lists the finalizers that depend on the deleted objects: [FINALIZER, RESOURCE,
# SIGNATURE].
removed contains [finalizer, resource, signature] if {
	some object_key in deleted_keys
	some finalizer, resources in data.cluster.removers[place][object_key]
	some resource, signatures in resources
	some signature, _ in signatures
}

place := request.name if request.deletes_namespace

place := request.namespace if not request.deletes_namespace

deleted_keys contains sprintf("namespaces/%s", [request.name]) if request.deletes_namespace

deleted_keys contains sprintf("%s/%s", [request.resource, request.name]) if {
	request.deleting
	not runs_on
}

deleted_keys contains sprintf("%s/%s", [kind, request.name]) if {
	request.deleting
	not request.orphaning
}

# runs_on reports whether the workload's pods stay.
runs_on if {
	request.orphaning
	endswith(request.resource, ".apps")
}

kind := input.request.kind.kind if input.request.kind.group == ""

kind := sprintf("%s.%s", [input.request.kind.kind, input.request.kind.group]) if input.request.kind.group != ""

default needed := "its controller"

needed := "a right that its controller needs" if endswith(request.resource, ".rbac.authorization.k8s.io")

default idle := "its controller"

idle := "a right of its controller" if endswith(request.resource, ".rbac.authorization.k8s.io")

# orphaned-finalizer reports controllers that do not work.
within contains [finalizer, resource, bucket] if {
	request.deletes_namespace
	some [finalizer, resource, signature] in removed
	bucket := data.cluster.finalized[request.name][finalizer][resource][signature]
	bucket.ownership.state == "alive"
}

# Pods are deleted together; before 1.33, so is everything.
certain(resource, bucket) if {
	resource != "pods"
	bucket.ownership.certainty == "will"
	object.get(data.cluster.version, "podsFirst", true)
}

# Cluster-scoped objects count as one namespace.
elsewhere(resource, finalizer, signature) := object.get(group, "count", 0) - count(going(resource, finalizer, signature)) if {
	group := data.cluster.spread[resource][finalizer][signature]
}

# going lists the namespaces whose objects are deleted, too: the deleted one, the target's if it
# is the only object, and those whose objects, or whose custom resources that these were created
# for, are all in the same command.
going(resource, finalizer, signature) := ({place |
	bucket := data.cluster.finalized[place][finalizer][resource][signature]
	all_go(resource, bucket)
} | {ns |
	some ns, _ in data.cluster.set[resource]
	all_together(ns, resource, data.cluster.finalized[ns][finalizer][resource][signature])
}) | {ns |
	made(resource)
	some ns in data.cluster.spread[resource][finalizer][signature].names
	held := {[of, bucket] | some [f, of, s] in customs; bucket := data.cluster.finalized[ns][f][of][s]}
	count(held) > 0
	every pair in held {
		all_together(ns, pair[0], pair[1])
	}
}

all_together(ns, resource, bucket) if {
	count(bucket.names) == bucket.count
	every name in bucket.names {
		together(resource, ns, name)
	}
}

together(resource, ns, name) if is_number(data.cluster.set[resource][ns][name])

all_go(_, _) if request.deletes_namespace

all_go(resource, bucket) if {
	resource == request.resource
	bucket.count == 1
	bucket.names == [request.name]
}

places(resource, finalizer, signature) := wording.plural(elsewhere(resource, finalizer, signature), "namespace", "namespaces")

finding(msg, cause, ownership, plan) := {
	"msg": msg,
	"cause": cause,
	"objects": [request.target],
	"evidence": object.get(ownership, "evidence", []),
	"steps": plan,
}
