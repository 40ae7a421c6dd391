# METADATA
# title: Object that waits for another that cannot be deleted
# description: >-
#   Many owners of finalizers first delete other objects and wait for them: a Cluster of
#   Cluster API waits for its infrastructure, a VolumeSnapshot for its content, a
#   composite resource of Crossplane for its composed resources. If no controller removes
#   the finalizer of such an object, or it has been Terminating for ten minutes, or its
#   owner lacks an object that it needs, the first owner waits, too.
# related_resources:
#   - ref: https://github.com/kubernetes-sigs/cluster-api/issues/4685
#     description: A Cluster that waits for its infrastructure.
#   - ref: https://github.com/kubernetes-csi/external-snapshotter/issues/894
#     description: A VolumeSnapshot that waits for its content.
#   - ref: https://github.com/project-codeflare/appwrapper/blob/main/site/_pages/appwrapper.v1beta2.md
#     description: An AppWrapper, whose status lists its components.
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
# custom:
#   id: referred-object-stuck
#   severity: medium
#   class: broken
#   triggers: [delete]
#   needs:
#     - data.cluster.finalized.$NAMESPACE.*.*.*.ownership.state unless alive or unasked and input.ownership.*.state is alive
#     - data.cluster.finalized.$NAMESPACE.*.*.*.terminating and input.ownership
#     - data.cluster.awaited.$NAMESPACE.*.$NAME
#     - data.cluster.awaited.$NAMESPACE for namespaces
#     - data.cluster.awaited.*.$NAME
#   remedy: >-
#     Reinstall or restart the software that removes the finalizer of the other object, or
#     fix its problem: both deletions then finish by themselves. As a last resort, clean up
#     the resources that its finalizer protects by hand, and remove it: anything not cleaned
#     up is leaked.
#   limits: >-
#     The objects that an owner deletes first are known for a few entries of the catalog:
#     only then is the verdict "will hang". For other kinds it is "may hang": the owner
#     may wait for an object in the same namespace if a field of the spec that ends in Ref
#     or Refs, at most two levels down, has its kind and name, and an object of the
#     waiting kind owns it; or if a list in the status (its first 64 entries) has its kind
#     and name. If many objects have the same finalizer, only some are known by name.
package termguard.referred_object_stuck

import data.termguard.lib.finalizers
import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times

# By the catalog, the owner waits for an object whose finalizer no controller removes.
deny contains finding(wait, held) if {
	some [wait, held] in held_up
	certain(wait, held)
}

warn contains finding(wait, held) if {
	some [wait, held] in held_up
	not certain(wait, held)
}

certain(wait, held) if {
	wait.how == "waits for"
	owners.class(held.ownership) == "certain"
}

held_up contains [wait, held] if {
	some wait in waits
	some held in stuck
	wait.what == [held.resource, held.name]
	related(wait, held)
}

finding(wait, held) := {
	"msg": sprintf("%s %s %s %s%s, which stays: %s", [owners.its(wait.owner), wait.how, held.resource, held.name, wait.where, held.why]),
	"objects": [wait.target, {"resource": held.resource, "namespace": held.namespace, "name": held.name}],
	"evidence": array.concat(
		[sprintf("%s %s has finalizer %s", [held.resource, held.name, held.finalizer])],
		object.get(held.ownership, "evidence", []),
	),
	"steps": array.concat(
		restoring(held.ownership),
		[steps.mend(sprintf("Check %s/%s: its blocker blocks this deletion, too", [held.resource, held.name]), [])],
	),
}

restoring(ownership) := finalizers.bringing_back(ownership) if owners.class(ownership)

restoring(ownership) := [] if not owners.class(ownership)

# An object that is only referred to must be in the same namespace and owned by an object of the
# waiting kind.
related(wait, held) if {
	wait.where == ""
	held.namespace in {object.get(wait.target, "namespace", ""), ""}
}

related(_, held) if {
	held.namespace == request.namespace
	some part in split(held.signature, " ")
	startswith(part, "owners=")
	sprintf("%s.%s", [input.request.kind.kind, input.request.kind.group]) in split(trim_prefix(part, "owners="), ",")
}

# An object that the status lists is one of the object's own, in the same namespace.
related(wait, held) if {
	wait.listed
	held.namespace == request.namespace
}

# waits lists objects whose running owner waits for another, [RESOURCE, NAME]: here, by the spec.
waits contains {
	"target": request.target, "owner": own[0], "how": "may wait for",
	"what": [of, name], "where": sprintf(" (%s)", [field]),
} if {
	count(own) > 0
	some of, definition in data.cluster.crds
	some name, places in referred[definition.kind]
	some field in places
}

# By the status, as for the components of an AppWrapper.
waits contains {
	"target": request.target, "owner": own[0], "how": "may wait for",
	"what": [of, entry.name], "where": sprintf(" (status.%s)", [field]), "listed": true,
} if {
	count(own) > 0
	some field, list in input.request.oldObject.status
	is_array(list)
	some entry in array.slice(list, 0, 64)
	is_object(entry) # conditions are, the access modes of a claim are not
	is_string(object.get(entry, "apiVersion", ""))
	object.get(entry, "namespace", request.namespace) == request.namespace
	some of, definition in data.cluster.crds
	definition.kind == entry.kind
	endswith(of, group_of(entry))
}

# By the catalog.
waits contains {
	"target": request.target, "owner": ownership, "how": "waits for",
	"what": [of, name], "where": "",
} if {
	request.deleting
	some finalizer, awaited in data.cluster.awaited[request.namespace][request.resource][request.name]
	ownership := input.ownership[finalizer]
	ownership.state == "alive"
	some of, group in awaited
	some name in group.names
}

# The same for objects in a namespace.
waits contains {
	"target": {"resource": resource, "namespace": request.name, "name": waiting},
	"owner": ownership, "how": "waits for", "what": [of, name], "where": "",
} if {
	request.deletes_namespace
	some resource, objects in data.cluster.awaited[request.name]
	some waiting, held_by in objects
	some finalizer, awaited in held_by
	some ownership in owners.at_work(request.name, finalizer, resource)
	some of, group in awaited
	some name in group.names
}

# The same for the instances of a definition.
waits contains {
	"target": {"resource": request.name, "namespace": ns, "name": waiting},
	"owner": ownership, "how": "waits for", "what": [of, name], "where": "",
} if {
	request.deletes_definition
	some ns, resources in data.cluster.awaited
	some waiting, held_by in resources[request.name]
	some finalizer, awaited in held_by
	some ownership in owners.at_work(ns, finalizer, request.name)
	some of, group in awaited
	some name in group.names
}

# group_of is the suffix of resources of an entry's API group.
group_of(entry) := concat("", [sprintf(".%s", [split(entry.apiVersion, "/")[0]]) | entry.apiVersion])

own := [ownership |
	request.deleting
	not request.foreground # foreground-deletion-blocked reports its dependents
	some finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
	ownership.state == "alive"
]

# places are the namespaces of awaited objects. orphaned-finalizer reports objects in the deleted
# namespace.
places := {request.namespace, ""} | {wait.target.namespace | request.deletes_definition; some wait in waits}

stuck contains {
	"resource": of, "namespace": ns, "name": name, "signature": signature,
	"finalizer": finalizer, "ownership": group.ownership, "why": why,
} if {
	wanted := {wait.what | some wait in waits}
	some ns in places
	some finalizer, resources in data.cluster.finalized[ns]
	some of, groups in resources
	some signature, group in groups
	some name in group.names
	[of, name] in wanted
	why := reason(group, ns, name)
}

# An object stays, too, if its owner lacks an object, such as a VolumeSnapshotContent without its
# Secret.
stuck contains {
	"resource": of, "namespace": ns, "name": name, "signature": signature,
	"finalizer": finalizer, "ownership": group.ownership, "why": sprintf("its owner needs %s %s, which does not exist", [thing, lack]),
} if {
	wanted := {wait.what | some wait in waits}
	some ns in places
	some finalizer, resources in data.cluster.needs[ns]
	some of, things in resources
	some signature, group in data.cluster.finalized[ns][finalizer][of]
	group.ownership.state == "alive"
	some thing, states in things
	some state in {"hangs", "may"}
	some name in states[state].names
	[of, name] in wanted
	name in group.names
	lack := states[state].needed.names[0]
}

reason(group, _, _) := owners.reason(group.ownership) if owners.class(group.ownership)

reason(group, ns, name) := sprintf("it has been Terminating for %s", [times.duration(times.since(held.since))]) if {
	not owners.class(group.ownership)
	some held in group.terminating.objects
	[held.namespace, held.name] == [ns, name]
	times.since(held.since) > patience
}

# patience is in seconds, as in finalizer-already-stuck.
patience := 600

# referred lists the fields that name an object, by its kind and name.
referred[value.kind][value.name] contains path if {
	some path, value in fields
	endswith(path, "Ref")
}

referred[value.kind][value.name] contains path if {
	some path, list in fields
	endswith(path, "Refs")
	some value in list
}

fields[sprintf("spec.%s", [key])] := value if some key, value in input.request.oldObject.spec

fields[sprintf("spec.%s.%s", [key, below])] := value if {
	some key, inner in input.request.oldObject.spec
	is_object(inner)
	some below, value in inner
}
