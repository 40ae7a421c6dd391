# METADATA
# description: The target of the request, its operation, and its user.
package termguard.lib.request

# target is the object of the request. Items of a deletecollection have no name in the request.
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

# word is the target as an argument of kubectl: TYPE/NAME.
word := sprintf("%s/%s", [resource, name])

# deleting is the request to delete the target itself, not a subresource.
deleting if {
	input.request.operation == "DELETE"
	object.get(input.request, "subResource", "") == ""
}

# leaving reports whether the target is Terminating already.
leaving if input.request.oldObject.metadata.deletionTimestamp

# ahead is text about a deletion that has not begun, and otherwise "".
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

# orphaning is the request to delete the target and keep its dependents.
orphaning if {
	deleting
	input.request.options.propagationPolicy == "Orphan"
}

# evicting is the request to evict the target, a pod: admission does not see the delete that it
# causes.
evicting if {
	input.request.operation == "CREATE"
	input.request.subResource == "eviction"
	resource == "pods"
}

# draining asks whether all pods of the target, a node, can be evicted. No API server sends this
# request: a drain is a loop of its client.
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

# person reports whether the user seems to be a person: neither a service account nor part of
# the control plane or a node. Some distributions call their administrator system:admin.
default person := false

person if not startswith(user, "system:")

person if user == "system:admin"

default user := ""

user := input.request.userInfo.username

# immortal lists the namespaces that the API server never deletes, as in package question
# (TestImmortal).
immortal := {"default", "kube-public", "kube-system"}
