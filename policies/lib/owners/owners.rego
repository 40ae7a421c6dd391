# METADATA
# description: Who removes a finalizer, and whether anybody does (data.cluster.finalizers, input.ownership).
package termguard.lib.owners

import data.termguard.lib.request

# certain is an owner of which it is sure that it does not remove its finalizer.
certain(ownership) if {
	ownership.state in {"absent", "down", "barred"}
	ownership.certainty == "will"
}

# uncertain is one of which it is not sure that it does.
uncertain(ownership) if {
	ownership.state in {"absent", "down", "barred"}
	ownership.certainty != "will"
}

uncertain(ownership) if ownership.state == "unknown"

# class is what is known of an owner that does not remove its finalizer.
class(ownership) := "certain" if certain(ownership)

class(ownership) := "uncertain" if uncertain(ownership)

# name is who removes a finalizer, "" where nobody knows.
name(ownership) := object.get(ownership, "owner", "")

# reason is why a finalizer is not removed.
reason(ownership) := sprintf("its owner, %s, is not installed", [name(ownership)]) if {
	ownership.state == "absent"
	certain(ownership)
	name(ownership) != ""
}

reason(ownership) := "nothing that could remove it is running" if {
	ownership.state == "absent"
	certain(ownership)
	name(ownership) == ""
}

# What may do everything may be its owner, too.
reason(ownership) := sprintf("its owner, %s, was not found", [name(ownership)]) if {
	ownership.state == "absent"
	uncertain(ownership)
	name(ownership) != ""
}

reason(ownership) := "nothing was found that removes it" if {
	ownership.state == "absent"
	uncertain(ownership)
	name(ownership) == ""
}

reason(ownership) := sprintf("its owner, %s, is not running", [name(ownership)]) if {
	ownership.state == "down"
	name(ownership) != ""
}

reason(ownership) := "its controller is not running" if {
	ownership.state == "down"
	name(ownership) == ""
}

reason(ownership) := sprintf("whether its owner, %s, is running is unknown", [name(ownership)]) if {
	ownership.state == "unknown"
	name(ownership) != ""
	not ownership.watches
	not ownership.maker
}

reason(ownership) := "its controller is unknown" if {
	ownership.state == "unknown"
	name(ownership) == ""
	not ownership.watches
	not ownership.maker
}

reason(ownership) := sprintf("%s is told to watch other namespaces", [its(ownership)]) if ownership.watches

reason(ownership) := sprintf("%s, which its definition was made from, is gone", [ownership.maker]) if ownership.maker

reason(ownership) := sprintf("%s has no right to remove it", [its(ownership)]) if {
	ownership.state == "barred"
	not ownership.barred.lease
	not ownership.barred.namesake
}

reason(ownership) := sprintf("what looks like %s has no right to remove it", [its(ownership)]) if {
	ownership.barred.namesake
}

reason(ownership) := sprintf("%s may not renew its lease, and waits to be elected", [its(ownership)]) if {
	ownership.barred.lease
}

# cause is a finalizer whose owner is to blame that it stays. why, which holds for all objects, becomes
# its title behind the name of the finalizer. The engine fills in the owner, as the facts name it.
cause(finalizer, why) := {"finalizer": finalizer, "title": why, "owner": {}}

# needs is a finalizer whose owner is not to blame.
needs(finalizer, why) := {"finalizer": finalizer, "title": why}

# cleared is what the owner does before it removes the finalizer, in brackets.
cleared(ownership) := sprintf(" (%s)", [ownership.clears]) if object.get(ownership, "clears", "") != ""

cleared(ownership) := "" if object.get(ownership, "clears", "") == ""

# chain are the UIDs of the object under review and of what it owns, four links down:
# Rego has no recursion, and a custom resource that owns a Deployment needs three.
chain := (((start | second) | third) | fourth) | fifth

start contains input.request.oldObject.metadata.uid

second := below(start)

third := below(second)

fourth := below(third)

fifth := below(fourth)

below(uids) := {uid | some owner in uids; some uid, _ in data.cluster.owners[owner].dependents}

# dependents are those with finalizers, for which a deletion in the foreground waits.
dependents contains held if {
	request.foreground
	some held in owned
}

# owned are what it owns that has finalizers.
owned contains object.union(group, {
	"resource": of,
	"namespace": ns,
	"finalizer": finalizer,
	"ownership": ownership,
}) if {
	some uid in chain
	some ns, finalizers in data.cluster.owners[uid].finalized
	some finalizer, resources in finalizers
	some of, groups in resources
	some signature, group in groups
	ownership := data.cluster.finalizers[finalizer][of][signature]
}

# its is a running owner as the subject of a sentence.
its(ownership) := {true: "its owner", false: sprintf("its owner, %s,", [name(ownership)])}[name(ownership) == ""]

# at_work are the owners that run and remove a finalizer of objects in a namespace.
at_work(ns, finalizer, of) := [bucket.ownership |
	some bucket in data.cluster.finalized[ns][finalizer][of]
	bucket.ownership.state == "alive"
]

# agents is the DaemonSet whose pod on each node removes a finalizer from what is on that node,
# and the nodes with such a pod that runs: of one that runs on a few nodes, any pod may serve all.
agents(ownership) := {"name": sprintf("%s/%s", [workload.namespace, workload.name]), "on": on} if {
	ownership.state == "alive"
	[workload] = ownership.workloads
	workload.resource == "daemonsets.apps"
	on := {pod.node |
		some pod in data.cluster.pods[workload.namespace]
		pod.owner == {"kind": "DaemonSet", "name": workload.name}
		pod.phase == "Running"
		data.cluster.nodes[pod.node]
		not data.cluster.notReady[pod.node]
	}
	count(on) > 0
	2 * count(on) >= count(data.cluster.nodes)
}
