# METADATA
# description: The target of the request, its operation, and its user.
package termguard.lib.request

# Items of a deletecollection have no name in the request.
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

word := sprintf("%s/%s", [resource, name])

# deleting excludes subresources.
deleting if {
	input.request.operation == "DELETE"
	object.get(input.request, "subResource", "") == ""
}

leaving if input.request.oldObject.metadata.deletionTimestamp

ahead(text) := text if not leaving

ahead(_) := "" if leaving

deletes_namespace if {
	deleting
	resource == "namespaces"
}

deletes_definition if {
	deleting
	resource == "customresourcedefinitions.apiextensions.k8s.io"
}

# foreground waits for the dependents; it may be the second delete.
foreground if {
	deleting
	input.request.options.propagationPolicy == "Foreground"
}

foreground if {
	deleting
	"foregroundDeletion" in input.request.oldObject.metadata.finalizers
}

orphaning if {
	deleting
	input.request.options.propagationPolicy == "Orphan"
}

# evicting: admission does not see the delete that an eviction causes.
evicting if {
	input.request.operation == "CREATE"
	input.request.subResource == "eviction"
	resource == "pods"
}

# draining: no API server sends this request, because a drain is a loop of its client.
draining if {
	input.request.operation == "CONNECT"
	input.request.subResource == "drain"
	resource == "nodes"
}

applying if {
	input.request.operation in {"CREATE", "UPDATE"}
	object.get(input.request, "subResource", "") == ""
}

# person is neither a service account nor part of the control plane or a node. Some distributions
# call their administrator system:admin.
default person := false

person if not startswith(user, "system:")

person if user == "system:admin"

default user := ""

user := input.request.userInfo.username

# immortal lists the namespaces that the API server never deletes (TestImmortal).
immortal := {"default", "kube-public", "kube-system"}
