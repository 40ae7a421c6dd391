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

# refusable are the requests that are refused here.
refusable contains request if {
	some requests in data.cluster.blocked[within]
	some request in requests
	fresh(request)
}

refusable contains request if {
	some requests in data.cluster.denied[within]
	some request in requests
}

# fresh is what holds now, or was seen within the last half hour: a controller
# that is refused tries again at least every 17 minutes (client-go, the default
# rate limiter of work queues).
fresh(request) if not request.last

fresh(request) if since(request.last) <= 1800

# needed are those of them that the deletion under review needs: of a namespace,
# what its content needs. A refused update of namespaces/status does not stop the
# namespace controller.
needed contains request if {
	deletes_namespace
	some request in refusable
	request.subresource != "status"
}

# The update that removes the finalizers of an object. The request to delete the
# object itself fails at once where it is refused: that is no hang.
needed contains request if {
	deleting
	some request in refusable
	request.operation == "UPDATE"
	request.resource == resource
	request.subresource == ""
	some finalizer in finalizers
	finalizer != crd_cleanup
}

# The API server itself removes the finalizer that the delete brings, by way of the status.
needed contains request if {
	deletes_definition
	some request in refusable
	request.resource == resource
	request.subresource == "status"
}

# The delete that an eviction causes is shown to nobody, but the kubelet's, once
# the pod has stopped, is.
needed contains request if {
	evicting
	evicted.node
	not evicted.phase in finished
	some request in refusable
	request.operation == "DELETE"
	request.resource == "pods"
}

needed contains request if {
	evicting
	count(input.ownership) > 0
	some request in refusable
	request.operation == "UPDATE"
	request.resource == "pods"
}

evicted := data.cluster.pods[target.namespace][target.name]

crd_cleanup := "customresourcecleanup.apiextensions.k8s.io"

# finalizers of the object under review, and those that its delete brings.
finalizers contains finalizer if some finalizer in input.request.oldObject.metadata.finalizers

finalizers contains "foregroundDeletion" if input.request.options.propagationPolicy == "Foreground"

finalizers contains "orphan" if input.request.options.propagationPolicy == "Orphan"
