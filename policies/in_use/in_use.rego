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

# In a deleted namespace, referrers inside it are deleted, too.
deny contains content(found, users) if {
	some found in contents
	users := known(found.outside)
	not leave(users)
}

# Two objects that wait for each other stay.
deny contains deadlock(found, users) if {
	some found in contents
	some users in found.inside
	count(users.mutual) > 0
}

# The referrers are Terminating.
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

# Referrers that only fields show.
warn contains own(i, finalizer, naming(using(finalizer))) if some i, finalizer in waiting

# Finalizers with an unknown owner.
warn contains own(i, finalizer, naming(using(finalizer))) if {
	request.deleting
	some i, finalizer in input.request.oldObject.metadata.finalizers
	input.ownership[finalizer].state == "unknown"
}

warn contains content(found, naming(found.outside)) if some found in contents

# known lists the referrers that the owner waits for by the catalog, and naming the others.
known(users) := [group | some group in users; not group.field]

naming(users) := [group | some group in users; group.field]

# waiting lists the finalizers of the object whose owner runs, by index.
waiting[i] := finalizer if {
	request.deleting
	not bound
	not undetached
	some i, finalizer in input.request.oldObject.metadata.finalizers
	input.ownership[finalizer].state == "alive"
}

# storage-in-use reports a bound volume, which waits for its claim.
bound if {
	request.resource == "persistentvolumes"
	input.request.oldObject.status.phase == "Bound"
}

# attachment-held reports a volume that cannot be detached.
undetached if {
	request.resource == "persistentvolumes"
	data.cluster.attachmentsOf[request.name]
}

# using lists the referrers by resource, except those deleted together with the object.
using(finalizer) := [object.union(users, {"resource": of, "beside": beside(request.namespace, side)}) |
	some of, sides in data.cluster.inUse[request.namespace][request.resource][request.name][finalizer]
	some side, users in sides
	not together(of, users, beside(request.namespace, side))
]

# beside is the namespace of referrers that are named without one.
beside(ns, side) := {"inside": ns, "outside": ""}[side]

# together reports whether all referrers are deleted with the object.
together(resource, users, ns) if {
	count(users.names) == users.count
	every name in users.names {
		[of, called] := place(ns, name)
		data.cluster.set[resource][of][called]
	}
}

# place splits the name of an object into its namespace and name.
place(ns, name) := [ns, name] if not contains(name, "/")

place(_, name) := split(name, "/") if contains(name, "/")

# leave reports whether all referrers are Terminating.
leave(users) if {
	every some_users in users {
		some_users.leaving == some_users.count
	}
}

# contents lists the objects with finalizers in a deleted namespace, and their referrers inside
# and outside of it.
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

# first names the first few referrers.
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

# deletions lists the steps that delete referrers, each in its namespace.
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

# keeping lists the steps for volumes.
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

# freeing is the step for objects with its identifier: they stand for stored data.
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

# removals lists the steps that delete the referrers of a group, in batches of one namespace.
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

# alone lists the referrers without an owner.
alone(group) := [name | some name in group.names; not name in object.get(group, "owned", [])]

# as_told marks steps that depend on something a tenant can write.
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

# addresses are recreated while their Service exists.
addresses := "ipaddresses.networking.k8s.io"
