# METADATA
# description: >-
#   Requests that a deletion needs and that admission refuses (data.cluster.blocked,
#   data.cluster.denied).
package termguard.lib.refusals

import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times
import data.termguard.lib.wording

# described is such a request in words: DELETE pods, UPDATE namespaces/finalize.
described(call) := sprintf("%s %s%s", [call.operation, call.resource, part(call.subresource)])

part("") := ""

part(subresource) := sprintf("/%s", [subresource]) if subresource != ""

# counted is such a request, and how many objects it is about.
counted(call) := sprintf("%s (%d %s)", [described(call), call.count, wording.plural(call.count, "object", "objects")])

# first is the first of several in words, and what becomes of them.
first(calls, outcome) := sprintf("%s %s", [told[0], outcome]) if {
	told := sort([described(call) | some call in calls])
	count(told) == 1
}

first(calls, outcome) := sprintf("%s (and %d more) %s", [told[0], count(told) - 1, outcome]) if {
	told := sort([described(call) | some call in calls])
	count(told) > 1
}

# sure is true where one of several is refused without doubt.
sure(calls) if {
	some call in calls
	call.certainty == "will"
}

# within is the namespace that such requests are listed by.
within := request.name if request.resource == "namespaces"

within := request.namespace if request.resource != "namespaces"

# refusable are the requests that are refused here.
refusable contains call if {
	some calls in data.cluster.blocked[within]
	some call in calls
	fresh(call)
}

refusable contains call if {
	some calls in data.cluster.denied[within]
	some call in calls
}

# fresh is what holds now, or was seen within the last half hour: a controller
# that is refused tries again at least every 17 minutes (client-go, the default
# rate limiter of work queues).
fresh(call) if not call.last

fresh(call) if times.since(call.last) <= 1800

# needed are those of them that the deletion under review needs: of a namespace,
# what its content needs. A refused update of namespaces/status does not stop the
# namespace controller.
needed contains call if {
	request.deletes_namespace
	some call in refusable
	call.subresource != "status"
}

# The update that removes the finalizers of an object. The request to delete the
# object itself fails at once where it is refused: that is no hang.
needed contains call if {
	request.deleting
	some call in refusable
	call.operation == "UPDATE"
	call.resource == request.resource
	call.subresource == ""
	about_target(call)
	some finalizer in finalizers
	finalizer != crd_cleanup
}

# The API server itself removes the finalizer that the delete brings, by way of the status.
needed contains call if {
	request.deletes_definition
	some call in refusable
	call.resource == request.resource
	call.subresource == "status"
}

# The delete that an eviction causes is shown to nobody, but the kubelet's, once
# the pod has stopped, is.
needed contains call if {
	request.evicting
	pods.reviewed.spec.nodeName
	not pods.reviewed.status.phase in pods.finished
	some call in refusable
	call.operation == "DELETE"
	call.resource == "pods"
}

needed contains call if {
	request.evicting
	count(input.ownership) > 0
	some call in refusable
	call.operation == "UPDATE"
	call.resource == "pods"
}

# about_target is true unless the objects were read that a request is refused for,
# and the target is none of them.
about_target(call) if not call.names

about_target(call) if request.name in call.names

crd_cleanup := "customresourcecleanup.apiextensions.k8s.io"

# finalizers of the object under review, and those that its delete brings.
finalizers contains finalizer if some finalizer in input.request.oldObject.metadata.finalizers

finalizers contains "foregroundDeletion" if input.request.options.propagationPolicy == "Foreground"

finalizers contains "orphan" if input.request.options.propagationPolicy == "Orphan"

# service is that behind a webhook.
service(hook) := sprintf("%s/%s", [hook.service.namespace, hook.service.name])

# problem is why a webhook refuses, in words.
problem(hook, "down") := sprintf("Service %s is down", [service(hook)])

problem(hook, "untrusted") := sprintf("its caBundle does not fit Service %s", [service(hook)])

problem(_, "condition") := "a matchCondition of it fails"

problem(_, "failing") := "calls to it failed recently"

problem(_, "refusing") := "it refused deletions recently"

# by_cause marks the steps about a webhook of which only events and conditions tell that
# it fails, or refuses.
by_cause(cause, list) := steps.hearsay("what events and conditions say of the webhook", list) if cause in reported

by_cause(cause, list) := list if not cause in reported

reported := {"failing", "refusing"}

# ends_first is true where what serves a webhook from the namespace that is deleted ends
# in a pass of the namespace controller before all that is not a pod: since 1.33.
ends_first(backend) if {
	object.get(data.cluster.version, "podsFirst", true)
	count(object.get(backend, "workloads", [])) > 0
	some seconds, _ in data.cluster.podsByGrace[request.name]
	seconds != "0" # else they are gone in the same pass
}
