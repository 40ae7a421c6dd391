# METADATA
# description: >-
#   Requests that a deletion needs and that webhooks or policies deny (data.cluster.blocked,
#   data.cluster.denied).
package termguard.lib.refusals

import data.termguard.lib.pods
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times
import data.termguard.lib.wording

described(call) := sprintf("%s %s%s", [call.operation, call.resource, part(call.subresource)])

part("") := ""

part(subresource) := sprintf("/%s", [subresource]) if subresource != ""

counted(call) := sprintf("%s (%d %s)", [described(call), call.count, wording.plural(call.count, "object", "objects")])

first(calls, outcome) := sprintf("%s %s", [names[0], outcome]) if {
	names := sort([described(call) | some call in calls])
	count(names) == 1
}

first(calls, outcome) := sprintf("%s (and %d more) %s", [names[0], count(names) - 1, outcome]) if {
	names := sort([described(call) | some call in calls])
	count(names) > 1
}

sure(calls) if {
	some call in calls
	call.certainty == "will"
}

# within is the namespace under which the facts list them.
within := request.name if request.resource == "namespaces"

within := request.namespace if request.resource != "namespaces"

# refusable lists the requests that are denied here.
refusable contains call if {
	some calls in data.cluster.blocked[within]
	some call in calls
	fresh(call)
}

refusable contains call if {
	some calls in data.cluster.denied[within]
	some call in calls
}

# fresh reports whether a request is denied now, or was within half an hour: controllers retry at
# least every 17 minutes (client-go, the default rate limiter of work queues).
fresh(call) if not call.last

fresh(call) if times.since(call.last) <= 1800

# needed lists the requests that the deletion needs. A denied update of namespaces/status does
# not matter.
needed contains call if {
	request.deletes_namespace
	some call in refusable
	call.subresource != "status"
}

# The update that removes finalizers. A denied delete of the object itself fails at once, so it
# is no hang.
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

# The API server itself removes the finalizer that the delete adds, by the status.
needed contains call if {
	request.deletes_definition
	some call in refusable
	call.resource == request.resource
	call.subresource == "status"
}

# Webhooks do not get the delete that an eviction causes, but the kubelet's afterwards.
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

# about_target is false if the denied objects were read and the target is none of them.
about_target(call) if not call.names

about_target(call) if request.name in call.names

crd_cleanup := "customresourcecleanup.apiextensions.k8s.io"

# finalizers include those that the delete adds.
finalizers contains finalizer if some finalizer in input.request.oldObject.metadata.finalizers

finalizers contains "foregroundDeletion" if input.request.options.propagationPolicy == "Foreground"

finalizers contains "orphan" if input.request.options.propagationPolicy == "Orphan"

service(hook) := sprintf("%s/%s", [hook.service.namespace, hook.service.name])

problem(hook, "down") := sprintf("Service %s is down", [service(hook)])

problem(hook, "untrusted") := sprintf("its caBundle does not match the certificate of Service %s", [service(hook)])

problem(_, "condition") := "one of its matchConditions fails"

problem(_, "failing") := "calls to it failed recently"

problem(_, "refusing") := "it denied deletions recently"

# by_cause marks steps about a webhook if only events and conditions report its failure.
by_cause(cause, list) := steps.hearsay("events and conditions about the webhook", list) if cause in reported

by_cause(cause, list) := list if not cause in reported

reported := {"failing", "refusing"}

# ends_first reports whether a webhook in the deleted namespace stops before anything except pods
# is deleted, as since 1.33.
ends_first(backend) if {
	object.get(data.cluster.version, "podsFirst", true)
	count(object.get(backend, "workloads", [])) > 0
	some seconds, _ in data.cluster.podsByGrace[request.name]
	seconds != "0" # otherwise they are deleted in the same pass
}
