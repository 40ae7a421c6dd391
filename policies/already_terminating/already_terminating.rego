# METADATA
# title: Already Terminating for too long
# description: >-
#   An object was deleted and still exists. The conditions of a namespace show the
#   progress of the namespace controller, the containers of a pod whether its node fails
#   to stop them or to clean up after them, and the remaining finalizers of other objects
#   the blockers. Up to a minute past the grace period is normal.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/deletion/status_condition_utils.go
#     description: The conditions of a Terminating namespace.
#   - ref: https://github.com/kubernetes/kubernetes/issues/138208
#     description: The conditions say that everything is deleted while pods hang.
#   - ref: https://github.com/kubernetes/kubernetes/issues/70916
#     description: Make it clear why a namespace is still in Terminating.
# custom:
#   id: already-terminating
#   severity: high
#   class: broken
#   symptom: true
#   triggers: [delete]
#   needs: [input.request.oldObject.metadata.deletionTimestamp]
#   remedy: >-
#     Repair the blocker in the finding, and the deletion continues by itself. Deleting
#     again does nothing. For a namespace, repair APIs first (kubectl get apiservices), then
#     look at its remaining content. For a pod, look at the log of its kubelet (verbosity 3
#     names the reason) and restart the container runtime; reboot the node if a process
#     cannot be killed. As a last resort, force the deletion: that removes only the object,
#     and anything not cleaned up is leaked.
#   limits: >-
#     The conditions of a namespace are those of the last complete pass. Some software
#     takes more than a minute for its finalizer: the finding then says "may". The webhook
#     gets no second delete, so it never evaluates this policy.
package termguard.already_terminating

import data.termguard.lib.grace
import data.termguard.lib.owners
import data.termguard.lib.reports
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times
import data.termguard.lib.wording

deny contains condition_finding(name, condition) if {
	overdue
	not proceeding
	some name, condition in bad
}

# While pods remain, the namespace controller ends its pass before it counts.
deny contains {
	"msg": sprintf(
		"Terminating for %s: %d %s, although the conditions report no remaining content",
		[elapsed, pods_left, wording.plural(pods_left, "pod remains", "pods remain")],
	),
	"cause": {"elapsed": true},
	"objects": [request.target],
	"evidence": ["pods are deleted first: nothing else in the namespace is deleted before"],
	"steps": [steps.mend(
		sprintf("Find the blocker of each pod: kubectl get pods -n %[1]s, then kubectl termguard check pods/NAME -n %[1]s", [request.name]),
		[],
	)],
} if {
	overdue
	request.deletes_namespace
	count(bad) == 0
	pods_left > 0
}

# A pod that its node has not cleaned up.
deny contains {
	"msg": sprintf("Terminating for %s past its grace period: %s", [elapsed, stage]),
	"cause": {"elapsed": true},
	"objects": [request.target, {"resource": "nodes", "namespace": "", "name": pod.spec.nodeName}],
	"evidence": array.concat(
		[sprintf("it has been overdue since %s", [pod.metadata.deletionTimestamp])],
		conditions_of_kubelet,
	),
	"steps": array.concat(
		on_the_node,
		steps.forced(request.namespace, [request.name]),
	),
} if {
	overdue
	not stranded
}

# stranded reports whether the node of a pod does not answer (see unreachable-node).
stranded if {
	node := data.cluster.notReady[pod.spec.nodeName]
	node.ready == "Unknown"
	not node.outOfService
}

# The blockers in the conditions were deleted after the last complete pass.
warn contains {
	"msg": sprintf(
		"Terminating for %s: the blockers in its conditions are deleted, and the namespace controller has not retried yet",
		[elapsed],
	),
	"cause": {"elapsed": true},
	"objects": [request.target],
	"evidence": [sprintf("%s: %s", [condition.reason, condition.message]) | some condition in stale],
	"steps": [steps.mend(
		"Check again in a minute or two; if the namespace still exists, check whether kube-controller-manager runs",
		[],
	)],
} if {
	overdue
	count(bad) == 0
	count(stale) > 0
	count(held) == 0
}

# The finalizers of its content may be removed soon; a failure may be temporary.
warn contains condition_finding(name, condition) if {
	overdue
	proceeding
	some name, condition in bad
}

warn contains condition_finding(name, condition) if {
	not overdue
	some name, condition in bad
	name in failures
}

warn contains {
	"msg": sprintf("Terminating for %s, and its conditions name no cause", [elapsed]),
	"cause": {"elapsed": true},
	"objects": [request.target],
	"evidence": [sprintf("deletionTimestamp %s", [input.request.oldObject.metadata.deletionTimestamp])],
	"steps": [steps.mend(
		"Check whether kube-controller-manager runs, and whether its log shows requests denied by a webhook or policy",
		[],
	)],
} if {
	overdue
	request.deletes_namespace
	count(reported) == 0
	pods_left == 0
	count(held) == 0
}

# Finalizers with a running owner. orphaned-finalizer reports those without.
warn contains {
	"msg": sprintf("Terminating for %s: finalizer %s %s%s", [elapsed, finalizer, waiting, reports.saying(quotes)]),
	"cause": object.union(owners.cause(finalizer, sprintf("it %s", [waiting])), {"elapsed": true}),
	"objects": [request.target],
	"evidence": array.flatten([[reports.quoted(said) | some said in quotes], reports.failing, object.get(ownership, "evidence", [])]),
	"field": field,
	"steps": array.concat(reports.mending(quotes), looking),
} if {
	overdue
	some field, finalizer in held
	ownership := input.ownership[finalizer]
	waiting := unremoved(ownership)
}

unremoved(ownership) := "is not removed yet, though its owner runs" if ownership.state == "alive"

# What is reported since the deletion began shows that some owner works on it.
unremoved(ownership) := "is not removed yet" if {
	owners.uncertain(ownership)
	some said in quotes
	reports.recent(said)
}

looking := [steps.mend("Find what blocks its objects: kubectl termguard check --terminating --all-namespaces", [])] if {
	request.deletes_definition
}

looking := array.concat(
	[steps.mend(sprintf("Look at the log and the events of pod %[1]s: kubectl logs %[1]s -n %[2]s", [pod, request.namespace]), []) |
		some pod in array.slice(reports.pods, 0, 1)
	],
	[steps.mend("Look at the log of the owner of the finalizer, and at the events of the object", [])],
) if {
	not request.deletes_definition
}

quotes := reports.quotes(reports.own)

# waited is the time since the deadline: a pod's deletionTimestamp includes its grace period.
waited := times.since(input.request.oldObject.metadata.deletionTimestamp) if request.deleting

overdue if waited > grace.patience + slowest

# slowest is the longest grace period of the namespace's pods, in seconds.
default slowest := 0

slowest := grace.slowest

elapsed := times.duration(waited)

reported[name] := condition if {
	request.deletes_namespace
	waited >= 0
	some name, condition in data.cluster.namespaces[request.name].conditions
	condition.status == "True"
	name in object.keys(meanings)
}

# bad lists the problems that may still exist.
bad[name] := condition if {
	some name, condition in reported
	not stale[name]
}

# stale lists the problems whose objects no longer exist. While pods remain, nothing is updated.
stale[name] := condition if {
	pods_left == 0
	some name, condition in reported
	names := {match[1] | some match in regex.find_all_string_submatch_n(patterns[name], condition.message, -1)}
	count(names) > 0
	every thing in names {
		resolved(name, thing)
	}
}

# patterns find objects in conditions
# (pkg/controller/namespace/deletion/status_condition_utils.go).
patterns := {
	"NamespaceContentRemaining": `(\S+) has \d+ resource instances`,
	"NamespaceFinalizersRemaining": `(\S+) in \d+ resource instances`,
	"NamespaceDeletionDiscoveryFailure": `([a-z0-9.-]+/v[a-z0-9]+):`,
	"NamespaceDeletionContentFailure": `failed calling webhook "([^"]+)"`,
}

# resolved reports whether the namespace has no objects of a resource, except events.
resolved("NamespaceContentRemaining", written) if {
	resource := trim_suffix(written, ".")
	not resource in {"events", "events.events.k8s.io", "leases.coordination.k8s.io"}
	not hidden(resource)
	object.get(data.cluster.counts, [request.name, resource], 0) == 0
}

resolved("NamespaceFinalizersRemaining", written) if {
	not blind
	not data.cluster.finalized[request.name][written]
}

resolved("NamespaceDeletionDiscoveryFailure", written) if {
	[group, version] := split(written, "/")
	not hidden(sprintf("*.%s", [group]))
	not ailing(sprintf("%s.%s", [version, group]))
}

# An existing webhook may still deny requests.
resolved("NamespaceDeletionContentFailure", written) if {
	every key, _ in object.get(data.cluster, "webhooks", {}) {
		not endswith(key, sprintf("/%s", [written]))
	}
}

hidden(resource) if {
	some unseen in data.cluster.unseen
	unseen.resource in {resource, sprintf("*.%s", [concat(".", array.slice(split(resource, "."), 1, 99))])}
}

# blind reports whether some content of the namespace is unseen.
blind if {
	some unseen in data.cluster.unseen
	unseen.namespaced
}

ailing(name) if {
	service := data.cluster.apiservices[name]
	[service.available, service.stale, service.listError] != ["True", false, ""]
}

meanings := {
	"NamespaceDeletionDiscoveryFailure": "an API cannot be discovered, so the namespace cannot finish",
	"NamespaceDeletionGroupVersionParsingFailure": "an API has a version that cannot be parsed, so the namespace cannot finish",
	"NamespaceDeletionContentFailure": "some of its content cannot be deleted",
	"NamespaceContentRemaining": "some of its content remains",
	"NamespaceFinalizersRemaining": "some of its content waits for finalizers",
}

# consequences are conditions that only count content, which has its own causes.
consequences := {"NamespaceContentRemaining", "NamespaceFinalizersRemaining"}

failures := {
	"NamespaceDeletionDiscoveryFailure",
	"NamespaceDeletionGroupVersionParsingFailure",
	"NamespaceDeletionContentFailure",
}

remedies := {
	"NamespaceDeletionDiscoveryFailure": "Restore the API that kubectl get apiservices shows as unavailable, or delete its APIService",
	"NamespaceDeletionGroupVersionParsingFailure": "Delete the APIService of the API that kubectl api-versions shows",
	"NamespaceDeletionContentFailure": "Fix the problem in the condition, often a webhook or a conversion webhook whose backend is down",
	"NamespaceContentRemaining": "Find and fix the blockers of the objects in the condition, pods first",
	"NamespaceFinalizersRemaining": "Reinstall or restart the owners of the finalizers in the condition",
}

# proceeding reports whether all remaining objects wait for finalizers whose owner runs.
default proceeding := false

proceeding if {
	bad.NamespaceFinalizersRemaining
	count(failures - object.keys(bad)) == count(failures)
	states == {"alive"}
}

states contains bucket.ownership.state if {
	some resources in data.cluster.finalized[request.name]
	some buckets in resources
	some bucket in buckets
}

condition_finding(name, condition) := {
	"msg": sprintf("Terminating for %s: %s (%s)", [elapsed, meanings[name], name]),
	"cause": {"elapsed": true, "consequence": name in consequences},
	"objects": [request.target],
	"evidence": [sprintf("%s: %s", [condition.reason, condition.message])],
	"steps": [steps.then("itself", remedy(name), [])],
}

remedy(name) := sprintf(
	"Find out why the owners of the finalizers in the condition, which run, do not remove them: kubectl termguard check --terminating -n %s",
	[request.name],
) if {
	proceeding
	name == "NamespaceFinalizersRemaining"
} else := remedies[name]

default pods_left := 0

pods_left := data.cluster.counts[request.name].pods

# held lists the finalizers of the object itself by path; for a namespace, only if it is empty.
held[sprintf("metadata.finalizers[%d]", [i])] := finalizer if {
	count(bad) == 0
	some i, finalizer in input.request.oldObject.metadata.finalizers
}

held[sprintf("spec.finalizers[%d]", [i])] := finalizer if {
	request.deletes_namespace
	count(bad) == 0
	some i, finalizer in input.request.oldObject.spec.finalizers
	finalizer != "kubernetes"
}

# pod needs its node: without one, or with a grace period of 0, it is deleted soon.
pod := input.request.oldObject if {
	request.resource == "pods"
	input.request.oldObject.metadata.deletionGracePeriodSeconds != 0
	data.cluster.nodes[input.request.oldObject.spec.nodeName]
}

# conditions_of_kubelet lists the conditions for a kubelet to finish with a pod
# (pkg/kubelet/kubelet.go, SyncTerminatingPod and SyncTerminatedPod).
conditions_of_kubelet := array.concat(
	[sprintf("1. containers stopped: %s", [containers])],
	[
		sprintf("2. volumes unmounted: %s", [after_containers]),
		sprintf("3. cgroup removed: %s", [after_containers]),
	],
)

containers := concat(", ", [sprintf("%s is %s", [status.name, state]) |
	some status in pod.status.containerStatuses
	some state, _ in status.state
]) if {
	count(pod.status.containerStatuses) > 0
}

containers := "the node has reported nothing about them" if count(object.get(pod.status, "containerStatuses", [])) == 0

after_containers := "not begun" if not all_ended

after_containers := "only the node shows it" if all_ended

all_ended if {
	count(pod.status.containerStatuses) > 0
	every status in pod.status.containerStatuses {
		status.state.terminated
	}
}

on_the_node := [
	steps.mend(
		sprintf(
			concat(" ", [
				"On node %s, find out why the containers still run: crictl pods --name %s (does the runtime answer?),",
				"journalctl -u kubelet (from verbosity 3 on it names the reason),",
				"ps -eo pid,stat,wchan:30,args | grep -E ' [DZ]' (processes that cannot be killed)",
			]),
			[pod.spec.nodeName, request.name],
		),
		[],
	),
	steps.mend("Restart the container runtime there; reboot the node for processes that cannot be killed", []),
] if {
	not all_ended
}

on_the_node := [
	steps.mend(
		sprintf(
			concat(" ", [
				"On node %[1]s, find the remains: grep /var/lib/kubelet/pods/%[2]s /proc/mounts (volumes and mounts in them),",
				"lsattr -R /var/lib/kubelet/pods/%[2]s/volumes (files with i or a cannot be removed),",
				"find /sys/fs/cgroup -name '*%[3]s*' (its cgroup), journalctl -u kubelet (the reason)",
			]),
			[pod.spec.nodeName, uid, concat("?", split(uid, "-"))],
		),
		[],
	),
	steps.mend("Unmount the remaining mounts, or run chattr -i -a on immutable files: the kubelet retries within two minutes", []),
] if {
	all_ended
}

uid := object.get(pod.metadata, "uid", "UID")

default stage := "its containers still run"

stage := "its containers have ended, but its node has not cleaned up after them" if all_ended
