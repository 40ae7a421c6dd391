# METADATA
# description: >-
#   Steps of a plan (Step of the engine): advice in order of its price, with the command of
#   kubectl if it can be run as it is.
package termguard.lib.steps

# mend repairs and loses nothing. In all steps, how is an action, the words of a command for a
# person, or [].
mend(sentence, how) := step("mend", sentence, how)

remove(sentence, how) := step("remove", sentence, how)

force(sentence, how) := step("force", sentence, how)

# then names the effect unless something else blocks: "again", the user deletes again, or
# "itself", the deletion finishes.
then(what, sentence, []) := {"kind": "mend", "do": sentence, "then": what}

then(what, sentence, how) := {"kind": "mend", "do": sentence, "then": what, "action": how} if is_object(how)

# hearsay marks steps that depend on something a tenant can write: termguard delete runs them
# only on its own targets.
hearsay(source, list) := [object.union(step, {"hearsay": source}) | some step in list]

step(kind, sentence, []) := {"kind": kind, "do": sentence}

step(kind, sentence, how) := {"kind": kind, "do": sentence, "action": how} if is_object(how)

step(kind, sentence, how) := {"kind": kind, "do": sentence, "command": how} if {
	is_array(how)
	count(how) > 0
}

# batches makes arguments for kubectl, ten to a command. TYPE/NAME protects against names that
# look like options.
batches(resource, names) := [[sprintf("%s/%s", [resource, name]) | some name in array.slice(names, from, from + 10)] |
	some from in numbers.range_step(0, count(names), 10)
	from < count(names)
]

# deleted deletes objects, RESOURCE/NAME each.
deleted(objects, ns) := {"verb": "delete", "objects": objects, "namespace": ns}

deletion(objects, ns) := object.union(deleted(objects, ns), {"noWait": true})

# pods_off lists the steps for pods on a node that cannot stop them.
pods_off(node, ns, names) := array.concat(
	[
		mend(sprintf("Repair or restart node %s, and it deletes its pods", [node]), []),
		remove(
			sprintf(
				concat(" ", [
					"If the machine of node %s is off, taint the node out-of-service: its pods are removed, and their",
					"volumes detached, within a minute or two; remove the taint when the machine runs again",
				]),
				[node],
			),
			["kubectl", "taint", "nodes", node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"],
		),
		remove(
			sprintf("If the machine of node %s will not return, delete the Node: its pods are removed within a minute or two", [node]),
			deletion([sprintf("nodes/%s", [node])], ""),
		),
	],
	forced(ns, names),
)

forced(ns, names) := [force(
	concat(" ", [
		"Force the deletion, which removes only the object: containers may keep running beside their replacement",
		"(two pods with one identity in a StatefulSet), and volumes may stay attached",
	]),
	object.union(deletion(objects, ns), {"force": true, "graceSeconds": 0}),
) |
	some objects in batches("pods", names)
]
