# METADATA
# title: Finalizer whose owner needs a missing object
# description: >-
#   The owner of a finalizer often reads another object first: a Secret with credentials,
#   a kubeconfig, a project or class that the object names. If that does not exist, the
#   owner runs but cannot finish. The same happens if it must delete other objects first,
#   as itself or as a service account that the object names, and no role allows it.
#   Deleting such an object, or the only role or binding with such a right, while objects
#   need it blocks their deletion afterwards. So does one kubectl delete -f of both.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
#     description: Finalizers.
#   - ref: https://github.com/crossplane-contrib/provider-kubernetes/issues/20
#     description: An Object without its target cluster and Secret.
#   - ref: https://fluxcd.io/flux/components/kustomize/kustomizations/#role-based-access-control
#     description: Kustomizations that prune as a service account of a tenant.
# custom:
#   id: missing-reference
#   severity: high
#   class: broken
#   triggers: [delete]
#   needs:
#     - input.ownership.*.missing
#     - input.ownership.*.unallowed
#     - data.cluster.set and input.ownership.*.beside
#     - data.cluster.needed.$NAMESPACE
#     - data.cluster.needs.$NAMESPACE for namespaces
#     - data.cluster.needs for customresourcedefinitions.apiextensions.k8s.io
#     - data.cluster.unallowed.$NAMESPACE for namespaces
#     - data.cluster.unallowed for customresourcedefinitions.apiextensions.k8s.io
#   relies_on:
#     - kinds: [$ELSEWHERE] # objects that need it, and their owners
#       except: [secrets]
#       for: [secrets, configmaps]
#   remedy: >-
#     Recreate the missing object, change the reference, or give the owner the missing
#     right; wait until the owner reports success, then delete. As a last resort, clean up
#     the protected resources by hand, and remove the finalizer.
#   limits: >-
#     Only the catalog knows the objects that an owner reads. For other kinds, the verdict
#     is "may hang" for a Secret that the spec names in a field that ends in SecretRef,
#     SecretReference or secretName, or that the status of a referenced object of the same
#     API group names, and for the PersistentVolume after which a CSI driver names an
#     object (pvc-UUID); also for a Terminating Secret, ConfigMap or ServiceAccount with a
#     finalizer whose owner runs. Whether an existing object is valid: a Secret may have
#     the wrong key. The webhook gets no deletions of Secrets and ConfigMaps; check
#     reports those that are needed. An RBAC rule for some objects only counts as a rule
#     for all.
package termguard.missing_reference

import data.termguard.lib.finalizers
import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.wording

deny contains own(i, finalizer, "hangs") if some i, finalizer in lacking.hangs

deny contains content(found, "hangs") if some found in contents.hangs

deny contains own_right(i, finalizer, "hangs") if some i, finalizer in barred.hangs

deny contains right_of(found, "hangs") if some found in rights.hangs

warn contains own(i, finalizer, "may") if some i, finalizer in lacking.may

warn contains content(found, "may") if some found in contents.may

# Whether the owner needs references in fields is unknown.
warn contains own(i, finalizer, "named") if some i, finalizer in lacking.named

warn contains content(found, "named") if some found in contents.named

# It is Terminating, and kept by a finalizer alone.
warn contains {
	"msg": sprintf("finalizer %s may not be removed: %s", [finalizer, why]),
	"cause": owners.needs(finalizer, why),
	"objects": [request.target, object.remove(thing, ["without"])],
	"evidence": array.concat([short_lived(thing, release)], object.get(ownership, "evidence", [])),
	"field": sprintf("metadata.finalizers[%d]", [i]),
	"steps": [saving(thing)],
} if {
	some i, finalizer in lacking.leaves
	ownership := input.ownership[finalizer]
	some thing in ownership.missing
	thing.without == "leaves"
	release := releases(thing.namespace, thing.resource, thing.name)[0]
	why := going_before(ownership, thing.resource, full(thing))
}

warn contains {
	"msg": held(found, "leaves", why),
	"cause": owners.needs(found.finalizer, why),
	"objects": [{"resource": found.resource, "namespace": found.namespace, "name": name} | some name in found.group.names],
	"evidence": array.concat([short_lived(thing, release)], object.get(found.owner, "evidence", [])),
	"steps": [saving(thing)],
} if {
	some found in contents.leaves
	name := found.group.needed.names[0]
	thing := object.union({"resource": found.thing}, placed(found.namespace, name))
	release := releases(thing.namespace, found.thing, thing.name)[0]
	why := going_before(found.owner, found.thing, name)
}

warn contains own_right(i, finalizer, "may") if some i, finalizer in barred.may

warn contains right_of(found, "may") if some found in rights.may

# Other objects need the target itself.
warn contains {
	"msg": sprintf(
		"%s%s %s finalizer %s: %s",
		[wording.counted(group.count, of), elsewhere(ns), wording.plural(group.count, "has", "have"), finalizer, why],
	),
	"cause": owners.needs(finalizer, why),
	"objects": array.concat([request.target], [{"resource": of, "namespace": ns, "name": name} | some name in group.names]),
	"evidence": object.get(working[0], "evidence", []),
	"steps": [steps.mend(sprintf("Keep %s until the %s are deleted, or change the reference", [request.word, of]), [])],
} if {
	request.deleting
	some ns, held in data.cluster.needed[request.namespace][request.resource][request.name]
	some finalizer, resources in held
	some of, group in resources
	working := owners.at_work(ns, finalizer, of)
	count(working) > 0
	named := object.get(group, "named", false)
	plausible(request.resource, {true: "named", false: "known"}[named], working[0])
	need := requires[named]
	why := sprintf(
		"%s %s this object to remove it, so delete %s first",
		[owners.its(working[0]), need, wording.plural(group.count, "it", "them")],
	)
}

# An object that the owner needs is in the same set.
warn contains {
	"msg": sprintf(
		"%s is deleted together with %s %s, which the owner of finalizer %s needs to remove it",
		[request.word, thing.resource, full(thing), finalizer],
	),
	"objects": [request.target, thing],
	"evidence": [sprintf("no finalizer protects %s %s", [thing.resource, full(thing)])],
	"field": sprintf("metadata.finalizers[%d]", [i]),
	"manifest": {
		"severity": "medium",
		"remedy": "Keep the object in a folder, or a release, of its own, which is deleted before what it needs.",
	},
} if {
	request.deleting
	some i, finalizer in input.request.oldObject.metadata.finalizers
	some thing in input.ownership[finalizer].beside
	place(thing) <= place(request.target)
}

# place is the position of an object in the set.
place(of) := data.cluster.set[of.resource][of.namespace][of.name]

releases(ns, of, name) := [[finalizer, bucket.ownership] |
	some finalizer, resources in data.cluster.finalized[ns]
	some bucket in resources[of]
	bucket.ownership.state == "alive"
	name in bucket.names
]

going_before(ownership, of, name) := sprintf(
	"%s may need %s %s, which is Terminating and may be deleted first",
	[owners.its(ownership), of, name],
)

short_lived(thing, release) := sprintf(
	"%s %s is Terminating, and has finalizer %s, which %s removes",
	[thing.resource, full(thing), release[0], owners.its(release[1])],
)

saving(thing) := steps.mend(
	sprintf("After %s %s is deleted, recreate it as it was%s", [thing.resource, full(thing), request.ahead(", before the deletion")]),
	[],
)

placed(ns, name) := {"namespace": ns, "name": name} if not contains(name, "/")

placed(_, name) := {"namespace": split(name, "/")[0], "name": split(name, "/")[1]} if contains(name, "/")

requires := {true: "may need", false: "needs"}

elsewhere(ns) := object.get({"": "", request.namespace: ""}, ns, sprintf(" in namespace %s", [ns]))

# lacking lists the finalizers whose running owner lacks an object, by outcome and index.
lacking[outcome(thing.without, ownership)][i] := finalizer if {
	request.deleting
	some i, finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
	some thing in ownership.missing
	plausible(thing.resource, thing.without, ownership)
	ownership.state in works[object.get({"named": "named", "leaves": "named"}, thing.without, "known")]
}

# A PersistentVolume after which an object is named counts only if its deletion reaches the
# owner, as for a CSI driver.
plausible(of, without, _) if [of, without] != ["persistentvolumes", "named"]

plausible("persistentvolumes", "named", ownership) if ownership.provisions

# works lists the states of an owner that may remove a finalizer.
works := {"known": {"alive"}, "named": {"alive", "unknown"}}

# outcome is unsure for some releases.
outcome(without, ownership) := "may" if {
	without == "hangs"
	ownership.unsure
} else := without

own(i, finalizer, without) := {
	"msg": sprintf("finalizer %s %s removed: %s", [finalizer, is, why]),
	"cause": owners.needs(finalizer, why),
	"objects": [request.target],
	"evidence": array.concat(
		[sprintf("%s %s not found", [thing.resource, full(thing)]) | some thing in array.slice(missing, 0, few)],
		object.get(ownership, "evidence", []),
	),
	"field": sprintf("metadata.finalizers[%d]", [i]),
	"steps": [
		steps.then("itself", "Recreate the missing objects as they were", []),
		steps.force(by_hand(finalizer, ownership), finalizers.removing_own({[i, finalizer]})),
	],
} if {
	ownership := input.ownership[finalizer]
	missing := [thing |
		some thing in ownership.missing
		plausible(thing.resource, thing.without, ownership)
		outcome(thing.without, ownership) == without
	]
	is := stays[object.get({"named": "may"}, without, "hangs")]
	why := sprintf("%s %s %s, which %s", [
		owners.its(ownership), requires[without == "named"], listed([sprintf("%s %s", [thing.resource, full(thing)]) | some thing in missing]),
		wording.plural(count(missing), "does not exist", "do not exist"),
	])
}

# barred lists the finalizers whose running owner lacks a right, by outcome and index.
barred[act.without][i] := finalizer if {
	request.deleting
	some i, finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
	ownership.state == "alive"
	some act in ownership.unallowed
}

own_right(i, finalizer, without) := {
	"msg": sprintf("finalizer %s %s removed: %s", [finalizer, stays[without], why]),
	"cause": owners.needs(finalizer, why),
	"objects": [request.target],
	"evidence": array.concat(
		[sprintf("no role allows it to %s", [act]) | some act in array.slice(acts, 0, few)],
		object.get(ownership, "evidence", []),
	),
	"field": sprintf("metadata.finalizers[%d]", [i]),
	"steps": [
		give,
		steps.force(by_hand(finalizer, ownership), finalizers.removing_own({[i, finalizer]})),
	],
} if {
	ownership := input.ownership[finalizer]
	acts := [act.what | some act in ownership.unallowed; act.without == without]
	why := unallowed(ownership, listed(acts))
}

unallowed(ownership, acts) := sprintf("%s must %s, and no role allows it", [owners.its(ownership), acts])

# rights lists the deleted objects whose running owners lack a right, by outcome.
rights[without] contains {
	"namespace": ns, "finalizer": finalizer, "resource": of,
	"what": what, "group": group, "owner": working[0],
} if {
	some [ns, finalizer, of] in held_back
	working := owners.at_work(ns, finalizer, of)
	count(working) > 0
	some without, acts in data.cluster.unallowed[ns][finalizer][of]
	some what, group in acts
	not goes_too(group)
}

# goes_too reports whether the account to impersonate is deleted, too: the owner then removes the
# finalizer.
goes_too(group) if {
	request.deletes_namespace
	group.as
}

held_back contains [request.name, finalizer, of] if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.unallowed[request.name]
	some of, _ in resources
}

held_back contains [ns, finalizer, request.name] if {
	request.deletes_definition
	some ns, finalizers_there in data.cluster.unallowed
	some finalizer, resources in finalizers_there
	resources[request.name]
}

right_of(found, without) := {
	"msg": held(found, without, unallowed(found.owner, found.what)),
	"cause": owners.needs(found.finalizer, unallowed(found.owner, found.what)),
	"objects": [{"resource": found.resource, "namespace": found.namespace, "name": name} | some name in found.group.names],
	"evidence": array.concat([sprintf("no role allows it to %s", [found.what])], object.get(found.owner, "evidence", [])),
	"steps": [give, steps.force(by_hand(found.finalizer, found.owner), [])],
}

give := steps.then("itself", "Give the owner that right with a role and a binding", [])

stays := {"hangs": "is not", "may": "may not be"}

few := 5

listed(names) := concat(", ", names) if count(names) <= few

listed(names) := sprintf("%s and %d more", [concat(", ", array.slice(names, 0, few)), count(names) - few]) if count(names) > few

full(thing) := thing.name if thing.namespace in {"", request.namespace}

full(thing) := sprintf("%s/%s", [thing.namespace, thing.name]) if not thing.namespace in {"", request.namespace}

# contents lists the deleted objects whose running owners lack an object, by outcome.
contents[outcome(without, working[0])] contains {
	"namespace": ns, "finalizer": finalizer, "resource": of,
	"thing": thing, "group": group, "owner": working[0],
} if {
	some [ns, finalizer, of] in taken
	working := owners.at_work(ns, finalizer, of)
	count(working) > 0
	some thing, states in data.cluster.needs[ns][finalizer][of]
	some without, group in states
	without in {"hangs", "may", "named", "leaves"}
	plausible(thing, without, working[0])
}

taken contains [request.name, finalizer, of] if {
	request.deletes_namespace
	some finalizer, resources in data.cluster.needs[request.name]
	some of, _ in resources
}

taken contains [ns, finalizer, request.name] if {
	request.deletes_definition
	some ns, finalizers_there in data.cluster.needs
	some finalizer, resources in finalizers_there
	resources[request.name]
}

content(found, without) := {
	"msg": held(found, without, lacks(found, without)),
	"cause": owners.needs(found.finalizer, lacks(found, without)),
	"objects": [{"resource": found.resource, "namespace": found.namespace, "name": name} | some name in found.group.names],
	"evidence": array.concat(
		[sprintf("%s %s not found", [found.thing, name]) | some name in found.group.needed.names],
		object.get(found.owner, "evidence", []),
	),
	"steps": array.concat(
		[steps.mend("Recreate the missing objects as they were before the deletion: later, nothing can be created there", []) |
			not request.leaving
		],
		[steps.force(by_hand(found.finalizer, found.owner), [])],
	),
}

held(found, without, why) := sprintf("%s %s finalizer %s, %s removed: %s", [
	wording.counted(found.group.count, found.resource), wording.plural(found.group.count, "has", "have"),
	found.finalizer, certainty[without], why,
])

lacks(found, without) := sprintf("%s %s %s, which %s", [
	owners.its(found.owner), requires[without == "named"],
	things(found), wording.plural(found.group.needed.count, "does not exist", "do not exist"),
])

things(found) := sprintf("%s %s", [found.thing, found.group.needed.names[0]]) if found.group.needed.count == 1

things(found) := sprintf("%d %s", [found.group.needed.count, found.thing]) if found.group.needed.count != 1

certainty := {"hangs": "which is not", "may": "which may not be", "named": "which may not be", "leaves": "which may not be"}

by_hand(finalizer, ownership) := sprintf(
	"Clean up the resources that the finalizer protects%s by hand, then remove %s: %s",
	[owners.cleared(ownership), finalizer, finalizers.left_behind],
)
