# METADATA
# title: Controller deleted before what it must clean up
# description: >-
#   The controller that removes a finalizer is deleted with the target, and objects with
#   that finalizer are still there. In a namespace that holds both an operator and its
#   custom resources, pods are deleted first (since Kubernetes 1.33), so the operator is
#   gone when the rest is deleted. The operator's Deployment, its service account, its
#   namespace, and the role or binding that alone lets it update such objects, or renew the
#   lease by which it elects who works, are deleted at once, but the objects cannot be
#   deleted afterwards. So is what owns the Deployment, such as a Kafka cluster, a
#   ClusterServiceVersion or a Crossplane Provider: the garbage collector deletes the
#   Deployment after it, unless dependents are orphaned, and before it in the foreground. The
#   same holds of a controller that crashes or is scaled to zero: without these, it never
#   works again.
# related_resources:
#   - ref: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5080-ordered-namespace-deletion
#     description: Pods go first since 1.33.
#   - ref: https://github.com/cloudnative-pg/cloudnative-pg/issues/10535
#     description: Operator and operand in one namespace.
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
#     description: Roles, and bindings, which give them to service accounts.
#   - ref: https://kubernetes.io/docs/concepts/architecture/garbage-collection/#cascading-deletion
#     description: What goes with its owner, and when.
#   - ref: https://github.com/cozystack/cozystack/issues/3793
#     description: KafkaTopics whose operator went with the Kafka cluster.
# custom:
#   id: controller-removed-before-finalizers
#   severity: high
#   class: order
#   triggers: [delete]
#   needs: [data.cluster.removers.$NAMESPACE]
#   relies_on:
#     - kinds: [$ELSEWHERE]
#       except: # what operators seldom guard, and does not tell who runs, and may do what
#         - events
#         - services
#         - endpointslices.discovery.k8s.io
#         - poddisruptionbudgets.policy
#         - resourceclaims.resource.k8s.io
#         - secrets # termguard can be installed without
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
#     Delete the objects with the finalizer first, wait until they are gone, and then
#     delete the controller. If it is too late, install the controller again, and the
#     deletion finishes. Last, clean up by hand what the finalizer protects, then remove
#     the finalizer: anything that nobody cleaned up stays behind.
#   limits: >-
#     Roles and bindings that are deleted with their namespace, roles that are only
#     aggregated into the controller's role, and rights from another authorizer than RBAC. A
#     lease in another namespace than its controller. In manifests, see
#     operator-in-same-set. A controller that runs outside the cluster, or in several
#     namespaces. A Deployment with several owners, of which one goes. A Deployment, role or
#     binding that is deleted to be created again: the deletions that wait for it then
#     continue. Of custom resources that have no finalizers, the webhook is shown only the
#     deletion of Kafka clusters, ClusterServiceVersions and packages of Crossplane, and of
#     others in the foreground: check tells of all. Of two Kafka clusters, the operator of
#     either counts as remover of the topics of both. Secrets with finalizers, where Secrets
#     may not be listed.
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

# A controller that does not work now never works again.
warn contains finding(msg, deletes(finalizer), ownership, [step]) if {
	some [finalizer, resource, signature] in removed
	ownership := data.cluster.finalizers[finalizer][resource][signature]
	elsewhere(resource, finalizer, signature) > 0
	ownership.state != "alive"
	msg := sprintf("%s, which does not work now", [left(resource, finalizer, signature, idle)])
	step := steps.mend(
		sprintf(
			"Get its controller to work again, then delete the %s with finalizer %s; go on when they are gone",
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
	msg := sprintf("in the foreground, the controller that removes its finalizer %s goes first: it owns it", [finalizer])
	cause := owners.needs(finalizer, "its controller goes first, which it owns")
	step := steps.mend(
		sprintf("Delete %s in the background: its controller then goes after it", [request.word]),
		object.union(steps.deletion([request.word], request.namespace), {"cascade": "background"}),
	)
}

deletes(finalizer) := owners.needs(finalizer, sprintf("this deletes %s", [needed]))

left(resource, finalizer, signature, what) := sprintf(
	"%s in %d %s have finalizer %s, and this deletes %s",
	[resource, elsewhere(resource, finalizer, signature), places(resource, finalizer, signature), finalizer, what],
)

# within_first lists the steps that delete content of the namespace while its controller runs.
within_first(finalizer, resource, bucket) := finalizers.going_first(request.name, finalizer, resource, bucket) if not made(resource)

within_first(_, resource, _) := [step |
	some [finalizer, of, signature] in customs
	some step in finalizers.going_first(request.name, finalizer, of, data.cluster.finalized[request.name][finalizer][of][signature])
] if {
	made(resource)
}

# before lists the steps for objects in other namespaces. Volumes are not deleted to remove a
# controller.
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
	sprintf("Keep %s for as long as there are %s with finalizer %s: without it, these stay", [request.word, resource, finalizer]),
	[],
)] if {
	not made(resource)
	resource in data_kinds
}

data_kinds := {"persistentvolumeclaims", "persistentvolumes"}

advice(resource) := ": delete those first" if not spared(resource)

advice(resource) := "" if spared(resource)

# spared reports whether objects of a kind are not deleted to remove a controller.
spared(resource) if made(resource)

spared(resource) if resource in data_kinds

# made reports whether the controller creates objects of a kind for its custom resources: it
# deletes or keeps them with these.
made(resource) if {
	not data.cluster.crds[resource]
	count(customs) > 0
}

customs contains [finalizer, resource, signature] if {
	some [finalizer, resource, signature] in removed
	data.cluster.crds[resource]
}

# first lists the steps that delete objects in other namespaces, by name if they are few.
first(finalizer, resource, signature) := [step |
	some ns, names in staying(finalizer, resource, signature)
	some step in finalizers.going_first(ns, finalizer, resource, {"names": names, "count": count(names)})
] if {
	named(finalizer, resource, signature)
}

first(finalizer, resource, signature) := [step] if {
	not named(finalizer, resource, signature)
	step := steps.mend(sprintf("Delete the %s with finalizer %s first; go on when they are gone", [resource, finalizer]), [])
}

# staying lists the names of objects in other namespaces, by namespace.
staying(finalizer, resource, signature) := {ns: names |
	some ns in data.cluster.spread[resource][finalizer][signature].names
	not ns in going(resource, finalizer, signature)
	bucket := data.cluster.finalized[ns][finalizer][resource][signature]
	bucket.count == count(bucket.names)
	names := [name | some name in bucket.names; not together(resource, ns, name)]
}

# named reports whether all of them are known by name, in a few namespaces.
named(finalizer, resource, signature) if {
	few := count(staying(finalizer, resource, signature))
	few == elsewhere(resource, finalizer, signature)
	few <= 10
}

# removed lists the finalizers that depend on the deleted objects: triples [FINALIZER, RESOURCE,
# SIGNATURE].
removed contains [finalizer, resource, signature] if {
	some what in gone
	some finalizer, resources in data.cluster.removers[place][what]
	some resource, signatures in resources
	some signature, _ in signatures
}

# place is the key of its namespace in the facts.
place := request.name if request.deletes_namespace

place := request.namespace if not request.deletes_namespace

# gone lists the keys of the deleted objects in the facts.
gone contains sprintf("namespaces/%s", [request.name]) if request.deletes_namespace

gone contains sprintf("%s/%s", [request.resource, request.name]) if {
	request.deleting
	not runs_on
}

gone contains sprintf("%s/%s", [kind, request.name]) if {
	request.deleting
	not request.orphaning
}

# runs_on reports whether the deletion of a workload keeps its pods.
runs_on if {
	request.orphaning
	endswith(request.resource, ".apps")
}

# kind is the kind of the target, as in owner references.
kind := input.request.kind.kind if input.request.kind.group == ""

kind := sprintf("%s.%s", [input.request.kind.kind, input.request.kind.group]) if input.request.kind.group != ""

# needed names the deleted object.
default needed := "its controller"

needed := "a right that its controller needs" if endswith(request.resource, ".rbac.authorization.k8s.io")

# idle names the deleted object of a controller that does not work.
default idle := "its controller"

idle := "a right of its controller" if endswith(request.resource, ".rbac.authorization.k8s.io")

# within lists the objects in the namespace with such finalizers. orphaned-finalizer reports
# controllers that do not work.
within contains [finalizer, resource, bucket] if {
	request.deletes_namespace
	some [finalizer, resource, signature] in removed
	bucket := data.cluster.finalized[request.name][finalizer][resource][signature]
	bucket.ownership.state == "alive"
}

# certain is false for pods, which are deleted together, and for the order before 1.33.
certain(resource, bucket) if {
	resource != "pods"
	bucket.ownership.certainty == "will"
	object.get(data.cluster.version, "podsFirst", true)
}

# elsewhere is the number of other namespaces with such objects; cluster-scoped objects count as
# one namespace.
elsewhere(resource, finalizer, signature) := object.get(group, "count", 0) - count(going(resource, finalizer, signature)) if {
	group := data.cluster.spread[resource][finalizer][signature]
}

# going lists the namespaces whose objects are deleted, too: the deleted namespace, that of the
# target if it is the only object, namespaces whose objects are all in the same command, and
# namespaces whose custom resources are, because the controller handles the objects that it
# created for these.
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

# together reports whether the same command deletes an object.
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
