# METADATA
# title: Object that others refer to
# description: >-
#   Some finalizers stay, by design, for as long as others refer to the object: a
#   GatewayClass with Gateways, a ProviderConfig with usages, an AppProject with
#   Applications, a VolumeAttributesClass with claims, a VolumeSnapshot with claims that are
#   still restored from it, a PersistentVolume with attachments. Their owner runs, and waits. It
#   does not delete those that refer. What lies in a namespace that is deleted goes with
#   those that refer to it from there; not with others. Of kinds that the catalog does not
#   know, the objects tell: a custom resource names another of its API group in a field
#   that is called after the kind or the end of it (deploymentName), or carries an
#   identifier that stands in the status of the other (backendUUID), as a volume does.
#   Whether the owner waits for that is not known: then the verdict is "may hang".
# related_resources:
#   - ref: https://gateway-api.sigs.k8s.io/api-types/gatewayclass/
#     description: The finalizer gateway-exists-finalizer.gateway.networking.k8s.io.
#   - ref: https://kubernetes.io/docs/concepts/storage/volume-attributes-classes/
#     description: VolumeAttributesClasses.
# custom:
#   id: in-use
#   severity: medium
#   class: order
#   triggers: [delete]
#   needs: [data.cluster.inUse.$NAMESPACE]
#   relies_on:
#     - kinds: [$REFERRERS]
#       for: [$FINALIZERS]
#   remedy: >-
#     Delete those that refer to the object first, or have them refer to another: then it
#     goes by itself. What holds data, have refer to another.
#   limits: >-
#     Which finalizers wait for whom is known of the kinds in the catalog. Of others, those
#     count that name the object in their spec, beside it or without a namespace; that have
#     a finalizer or a status, or a label that says the same; and that nothing else owns:
#     what has a controller goes with it. What a selector selects does not count. Whether
#     those that refer can be deleted themselves: ask about them, too.
package termguard.in_use

import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

deny contains own(i, finalizer, users) if {
	some i, finalizer in waiting
	users := known(using(finalizer))
	not leave(users)
}

# In a namespace that goes, those that refer from there go along.
deny contains content(found, users) if {
	some found in contents
	users := known(found.outside)
	not leave(users)
}

# But not where each of two waits for the other.
deny contains deadlock(found, users) if {
	some found in contents
	some users in found.inside
	count(users.mutual) > 0
}

# Those that refer to it are on their way.
warn contains own(i, finalizer, users) if {
	some i, finalizer in waiting
	users := known(using(finalizer))
	leave(users)
}

warn contains content(found, users) if {
	some found in contents
	users := known(found.outside)
	leave(users)
}

# Those of which only their fields tell.
warn contains own(i, finalizer, naming(using(finalizer))) if some i, finalizer in waiting

# Or whose owner nobody knows.
warn contains own(i, finalizer, naming(using(finalizer))) if {
	request.deleting
	some i, finalizer in input.request.oldObject.metadata.finalizers
	input.ownership[finalizer].state == "unknown"
}

warn contains content(found, naming(found.outside)) if some found in contents

# known are those of which the catalog tells that the owner waits for them, and naming the
# others.
known(users) := [group | some group in users; not group.field]

naming(users) := [group | some group in users; group.field]

# waiting are the finalizers of the object whose owner runs, by place.
waiting[i] := finalizer if {
	request.deleting
	not bound
	not undetached
	some i, finalizer in input.request.oldObject.metadata.finalizers
	input.ownership[finalizer].state == "alive"
}

# A volume that is bound waits for its claim: another policy tells that.
bound if {
	request.resource == "persistentvolumes"
	input.request.oldObject.status.phase == "Bound"
}

# So it does of a volume that cannot be detached.
undetached if {
	request.resource == "persistentvolumes"
	data.cluster.attachmentsOf[request.name]
}

# using are those that refer to the object, by resource, but for those that are
# deleted together with it.
using(finalizer) := [object.union(users, {"resource": of, "beside": beside(request.namespace, side)}) |
	some of, sides in data.cluster.inUse[request.namespace][request.resource][request.name][finalizer]
	some side, users in sides
	not together(of, users, beside(request.namespace, side))
]

# beside is where those lie that are named without a namespace: of those that do not lie in
# that of the object, in none.
beside(ns, side) := {"inside": ns, "outside": ""}[side]

# together is true if all that refer go with the object.
together(resource, users, ns) if {
	count(users.names) == users.count
	every name in users.names {
		[of, called] := place(ns, name)
		data.cluster.set[resource][of][called]
	}
}

# place is where an object lies that is named from a namespace.
place(ns, name) := [ns, name] if not contains(name, "/")

place(_, name) := split(name, "/") if contains(name, "/")

# leave is true if all that refer are being deleted.
leave(users) if {
	every some_users in users {
		some_users.leaving == some_users.count
	}
}

# contents are the objects with finalizers that go with a namespace, and those
# that refer to them: from there, and from elsewhere.
contents contains {
	"resource": of, "name": name, "finalizer": finalizer, "owner": working[0],
	"inside": [object.union(sides.inside, {"resource": by, "beside": request.name}) | some by, sides in users],
	"outside": [object.union(sides.outside, {"resource": by, "beside": ""}) | some by, sides in users],
} if {
	request.deletes_namespace
	some of, names in data.cluster.inUse[request.name]
	some name, by_finalizer in names
	some finalizer, users in by_finalizer
	working := owners.at_work(request.name, finalizer, of)
	count(working) > 0
}

own(i, finalizer, users) := {
	"msg": sprintf("finalizer %s %s while %s to it: %s", [finalizer, stays(users), refer(users), first(users)]),
	"objects": array.concat([request.target], objects(users)),
	"evidence": object.get(input.ownership[finalizer], "evidence", []),
	"field": sprintf("metadata.finalizers[%d]", [i]),
	"steps": deletions(users),
} if {
	count(users) > 0
}

content(found, users) := {
	"msg": sprintf(
		"%s %s %s while %s to it from elsewhere: %s (finalizer %s)",
		[found.resource, found.name, stays(users), refer(users), first(users), found.finalizer],
	),
	"objects": array.concat(
		[{"resource": found.resource, "namespace": request.name, "name": found.name}],
		objects(users),
	),
	"evidence": object.get(found.owner, "evidence", []),
	"steps": deletions(users),
} if {
	count(users) > 0
}

deadlock(found, users) := {
	"msg": sprintf(
		"%s %s and %s %s refer to each other, and each has a finalizer that stays while the other does",
		[found.resource, found.name, users.resource, concat(", ", users.mutual)],
	),
	"objects": array.concat(
		[{"resource": found.resource, "namespace": request.name, "name": found.name}],
		[{"resource": users.resource, "namespace": request.name, "name": name} | some name in users.mutual],
	),
	"evidence": object.get(found.owner, "evidence", []),
	"steps": [steps.mend(sprintf("Take the reference to the other out of one of them%s", [request.ahead(", before the deletion")]), [])],
}

stays(users) := "stays" if count(naming(users)) == 0

stays(users) := "may stay" if count(naming(users)) > 0

refer(users) := sprintf("%d %s", [n, wording.plural(n, "object refers", "objects refer")]) if {
	n := sum([group.count | some group in users])
}

# first are the first few that refer.
first(users) := concat(", ", array.slice(
	[sprintf("%s %s%s", [group.resource, name, field(group)]) |
		some group in users
		some name in group.names
	],
	0, 5,
))

field(group) := "" if not group.field

field(group) := sprintf(" (%s)", [group.field]) if group.field

objects(users) := [{"resource": group.resource, "namespace": where, "name": called} |
	some group in users
	some name in group.names
	[where, called] := place(group.beside, name)
]

# deletions are the steps that delete those that refer, each in its namespace.
deletions(users) := [steps.mend("See what holds those that refer to the object: they are being deleted already", [])] if {
	count(users) > 0
	leave(users)
}

deletions(users) := array.flatten([
	[step | some group in users; some step in removals(group)],
	[steps.remove(
		sprintf(
			"Delete what the %s were made for, as the owner references of %s say: they go along; or have that refer to another",
			[group.resource, concat(", ", group.owned)],
		),
		[],
	) |
		some group in users
		group.owned
	],
	keeping(users),
	freeing([group | some group in users; group.carries]),
	[steps.mend(
		sprintf("Delete the Services that have these addresses, or recreate them with other addresses: %s", [concat(", ", group.names)]),
		[],
	) |
		some group in users
		group.resource == addresses
	],
]) if {
	not leave(users)
}

# keeping are the steps for volumes.
keeping(users) := [steps.mend(
	sprintf(
		"Have the %s that the finding names refer to another, or keep the object: their data would go along",
		[group.resource],
	),
	[],
) |
	some group in users
	group.resource in volumes
	not group.carries
]

# freeing is the step for what carries its identifier: that stands for what is stored there.
freeing(users) := [steps.mend(
	sprintf(
		"Free what carries its identifier first, as by deleting the claims of volumes, if their data may go: %s",
		[first(users)],
	),
	[],
) |
	count(users) > 0
]

volumes := {"persistentvolumeclaims", "persistentvolumes"}

# removals delete the referrers of a group, in batches of one namespace.
removals(group) := [step |
	not group.carries
	not group.resource in (volumes | {addresses})
	some where in {spot | some name in alone(group); spot := place(group.beside, name)[0]}
	names := [called | some name in alone(group); [at, called] := place(group.beside, name); at == where]
	some batch in steps.batches(group.resource, names)
	some step in as_told([group], [steps.remove(
		sprintf("Delete the %s that refer to the object, or have them refer to another: then it goes by itself", [group.resource]),
		steps.deleted(batch, where),
	)])
]

# alone are those that refer on their own account.
alone(group) := [name | some name in group.names; not name in object.get(group, "owned", [])]

# as_told marks a step where it rests on what a tenant can write.
as_told(users, list) := steps.hearsay("the status of those that refer", list) if told(users)

as_told(users, list) := steps.hearsay("fields of those that refer", list) if count(naming(users)) > 0

as_told(users, list) := list if {
	not told(users)
	count(naming(users)) == 0
}

told(users) if {
	some group in users
	group.told
}

# addresses are made again for as long as their Service is there.
addresses := "ipaddresses.networking.k8s.io"
