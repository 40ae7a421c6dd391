# METADATA
# description: What several policies need to know about a request.
package termguard.lib

# target is what the request is about. Items of a deletecollection come without
# a name of their own.
target := {"resource": resource, "namespace": namespace, "name": name}

default resource := ""

resource := input.request.resource.resource if object.get(input.request.resource, "group", "") == ""

resource := sprintf("%s.%s", [input.request.resource.resource, input.request.resource.group]) if {
	object.get(input.request.resource, "group", "") != ""
}

default name := ""

name := input.request.name if object.get(input.request, "name", "") != ""

name := input.request.oldObject.metadata.name if object.get(input.request, "name", "") == ""

default namespace := ""

namespace := input.request.namespace if resource != "namespaces"

# target_word is the target as kubectl takes it.
target_word := sprintf("%s/%s", [resource, name])

# deleting is the request to delete the target itself, not one of its parts.
deleting if {
	input.request.operation == "DELETE"
	object.get(input.request, "subResource", "") == ""
}

# deletes_namespace is true for the request to delete a namespace.
deletes_namespace if {
	deleting
	resource == "namespaces"
}

# deletes_definition is true for the request to delete a CustomResourceDefinition.
deletes_definition if {
	deleting
	resource == "customresourcedefinitions.apiextensions.k8s.io"
}

# evicting is the request to evict the target, a pod: the delete that it causes
# is not shown to admission.
evicting if {
	input.request.operation == "CREATE"
	input.request.subResource == "eviction"
	resource == "pods"
}

# finished are the phases of a pod in which the API server sets the grace period
# to 0 (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
finished := {"Succeeded", "Failed"}

# stopped nodes stop no pod: their kubelet is silent, or has no runtime.
stopped(node) if node.ready == "Unknown"

stopped(node) if contains(node.message, "container runtime is down")

# harmless is what makes a node not ready while its kubelet still stops pods.
# Whatever else the message names outweighs it.
harmless(node) if {
	some excuse in ["NetworkPluginNotReady", "cni plugin not initialized", "CSINode is not yet initialized", "missing node capacity"]
	contains(explained(node), excuse)
	every trouble in ["is not healthy", "container runtime not ready", "runtime status check", "shutting down"] {
		not contains(explained(node), trouble)
	}
}

# explained is why a node is not ready.
explained(node) := sprintf("%s: %s", [node.reason, node.message])

# plural is the word for so many.
plural(1, one, _) := one

plural(n, _, many) := many if n != 1

# person is true where nothing tells that software makes the request: it is
# neither a service account nor part of the control plane or a node. Some
# distributions call their administrator system:admin.
default person := false

person if not startswith(user, "system:")

person if user == "system:admin"

default user := ""

user := input.request.userInfo.username

# certain is an owner of which it is sure that it does not remove its finalizer.
certain(ownership) if {
	ownership.state in {"absent", "down"}
	ownership.certainty == "will"
}

# uncertain is one of which it is not sure that it does.
uncertain(ownership) if {
	ownership.state in {"absent", "down"}
	ownership.certainty != "will"
}

uncertain(ownership) if ownership.state == "unknown"

# owner is who removes a finalizer, "" where nobody knows.
owner(ownership) := object.get(ownership, "owner", "")

# reason is why a finalizer is not removed.
reason(ownership) := sprintf("its owner, %s, is not installed", [owner(ownership)]) if {
	ownership.state == "absent"
	owner(ownership) != ""
}

reason(ownership) := "nothing that could remove it is running" if {
	ownership.state == "absent"
	owner(ownership) == ""
}

reason(ownership) := sprintf("its owner, %s, is not running", [owner(ownership)]) if {
	ownership.state == "down"
	owner(ownership) != ""
}

reason(ownership) := "what removes it is not running" if {
	ownership.state == "down"
	owner(ownership) == ""
}

reason(ownership) := sprintf("whether its owner, %s, runs is unknown", [owner(ownership)]) if {
	ownership.state == "unknown"
	owner(ownership) != ""
}

reason(ownership) := "who removes it is unknown" if {
	ownership.state == "unknown"
	owner(ownership) == ""
}

# class is what is known of an owner that does not remove its finalizer.
class(ownership) := "certain" if certain(ownership)

class(ownership) := "uncertain" if uncertain(ownership)

# own are the finalizers of the target that are not removed, by class: pairs
# [INDEX, FINALIZER].
own[class(ownership)] contains [i, finalizer] if {
	deleting
	some i, finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
}

# Deletion in the foreground.

# foreground is the request that waits for the dependents; it may be the second.
foreground if {
	deleting
	input.request.options.propagationPolicy == "Foreground"
}

foreground if {
	deleting
	"foregroundDeletion" in input.request.oldObject.metadata.finalizers
}

# waited are the UIDs of the object and of what it owns, four links down: Rego has
# no recursion, and a custom resource that owns a Deployment needs three.
waited := (((start | second) | third) | fourth) | fifth

start contains input.request.oldObject.metadata.uid

second := below(start)

third := below(second)

fourth := below(third)

fifth := below(fourth)

below(uids) := {uid | some owner in uids; some uid, _ in data.cluster.owners[owner].dependents}

# guarded are the dependents with finalizers.
guarded contains object.union(group, {
	"resource": of,
	"namespace": ns,
	"finalizer": finalizer,
	"ownership": ownership,
}) if {
	foreground
	some uid in waited
	some ns, finalizers in data.cluster.owners[uid].finalized
	some finalizer, resources in finalizers
	some of, groups in resources
	some signature, group in groups
	ownership := data.cluster.finalizers[finalizer][of][signature]
}

# cleared is what the owner does before it removes the finalizer.
cleared(ownership) := sprintf(" (%s)", [ownership.clears]) if object.get(ownership, "clears", "") != ""

cleared(ownership) := "" if object.get(ownership, "clears", "") == ""
