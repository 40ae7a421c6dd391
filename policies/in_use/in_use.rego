# METADATA
# title: Object that others refer to
# description: >-
#   Some finalizers stay, by design, while other objects refer to the object: a
#   GatewayClass with Gateways, a ProviderConfig with usages, an AppProject with
#   Applications, a VolumeAttributesClass with claims, a PersistentVolume with
#   attachments. Their owner waits, and does not delete the referrers. In a deleted
#   namespace, referrers inside it are deleted, too; those in other namespaces are not.
#   For kinds outside the catalog, fields show references: a custom resource names another
#   of its API group in a field called after the kind or its end (deploymentName), or has
#   an identifier from the status of the other (backendUUID). Whether the owner waits is
#   then unknown, so the verdict is "may hang".
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
#     Delete the referrers first, or let them refer to another object: the deletion then
#     finishes by itself. Do not delete referrers with data.
#   limits: >-
#     Only the catalog knows which finalizers wait for referrers. Of other kinds, an
#     object counts if it names the target in its spec, in the same namespace or without
#     one, has a finalizer, a status, or a label that says the same, and has no owner.
#     Selectors do not count. Whether the referrers themselves can be deleted: check them,
#     too.
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

warn contains own(i, finalizer, naming(using(finalizer))) if {
	request.deleting
	some i, finalizer in input.request.oldObject.metadata.finalizers
	input.ownership[finalizer].state == "unknown"
}

warn contains content(found, naming(found.outside)) if some found in contents

known(users) := [group | some group in users; not group.field]

naming(users) := [group | some group in users; group.field]

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

place(ns, name) := [ns, name] if not contains(name, "/")

place(_, name) := split(name, "/") if contains(name, "/")

leave(users) if {
	every some_users in users {
		some_users.leaving == some_users.count
	}
}

# contents lists the objects in a deleted namespace, with referrers inside and outside of it.
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
		"%s %s %s while %s to it from other namespaces: %s (finalizer %s)",
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
		"%s %s and %s %s refer to each other, and the finalizer of each waits for the other",
		[found.resource, found.name, users.resource, concat(", ", users.mutual)],
	),
	"objects": array.concat(
		[{"resource": found.resource, "namespace": request.name, "name": found.name}],
		[{"resource": users.resource, "namespace": request.name, "name": name} | some name in users.mutual],
	),
	"evidence": object.get(found.owner, "evidence", []),
	"steps": [steps.mend(sprintf("Remove the reference from one of them%s", [request.ahead(", before the deletion")]), [])],
}

stays(users) := "stays" if count(naming(users)) == 0

stays(users) := "may stay" if count(naming(users)) > 0

refer(users) := sprintf("%d %s", [n, wording.plural(n, "object refers", "objects refer")]) if {
	n := sum([group.count | some group in users])
}

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

deletions(users) := [steps.mend("Find the blockers of the referrers: they are Terminating already", [])] if {
	count(users) > 0
	leave(users)
}

deletions(users) := array.flatten([
	[step | some group in users; some step in removals(group)],
	[steps.remove(
		sprintf(
			"Delete the owners of the %s, named in the owner references of %s, or let those refer to another object",
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
		sprintf("Delete the Services with these addresses, or recreate them with other addresses: %s", [concat(", ", group.names)]),
		[],
	) |
		some group in users
		group.resource == addresses
	],
]) if {
	not leave(users)
}

keeping(users) := [steps.mend(
	sprintf(
		"Let the %s in the finding refer to another object, or keep this one: deleting them deletes their data",
		[group.resource],
	),
	[],
) |
	some group in users
	group.resource in volumes
	not group.carries
]

# Objects with its identifier stand for stored data.
freeing(users) := [steps.mend(
	sprintf(
		"First free the objects with its identifier, for example by deleting the claims of volumes, if their data may be deleted: %s",
		[first(users)],
	),
	[],
) |
	count(users) > 0
]

volumes := {"persistentvolumeclaims", "persistentvolumes"}

# removals deletes the referrers of a group, in batches of one namespace.
removals(group) := [step |
	not group.carries
	not group.resource in (volumes | {addresses})
	some where in {spot | some name in alone(group); spot := place(group.beside, name)[0]}
	names := [called | some name in alone(group); [at, called] := place(group.beside, name); at == where]
	some batch in steps.batches(group.resource, names)
	some step in with_source([group], [steps.remove(
		sprintf("Delete the %s that refer to the object, or let them refer to another", [group.resource]),
		steps.deleted(batch, where),
	)])
]

alone(group) := [name | some name in group.names; not name in object.get(group, "owned", [])]

# with_source marks steps that depend on something a tenant can write.
with_source(users, list) := steps.hearsay("the status of referrers", list) if tenant_status(users)

with_source(users, list) := steps.hearsay("fields of referrers", list) if count(naming(users)) > 0

with_source(users, list) := list if {
	not tenant_status(users)
	count(naming(users)) == 0
}

tenant_status(users) if {
	some group in users
	group.fromStatus
}

# Addresses are recreated while their Service exists.
addresses := "ipaddresses.networking.k8s.io"
