# METADATA
# description: Owners of finalizers and their states (data.cluster.finalizers, input.ownership).
package termguard.lib.owners

import data.termguard.lib.request

certain(ownership) if {
	ownership.state in {"absent", "down", "barred"}
	ownership.certainty == "will"
}

uncertain(ownership) if {
	ownership.state in {"absent", "down", "barred"}
	ownership.certainty != "will"
}

uncertain(ownership) if ownership.state == "unknown"

# class is certain or uncertain.
class(ownership) := "certain" if certain(ownership)

class(ownership) := "uncertain" if uncertain(ownership)

name(ownership) := object.get(ownership, "owner", "")

# reason says why a finalizer is not removed.
reason(ownership) := sprintf("its owner, %s, is not installed", [name(ownership)]) if {
	ownership.state == "absent"
	certain(ownership)
	name(ownership) != ""
}

reason(ownership) := "no controller that could remove it is running" if {
	ownership.state == "absent"
	certain(ownership)
	name(ownership) == ""
}

# A workload with all rights may be the owner, too.
reason(ownership) := sprintf("its owner, %s, was not found", [name(ownership)]) if {
	ownership.state == "absent"
	uncertain(ownership)
	name(ownership) != ""
}

reason(ownership) := "no controller that removes it was found" if {
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

reason(ownership) := sprintf("its owner, %s, may not be running", [name(ownership)]) if {
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

reason(ownership) := sprintf("%s watches only other namespaces", [its(ownership)]) if ownership.watches

reason(ownership) := sprintf("its definition was generated from %s, which was deleted", [ownership.maker]) if ownership.maker

reason(ownership) := sprintf("%s has no right to remove it", [its(ownership)]) if {
	ownership.state == "barred"
	not ownership.barred.lease
	not ownership.barred.namesake
}

reason(ownership) := sprintf("a workload that looks like %s has no right to remove it", [its(ownership)]) if {
	ownership.barred.namesake
}

reason(ownership) := sprintf("%s has no right to renew its lease, and waits to be elected", [its(ownership)]) if {
	ownership.barred.lease
}

# cause blames an owner, which the engine looks up. The title must be true for all objects.
cause(finalizer, why) := {"finalizer": finalizer, "title": why, "owner": {}}

# needs does not blame the owner.
needs(finalizer, why) := {"finalizer": finalizer, "title": why}

cleared(ownership) := sprintf(" (%s)", [ownership.clears]) if object.get(ownership, "clears", "") != ""

cleared(ownership) := "" if object.get(ownership, "clears", "") == ""

# chain lists the UIDs of the object under review and of its dependents, four owner references
# down: Rego has no recursion, and a custom resource that owns a Deployment needs three.
chain := (((start | second) | third) | fourth) | fifth

start contains input.request.oldObject.metadata.uid

second := below(start)

third := below(second)

fourth := below(third)

fifth := below(fourth)

below(uids) := {uid | some owner in uids; some uid, _ in data.cluster.owners[owner].dependents}

dependents contains held if {
	request.foreground
	some held in owned
}

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

# its names an owner as the subject of a sentence.
its(ownership) := {true: "its owner", false: sprintf("its owner, %s,", [name(ownership)])}[name(ownership) == ""]

at_work(ns, finalizer, of) := [bucket.ownership |
	some bucket in data.cluster.finalized[ns][finalizer][of]
	bucket.ownership.state == "alive"
]

# agents is the DaemonSet whose pod on each node removes a finalizer from the pods there. If it
# runs on few nodes, any of its pods may serve all, so it does not count.
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
