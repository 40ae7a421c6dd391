# METADATA
# description: What the request is about, what it asks for, and who makes it.
package termguard.lib.request

# target is the object that the request is about. Items of a deletecollection come
# without a name of their own.
target := {"resource": resource, "namespace": namespace, "name": name}

default resource := ""

resource := input.request.resource.resource if {
	object.get(input.request.resource, "group", "") == ""
} else := sprintf("%s.%s", [input.request.resource.resource, input.request.resource.group])

default name := ""

name := input.request.name if {
	object.get(input.request, "name", "") != ""
} else := input.request.oldObject.metadata.name

default namespace := ""

namespace := input.request.namespace if resource != "namespaces"

# word is the target as kubectl takes it: TYPE/NAME.
word := sprintf("%s/%s", [resource, name])

# deleting is the request to delete the target itself, not one of its parts.
deleting if {
	input.request.operation == "DELETE"
	object.get(input.request, "subResource", "") == ""
}

# leaving is true of a target that is being deleted already.
leaving if input.request.oldObject.metadata.deletionTimestamp

# ahead is what a sentence says of the deletion to come, "" where it has begun.
ahead(text) := text if not leaving

ahead(_) := "" if leaving

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

# foreground is the request to delete in the foreground, which waits for the
# dependents; it may be the second.
foreground if {
	deleting
	input.request.options.propagationPolicy == "Foreground"
}

foreground if {
	deleting
	"foregroundDeletion" in input.request.oldObject.metadata.finalizers
}

# orphaning is the request to delete the target and keep what it owns.
orphaning if {
	deleting
	input.request.options.propagationPolicy == "Orphan"
}

# evicting is the request to evict the target, a pod: the delete that it causes
# is not shown to admission.
evicting if {
	input.request.operation == "CREATE"
	input.request.subResource == "eviction"
	resource == "pods"
}

# draining is the question of whether all pods of the target, a node, can be evicted.
# No API server asks it: a drain is a loop of its client.
draining if {
	input.request.operation == "CONNECT"
	input.request.subResource == "drain"
	resource == "nodes"
}

# applying is the request to create the target, or to change it.
applying if {
	input.request.operation in {"CREATE", "UPDATE"}
	object.get(input.request, "subResource", "") == ""
}

# person is true where nothing tells that software makes the request: it is
# neither a service account nor part of the control plane or a node. Some
# distributions call their administrator system:admin.
default person := false

person if not startswith(user, "system:")

person if user == "system:admin"

default user := ""

user := input.request.userInfo.username

# immortal are the namespaces that the API server deletes for nobody, as package question
# has them (TestImmortal).
immortal := {"default", "kube-public", "kube-system"}
