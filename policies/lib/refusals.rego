# Requests that a deletion needs and that admission refuses (data.cluster.blocked
# and the like).
package termguard.lib

# described is such a request in words: DELETE pods, UPDATE namespaces/finalize.
described(request) := sprintf("%s %s%s", [request.operation, request.resource, part(request.subresource)])

part("") := ""

part(subresource) := sprintf("/%s", [subresource]) if subresource != ""

# more ends a sentence about the first of several.
more(told, outcome) := outcome if count(told) == 1

more(told, outcome) := sprintf("(and %d more) %s", [count(told) - 1, outcome]) if count(told) > 1

# within is the namespace that such requests are listed by.
within := name if resource == "namespaces"

within := namespace if resource != "namespaces"

# needs tells whether the deletion under review needs a request: of a namespace,
# what its content needs. A refused update of namespaces/status does not stop the
# namespace controller.
needs(request) if {
	deletes_namespace
	request.subresource != "status"
}

# The update that removes the finalizers of an object. The request to delete the
# object itself fails at once where it is refused: that is no hang.
needs(request) if {
	deleting
	request.operation == "UPDATE"
	request.resource == resource
	request.subresource == ""
	some finalizer in finalizers
	finalizer != crd_cleanup
}

# The API server itself removes this one, by way of the status.
needs(request) if {
	deletes_definition
	crd_cleanup in finalizers
	request.resource == resource
	request.subresource == "status"
}

# The delete that an eviction causes is shown to nobody, but the kubelet's, once
# the pod has stopped, is.
needs(request) if {
	evicting
	pod := data.cluster.pods[namespace][name]
	pod.node
	not pod.phase in finished
	request.operation == "DELETE"
	request.resource == "pods"
}

needs(request) if {
	evicting
	count(input.ownership) > 0
	request.operation == "UPDATE"
	request.resource == "pods"
}

crd_cleanup := "customresourcecleanup.apiextensions.k8s.io"

# finalizers of the object under review, and those that its delete brings.
finalizers contains finalizer if some finalizer in input.request.oldObject.metadata.finalizers

finalizers contains "foregroundDeletion" if input.request.options.propagationPolicy == "Foreground"

finalizers contains "orphan" if input.request.options.propagationPolicy == "Orphan"
