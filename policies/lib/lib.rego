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

# evicting is the request to evict the target, a pod: the delete that it causes
# is not shown to admission.
evicting if {
	input.request.operation == "CREATE"
	input.request.subResource == "eviction"
	resource == "pods"
}
