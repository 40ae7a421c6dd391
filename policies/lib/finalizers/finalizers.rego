# METADATA
# description: Finalizers that a deletion waits for, and the steps that remove them.
package termguard.lib.finalizers

import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps

# own lists the target's finalizers that are not removed, by class: pairs [INDEX, FINALIZER].
own[owners.class(ownership)] contains [i, finalizer] if {
	request.deleting
	some i, finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
}

# removing removes pairs [INDEX, FINALIZER] of metadata.finalizers; if the index has changed, the
# API server refuses it.
removing(objects, ns, pairs) := {"verb": "patch", "objects": objects, "namespace": ns, "type": "json", "patch": [change |
	some pair in array.reverse(sort(pairs))
	path := sprintf("/metadata/finalizers/%d", [pair[0]])
	some change in [
		{"op": "test", "path": path, "value": pair[1]},
		{"op": "remove", "path": path},
	]
]}

shifted(pairs, others) := [[pair[0] - count([1 | some other in others; other[0] < pair[0]]), pair[1]] | some pair in pairs]

removing_own(pairs) := removing([request.word], request.namespace, pairs)

# holders lists the objects deleted with the target whose finalizers are not removed, with pairs
# [INDEX, FINALIZER].
holders[request.name][of][holder][owners.class(bucket.ownership)] contains [at, finalizer] if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.finalized[request.name]
	some of, buckets in resources
	some bucket in buckets
	some i, at in bucket.at
	holder := bucket.names[i]
}

holders[ns][request.name][holder][owners.class(bucket.ownership)] contains [at, finalizer] if {
	request.deletes_definition
	some finalizer, signatures in data.cluster.spread[request.name]
	some signature, spread in signatures
	some ns in spread.names
	bucket := data.cluster.finalized[ns][finalizer][request.name][signature]
	some i, at in bucket.at
	holder := bucket.names[i]
}

holders[ns][of][holder][owners.class(dependent.ownership)] contains [at, dependent.finalizer] if {
	some dependent in owners.dependents
	ns := dependent.namespace
	of := dependent.resource
	some i, at in dependent.at
	holder := dependent.names[i]
}

# handful bounds the finalizers in one command.
handful := 20

# alike lists the holders with the same pairs.
alike[class][finalizer][ns][of][now] contains holder if {
	some ns, resources in holders
	some of, held_by in resources
	some holder, classes in held_by
	some class, pairs in classes
	count(pairs) <= handful
	now := shifted(pairs, removed_before(class, classes))
	some [_, finalizer] in pairs
}

# removed_before lists the pairs that are removed before those of a class: certain ones first.
removed_before("certain", _) := set()

removed_before("uncertain", classes) := object.get(classes, "certain", set())

# giving_up removes a finalizer together with the others of its class: each removal changes the
# indexes.
giving_up(finalizer, of, ownership) := with_source(ownership, [steps.remove(
	without_owner(names_of(pairs), ownership),
	removing(objects, ns, pairs),
) |
	some ns, resources in alike[owners.class(ownership)][finalizer]
	some pairs, names in resources[of]
	some objects in steps.batches(of, sort(names))
])

giving_up_own(ownership) := with_source(ownership, [steps.remove(
	without_owner(own_out[owners.class(ownership)].names, ownership),
	own_out[owners.class(ownership)].how,
)])[0]

# with_source marks steps that depend on a tenant's statements about the owner.
with_source(ownership, list) := steps.hearsay(ownership.hearsay, list) if ownership.hearsay

with_source(ownership, list) := list if not ownership.hearsay

own_out[class] := {"names": names_of(now), "how": removing_own(now)} if {
	some class, pairs in own
	count(pairs) <= handful
	now := shifted(pairs, removed_before(class, own))
}

own_out[class] := {"names": sprintf("all %d finalizers without an owner", [count(pairs)]), "how": []} if {
	some class, pairs in own
	count(pairs) > handful
}

names_of(pairs) := concat(", ", [pair[1] | some pair in pairs])

# going_first deletes objects of a namespace while the owners of their finalizers run. An object
# that was made for another is left to the other's owner.
going_first(ns, finalizer, resource, group) := [steps.mend(ahead(resource, of), how) |
	candidates := made_for(ns, finalizer, resource, group)
	roots := {root(finalizer, o) | some o in candidates.objects}
	some of, where in {o.resource: {p.namespace | some p in roots; p.resource == o.resource} | some o in roots}
	some place in where
	some how in deletions(of, place, [o.name | some o in roots; o.resource == of; o.namespace == place], candidates.all)
]

deletions(of, ns, names, true) := [steps.deleted(objects, ns) | some objects in steps.batches(of, sort(names))] if of != ""

deletions("", _, _, true) := [[]]

deletions(_, _, _, false) := [[]]

ahead(resource, of) := first(resource) if {
	of == resource
} else := sprintf("Delete the %s first, and the %s with them; continue after both are deleted", [of, resource]) if {
	of != ""
} else := sprintf("First delete the owners of the %s, named in their owner references: they are deleted with them", [resource])

first(resource) := sprintf("Delete the %s first; continue after they are deleted", [resource])

# made_for lists the custom resources for which an owner sets its finalizer on other kinds, or
# these objects themselves; and whether all are named.
made_for(ns, finalizer, resource, group) := {
	"objects": {{"resource": resource, "namespace": ns, "name": name} | some name in group.names},
	"all": count(group.names) == group.count,
} if {
	not made(finalizer, resource)
}

made_for(ns, finalizer, resource, _) := {
	"objects": ({{"resource": of, "namespace": ns, "name": name} | some [of, bucket] in customs; some name in bucket.names} | others),
	"all": count([1 | some [_, bucket] in customs; count(bucket.names) < bucket.count]) == 0,
} if {
	made(finalizer, resource)
	customs := [[of, bucket] |
		some of, buckets in data.cluster.finalized[ns][finalizer]
		data.cluster.crds[of]
		some bucket in buckets
	]
	others := {{"resource": "", "namespace": ns, "name": ""} | count(customs) == 0}
}

# made reports whether the owner of custom resources sets their finalizer on this built-in kind.
made(finalizer, resource) if {
	not data.cluster.crds[resource]
	some of, _ in data.cluster.finalizers[finalizer]
	data.cluster.crds[of]
}

# root is the object that another was made for, four owner references up: Rego has no recursion,
# and a pod of a machine of a cluster needs three. A Terminating object is its own root.
root(finalizer, o) := o if {
	some leaving in data.cluster.terminating[finalizer][o.resource].objects
	[leaving.namespace, leaving.name] == [o.namespace, o.name]
} else := up(up(up(up(o))))

up(o) := controller if {
	controller := data.cluster.controllers[o.resource][sprintf("%s/%s", [o.namespace, o.name])]
	controller.resource != "nodes" # the kubelet sets this reference
} else := o

uncertain_to_run(ownership) if {
	ownership.state in {"absent", "unknown"}
	owners.uncertain(ownership)
}

bringing_back(ownership) := [steps.then("itself", sprintf("Reinstall or restart %s", [owner_or(ownership)]), [])] if {
	not uncertain_to_run(ownership)
	not ownership.idle
	not ownership.barred
}

# An owner that may run.
bringing_back(ownership) := [steps.mend(
	sprintf("Check whether %s runs, and start it if it does not", [owner_or(ownership)]),
	[],
)] if {
	uncertain_to_run(ownership)
	not ownership.watches
	not ownership.maker
}

bringing_back(ownership) := [steps.then("itself", sprintf("Configure %s to watch this namespace, too", [owner_or(ownership)]), [])] if {
	ownership.watches
}

bringing_back(ownership) := [steps.then("itself", sprintf("Recreate %s as it was", [ownership.maker]), [])] if {
	ownership.maker
}

# No command that grants a right is printed: any user who may create workloads can imitate an
# owner.
bringing_back(ownership) := [steps.then(
	"itself", sprintf("%s update and patch %s, %s", [let(ownership), ownership.barred.resource, if_owner(ownership)]),
	[],
)] if {
	not ownership.barred.lease
	ownership.barred
}

bringing_back(ownership) := [steps.then(
	"itself", sprintf(
		"%s get, create, update and patch leases in namespace %s, %s",
		[let(ownership), namespace, if_owner(ownership)],
	),
	[],
)] if {
	[namespace, _] := split(ownership.barred.lease, "/")
}

bringing_back(ownership) := with_source(ownership, [steps.then("itself", sprintf("Scale up %s", [owner_or(ownership)]), scale) |
	some workload in ownership.idle
	scale := {
		"verb": "scale",
		"objects": [sprintf("%s/%s", [workload.resource, workload.name])],
		"namespace": workload.namespace,
		"replicas": 1,
	}
]) if {
	ownership.idle
}

let(ownership) := sprintf("Allow service account %s in namespace %s to", [name, namespace]) if {
	[namespace, name] := split(ownership.barred.account, "/")
}

if_owner(ownership) := sprintf(
	"if it belongs to %s (any user who may create workloads in namespace %s can create a lookalike)",
	[owner_or(ownership), namespace],
) if {
	[namespace, _] := split(ownership.barred.account, "/")
}

owner_or(ownership) := owners.name(ownership) if owners.name(ownership) != ""

owner_or(ownership) := "the owner of the finalizer" if owners.name(ownership) == ""

without_owner(finalizers, ownership) := sprintf(
	"%s, clean up the resources that the finalizer protects%s, then remove %s: %s",
	[condition(ownership), owners.cleared(ownership), finalizers, left_behind],
)

condition(ownership) := sprintf("If %s will not run again", [owner_or(ownership)]) if not ownership.barred

condition(ownership) := sprintf("If %s must not get that right", [owner_or(ownership)]) if ownership.barred

left_behind := "anything not cleaned up is leaked"
