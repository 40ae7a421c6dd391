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

# The pods that a request waits for.

# waiting are, of the nodes given (an object by name), those that have pods which
# the request waits for and which need their kubelet to go: how many, the names
# of some, and their namespace.
waiting(nodes) := {node: pods |
	some node, pods in alone
	nodes[node]
} if {
	not deletes_namespace
}

# Of a namespace they are found from the smaller side: few nodes may be in
# trouble, but a namespace may be on all of them.
waiting(nodes) := {node: object.union(pods, {"namespace": name}) |
	some node, _ in nodes
	pods := data.cluster.podsByNode[name][node]
} if {
	deletes_namespace
	count(nodes) <= count(data.cluster.podsByNode[name])
}

waiting(nodes) := {node: object.union(pods, {"namespace": name}) |
	some node, pods in data.cluster.podsByNode[name]
	nodes[node]
} if {
	deletes_namespace
	count(nodes) > count(data.cluster.podsByNode[name])
}

# alone is the pod under review, by its node. Without a node or a grace period,
# or finished, it needs no kubelet to go.
alone[pod.spec.nodeName] := {"count": 1, "names": [name], "namespace": namespace} if {
	deleting
	resource == "pods"
	pod := input.request.oldObject
	not over(pod)
	grace(object.get(pod.spec, "terminationGracePeriodSeconds", 30)) != 0
}

# An eviction carries no pod.
alone[pod.node] := {"count": 1, "names": [name], "namespace": namespace} if {
	evicting
	pod := data.cluster.pods[namespace][name]
	not pod.phase in finished
	grace(object.get(pod, "gracePeriodSeconds", 30)) != 0
}

# over is true for a pod that had ended before it was deleted. One that ended since
# waits for its node to clean up, until its grace period is 0
# (pkg/kubelet/status/status_manager.go).
over(pod) if {
	pod.status.phase in finished
	object.get(pod.metadata, "deletionGracePeriodSeconds", 0) == 0
}

# grace is the grace period of the request; of the pod, if it names none.
grace(own) := seconds if {
	some seconds in requested
} else := own

# requested is the grace period that the request names.
requested contains input.request.options.gracePeriodSeconds if deleting

requested contains input.request.object.deleteOptions.gracePeriodSeconds if evicting

# who is the beginning of a sentence about pods.
who(_) := "this pod is" if resource == "pods"

who(pods) := sprintf("%d %s", [pods.count, plural(pods.count, "pod is", "pods are")]) if resource == "namespaces"

# pronoun is how the sentence goes on.
pronoun(1) := "it"

pronoun(n) := "they" if n != 1

# named are pods as the objects of a finding.
named(pods) := [{"resource": "pods", "namespace": pods.namespace, "name": pod} | some pod in pods.names]

# since is how long ago a time was, in seconds.
since(time_of) := floor((time.parse_rfc3339_ns(data.cluster.now) - time.parse_rfc3339_ns(time_of)) / 1000000000)

# duration is so many seconds in words.
duration(seconds) := sprintf("%d s", [seconds]) if seconds < 120

duration(seconds) := sprintf("%d minutes", [floor(seconds / 60)]) if {
	seconds >= 120
	seconds < 7200
}

duration(seconds) := sprintf("%d hours", [floor(seconds / 3600)]) if seconds >= 7200

# patience is what a deletion may take beyond its grace period, in seconds:
# back-off of the kubelet.
patience := 60

# late are, of pods that leave a node or a namespace, those that should have been
# gone for longer than that.
late(leaving) := [pod |
	some pod in leaving.pods
	since(pod.deadline) > patience
]

# serves is true for a node that is there and stops pods: what is late on another
# has another reason.
serves(node) if {
	data.cluster.nodes[node]
	not data.cluster.notReady[node]
	not data.cluster.nodes[node].outOfService
}

# current is true for an event that still counts as evidence: it is not older
# than an hour, and what it is about is still on its node.
current(symptom, node) if {
	since(symptom.last) <= 3600
	symptom.kind == "Pod"
	data.cluster.pods[symptom.namespace][symptom.name].node == node
}

current(symptom, _) if {
	since(symptom.last) <= 3600
	symptom.kind != "Pod"
}

# causes are what events of kubelets tell of, by the words that they use.
cause(symptom) := "full" if contains(symptom.message, "no space left on device")

cause(symptom) := "busy" if {
	symptom.reason in failing
	contains(symptom.message, "device or resource busy")
}

cause(symptom) := "immutable" if {
	symptom.reason in failing
	contains(symptom.message, "operation not permitted")
}

cause(symptom) := "stuck" if {
	symptom.reason in failing
	not misled(symptom)
	every words in ["no space left on device", "device or resource busy", "operation not permitted"] {
		not contains(symptom.message, words)
	}
}

# misled is true for an event that has the reason of a stop that failed, and may
# be about anything else.
misled(symptom) if {
	symptom.reason == "FailedSync"
	not regex.match(`DeadlineExceeded|context deadline exceeded`, symptom.message)
}

# failing are the reasons of events about stopping a pod and cleaning up after it.
failing := {
	"FailedKillPod", "KillContainerError", "FailedSync", "Killing", "ExceededGracePeriod",
	"FailedUnmount", "FailedUnMount", "FailedUnmountDevice", "FailedUnmapDevice",
}

# about is true for what is about a pod that the request waits for.
about(pod) if {
	deletes_namespace
	pod.namespace == name
}

about(pod) if {
	not deletes_namespace
	pod.namespace == namespace
	pod.name == name
}

# persistent is how often an event about a pod must have come within its hour so
# that it will not pass by itself.
persistent := 10

# told is an event as evidence. It names no pod: that may be somebody else's.
told(symptom) := sprintf("event %s x%d: %s", [symptom.reason, symptom.count, symptom.message])

# hazardous are the pods that the request waits for and that have a hazard, by
# node.
hazardous(hazard) := {node: object.union(pods, {"namespace": name}) |
	some node, pods in data.cluster.hazards[name][hazard]
} if {
	deletes_namespace
}

hazardous(hazard) := {node: pods |
	some node, pods in alone
	hazard in data.cluster.pods[namespace][name].hazards
} if {
	not deletes_namespace
}
