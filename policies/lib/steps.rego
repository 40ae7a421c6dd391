# The steps of the way out (Step of the engine): what to do, in order of the price,
# and how kubectl does it where it can be run as it stands.
package termguard.lib

# mend restores: nobody gives up anything. As with all steps, words are those of
# the command, [] where there is none.
mend(sentence, words) := step("mend", sentence, words)

# remove gives up one thing by hand.
remove(sentence, words) := step("remove", sentence, words)

# force comes last: its sentence names the price.
force(sentence, words) := step("force", sentence, words)

step(kind, sentence, []) := {"kind": kind, "do": sentence}

step(kind, sentence, words) := {"kind": kind, "do": sentence, "command": command(words)} if count(words) > 0

# command is a line for a POSIX shell.
command(words) := concat(" ", [quoted(word) | some word in words])

# quoted is a word as a POSIX shell takes it: names of objects may hold anything
# but "/" and "%" (k8s.io/apimachinery, pkg/api/validation/path).
quoted(word) := word if regex.match(plain, word)

quoted(word) := sprintf("'%s'", [replace(word, "'", `'\''`)]) if not regex.match(plain, word)

plain := `^[A-Za-z0-9_@%+=:,./-]+$`

# batches are objects of one resource as kubectl takes them, a few in a line.
# TYPE/NAME keeps a name from being taken for an option.
batches(resource, names) := [[sprintf("%s/%s", [resource, name]) | some name in array.slice(names, from, from + 10)] |
	some from in numbers.range_step(0, count(names), 10)
	from < count(names)
]

# option are the words that name a namespace to kubectl.
option("") := []

option(ns) := ["-n", ns] if ns != ""

# deletion are the words that delete objects. Not waiting is for what the
# deletion of each waits for in turn.
deletion(objects, ns) := array.flatten(["kubectl", "delete", objects, option(ns), "--wait=false"])

# taking_out are the words that take finalizers out of objects: pairs [INDEX,
# FINALIZER] of metadata.finalizers. Where another stands there by now, the API
# server refuses and nothing is changed.
taking_out(objects, ns, pairs) := array.flatten(["kubectl", "patch", objects, option(ns), "--type=json", "-p", json.marshal([change |
	some pair in array.reverse(sort(pairs))
	path := sprintf("/metadata/finalizers/%d", [pair[0]])
	some change in [
		{"op": "test", "path": path, "value": pair[1]},
		{"op": "remove", "path": path},
	]
])])

# shifted are pairs [INDEX, FINALIZER] as they stand once others have gone.
shifted(pairs, gone) := [[pair[0] - count([1 | some other in gone; other[0] < pair[0]]), pair[1]] | some pair in pairs]

# taking_own_out are the words that take finalizers of the target out of it.
taking_own_out(pairs) := taking_out([target_word], namespace, pairs)

# holders are the objects with finalizers that are not removed and go with the
# target, by namespace, resource, name and class: pairs [INDEX, FINALIZER].
holders[target.name][of][holder][class(bucket.ownership)] contains [at, finalizer] if {
	deletes_namespace
	some finalizer, resources in data.cluster.finalized[target.name]
	some of, buckets in resources
	some bucket in buckets
	some i, at in bucket.at
	holder := bucket.names[i]
}

holders[ns][target.name][holder][class(bucket.ownership)] contains [at, finalizer] if {
	deletes_definition
	some finalizer, signatures in data.cluster.spread[target.name]
	some signature, spread in signatures
	some ns in spread.names
	bucket := data.cluster.finalized[ns][finalizer][target.name][signature]
	some i, at in bucket.at
	holder := bucket.names[i]
}

holders[ns][of][holder][class(dependent.ownership)] contains [at, dependent.finalizer] if {
	some dependent in guarded
	ns := dependent.namespace
	of := dependent.resource
	some i, at in dependent.at
	holder := dependent.names[i]
}

# handful bounds the finalizers of one object that are taken out by one command.
handful := 20

# alike are the names of holders with the same pairs, by class, each finalizer
# among them, namespace and resource.
alike[class][finalizer][ns][of][now] contains holder if {
	some ns, resources in holders
	some of, held_by in resources
	some holder, classes in held_by
	some class, pairs in classes
	count(pairs) <= handful
	now := shifted(pairs, removed_before(class, classes))
	some [_, finalizer] in pairs
}

# removed_before are the pairs that have gone when those of a class are removed:
# what is certain comes first.
removed_before("certain", _) := set()

removed_before("uncertain", classes) := object.get(classes, "certain", set())

# giving_up are the steps that take a finalizer out of holders, and with it their
# other ones of the same class: each that goes changes where the others stand.
giving_up(finalizer, of, ownership) := [remove(gone_for_good(names_of(pairs), ownership), taking_out(objects, ns, pairs)) |
	some ns, resources in alike[class(ownership)][finalizer]
	some pairs, names in resources[of]
	some objects in batches(of, sort(names))
]

# giving_up_own is the step that takes finalizers out of the target, all of one
# class in one command.
giving_up_own(ownership) := remove(
	gone_for_good(own_out[class(ownership)].names, ownership),
	own_out[class(ownership)].words,
)

own_out[class] := {"names": names_of(now), "words": taking_own_out(now)} if {
	some class, pairs in own
	count(pairs) <= handful
	now := shifted(pairs, removed_before(class, own))
}

own_out[class] := {"names": sprintf("all %d that nobody removes", [count(pairs)]), "words": []} if {
	some class, pairs in own
	count(pairs) > handful
}

names_of(pairs) := concat(", ", [pair[1] | some pair in pairs])

# going_first are the steps that delete objects of the namespace under review while
# somebody removes their finalizers. Not all of many are named.
going_first(resource, bucket) := [mend(sentence, array.flatten(["kubectl", "delete", objects, option(name)])) |
	some objects in batches(resource, bucket.names)
] if {
	count(bucket.names) == bucket.count
	sentence := sprintf("Delete the %s first, and wait until they are gone", [resource])
}

going_first(resource, bucket) := [mend(sprintf("Delete the %s first, and wait until they are gone", [resource]), [])] if {
	count(bucket.names) < bucket.count
}

# bringing_back are the steps that restore the owner of a finalizer.
bringing_back(ownership) := [mend(sprintf("Bring back %s, and the deletion finishes by itself", [owner_or(ownership)]), [])] if {
	not ownership.idle
}

bringing_back(ownership) := [mend(sprintf("Scale up %s, and the deletion finishes by itself", [owner_or(ownership)]), words) |
	some workload in ownership.idle
	words := [
		"kubectl", "scale", sprintf("%s/%s", [workload.resource, workload.name]),
		"-n", workload.namespace, "--replicas=1",
	]
] if {
	ownership.idle
}

owner_or(ownership) := owner(ownership) if owner(ownership) != ""

owner_or(ownership) := "what removes the finalizer" if owner(ownership) == ""

# gone_for_good is the sentence for a finalizer that is taken out.
gone_for_good(finalizers, ownership) := sprintf(
	"If that is gone for good, clean up what the finalizer guards%s, then take out %s: %s",
	[cleared(ownership), finalizers, left_behind],
)

# left_behind is the price of a finalizer that is taken out.
left_behind := "what it guards and is not cleaned up stays behind for ever"

# pods_off gets pods off a node that cannot stop them.
pods_off(node, ns, names) := array.concat(
	[
		mend(sprintf("Bring node %s back, and its pods go by themselves", [node]), []),
		remove(
			sprintf(
				concat(" ", [
					"If the machine of %s is off for good, delete its Node",
					"(or taint it node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, to keep it):",
					"its pods are then collected within a minute or two",
				]),
				[node],
			),
			deletion([sprintf("nodes/%s", [node])], ""),
		),
	],
	forced(ns, names),
)

# forced ends pods as objects.
forced(ns, names) := [force(
	concat(" ", [
		"Remove only the object: containers on a machine that still runs live on, next to their replacement",
		"(of a StatefulSet, two of one identity), and volumes may stay attached",
	]),
	array.concat(deletion(objects, ns), ["--force", "--grace-period=0"]),
) |
	some objects in batches("pods", names)
]
