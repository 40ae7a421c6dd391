# METADATA
# title: Owner of a finalizer that reports a failure
# description: >-
#   The software that removes a finalizer runs, and the object's own status, or Events
#   about it, say that it has been failing for a while: wrong credentials, a backend that
#   does not answer, a reference that does not exist. What keeps it from reconciling the
#   object usually keeps it from cleaning up, too, and the object stays Terminating.
# related_resources:
#   - ref: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#typical-status-properties
#     description: Conditions in the status of an object.
#   - ref: https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md
#     description: Ready, Reconciling and Stalled.
#   - ref: https://docs.crossplane.io/latest/guides/troubleshoot-crossplane/
#     description: Synced and Ready of managed resources.
# custom:
#   id: owner-reports-failure
#   severity: medium
#   class: broken
#   triggers: [delete]
#   needs:
#     - input.ownership and input.request.oldObject.status.conditions
#     - data.cluster.conditions.$NAMESPACE.*.$NAME
#     - data.cluster.conditions.$NAMESPACE for namespaces
#   remedy: >-
#     Fix what the condition names, wait until the condition is good again, then
#     delete. To take the finalizer out by hand is the last resort: what it protects
#     stays behind.
#   limits: >-
#     Conditions of custom resources, whose type ends in a word that most controllers use:
#     of those that are deleted themselves, and of the first 50 in a namespace that check
#     is asked about. A snapshot has those of the first few of each kind; the webhook knows
#     none of what is in a namespace, and no Events. Events count that warn of the object
#     for that long, where all who may write Events in that namespace alone may update the
#     object, too. A controller may fail to reconcile and still clean up: the finding says
#     "may". A failure counts after ten minutes. Where only its rights or a lease speak for
#     the owner, it counts after 30 seconds, and after two minutes so does an object that
#     has not been ready since it was created, as one does that takes long to make.
package termguard.owner_reports_failure

import data.termguard.lib.owners
import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times
import data.termguard.lib.wording

warn contains {
	"msg": sprintf("its owner, %s, %s", [who, reported(worst)]),
	"objects": [request.target],
	"evidence": [told(condition) | some condition in failing],
	"field": field(worst),
	"steps": [steps.mend(sprintf("%s what %s%s", [fix(worst), names(worst), later(worst)]), [])],
} if {
	who := sort([named(ownership) | some ownership in alive; count(failures(conditions, ownership)) > 0])[0]
	failing := [condition |
		some ownership in alive
		named(ownership) == who
		some condition in failures(conditions, ownership)
	]
	worst := failing[0]
}

# What is in a namespace.
warn contains {
	"msg": sprintf("%s %s finalizer %s: its owner, %s, %s", [
		wording.counted(count(names), of), wording.plural(count(names), "has", "have"), finalizer,
		named(bucket.ownership), reported(worst),
	]),
	"objects": [{"resource": of, "namespace": request.name, "name": name} | some name in names],
	"evidence": [sprintf("of %s, %s", [name, told(failing[name][0])]) | some name in array.slice(names, 0, 5)],
	"steps": [steps.mend(
		sprintf("%s what %s%s", [fix(worst), names_of(worst, of), later(worst)]),
		[],
	)],
} if {
	request.deletes_namespace
	some of, objects in data.cluster.conditions[request.name]
	some finalizer, resources in data.cluster.finalized[request.name]
	some bucket in resources[of]
	bucket.ownership.state == "alive"
	failing := {name: found |
		some name in bucket.names
		found := failures(objects[name], bucket.ownership)
		count(found) > 0
	}
	names := sort(object.keys(failing))
	worst := failing[names[0]][0]
}

# field is where that shows in the object: Events are no part of it.
field(condition) := "status.conditions" if not condition.last

field(condition) := "metadata.finalizers" if condition.last

# conditions are those of the object itself, and what Events say about it.
conditions := array.concat(
	[with_created(texts(condition)) |
		is_array(input.request.oldObject.status.conditions)
		some condition in array.slice(input.request.oldObject.status.conditions, 0, 32)
		is_object(condition)
	],
	[event |
		some event in data.cluster.conditions[object.get(input.request, "namespace", "")][request.resource][request.name]
		event.last
	],
)

# alive are the owners of the finalizers that somebody is expected to remove. What
# built-in kinds say in their conditions is not about their finalizers.
alive contains ownership if {
	request.deleting
	data.cluster.crds[request.resource]
	some finalizer in input.request.oldObject.metadata.finalizers
	ownership := input.ownership[finalizer]
	ownership.state == "alive"
}

named(ownership) := {true: "which is unknown by name", false: owners.name(ownership)}[owners.name(ownership) == ""]

# failures are the conditions that have said for a while that the owner fails. Who
# writes a status may write any number of them.
failures(list, ownership) := [condition |
	some told in array.slice(list, 0, 32)
	said := object.union(told, {"reason": reason(told), "lastTransitionTime": changed(told)})
	how := counts(said, ownership)
	condition := object.union(said, {"how": how})
]

# counts tells how a condition counts, if it does.
counts(condition, ownership) := "that it fails" if {
	fails(condition)
	times.since(condition.lastTransitionTime) > patience(ownership)
}

counts(condition, ownership) := "that it is not ready, since it was created" if {
	not fails(condition)
	ownership.circumstantial
	never_ready(condition)
	times.since(condition.lastTransitionTime) > 120
}

# A controller writes an Event each time that it fails, and none when it does not any more.
counts(condition, ownership) := "that it fails" if {
	regex.match(failure, condition.reason)
	times.since(condition.lastTransitionTime) - times.since(condition.last) > patience(ownership)
	times.since(condition.last) < 1800
}

# fails is true of a condition that tells of an error.
fails(condition) if {
	bad(condition)
	regex.match(failure, condition.reason)
}

# never_ready is true of a condition that the owner wrote while it took the object in
# hand, within a minute, and that has not been good since.
never_ready(condition) if {
	condition.status != "True"
	regex.match(`(Ready|Available|Healthy)$`, condition.type)
	not regex.match(`Not[A-Z][a-z]+$`, condition.type)
	times.since(condition.created) - times.since(condition.lastTransitionTime) < 60
}

# patience is how long a condition may be bad before it counts, in seconds: a
# controller that starts, or retries, passes through bad states. Who is taken for the
# owner by its rights alone is not known to do its work: nothing else speaks for it.
patience(ownership) := 30 if ownership.circumstantial

patience(ownership) := 600 if not ownership.circumstantial

# reported is what the owner says in a condition, or in Events.
reported(condition) := sprintf("has reported for %s %s: %s is %s (%s)", [
	times.duration(times.since(condition.lastTransitionTime)), condition.how,
	condition.type, condition.status, clean(condition.reason, 40),
]) if {
	not condition.last
}

reported(condition) := sprintf("has reported for %s in Events %s: %s", [
	times.duration(times.since(condition.lastTransitionTime)), condition.how,
	clean(condition.reason, 40),
]) if {
	condition.last
}

names(condition) := sprintf("the condition %s names", [condition.type]) if {
	not condition.last
}

names(condition) := "its Events tell of" if condition.last

names_of(condition, of) := sprintf("the condition %s of the %s names", [condition.type, of]) if {
	not condition.last
}

names_of(condition, of) := sprintf("the Events of the %s tell of", [of]) if {
	condition.last
}

# fix is how a step begins: an object that was never ready often goes at once, as nothing was
# made for it.
fix(condition) := "Delete, and if it stays, fix" if idle(condition)

fix(condition) := "Fix" if not idle(condition)

idle(condition) if {
	never_ready(condition)
	not request.leaving
}

later(condition) := request.ahead(sprintf("; delete when %s", [mended(condition)])) if not idle(condition)

later(condition) := "" if idle(condition)

mended(condition) := "it is good again" if not condition.last

mended(condition) := "there are no new ones" if condition.last

# texts are the fields of a condition that are texts: of custom resources nothing holds that
# they are. What is told of Events is none of them.
texts(condition) := {key: text | some key, text in condition; is_string(text); key != "last"}

# with_created is a condition as the facts have those of what is in a namespace: with when
# its object was created, where that is known.
with_created(condition) := object.union(condition, {"created": created}) if {
	created := input.request.oldObject.metadata.creationTimestamp
}

with_created(condition) := condition if not input.request.oldObject.metadata.creationTimestamp

# reason is that of a condition; some have nothing but a message, or not even that.
reason(condition) := condition.reason if condition.reason != ""

reason(condition) := object.get(condition, "message", "") if {
	object.get(condition, "reason", "") == ""
	object.get(condition, "message", "") != ""
}

reason(condition) := "no reason given" if {
	object.get(condition, "reason", "") == ""
	object.get(condition, "message", "") == ""
}

# changed is since when a condition has its status, or at least was not written again; some
# do not say, or not in a way that can be read.
changed(condition) := [text |
	some key in ["lastTransitionTime", "lastUpdateTime"]
	text := condition[key]
	times.readable(text)
][0]

# bad is true of a condition whose type and status say that something is wrong: Ready
# and RouteTablesReady are False, Stalled and ProvisionFailed are True.
bad(condition) if {
	condition.status == "False"
	regex.match(hoped_for, condition.type)
}

bad(condition) if {
	condition.status == "True"
	regex.match(`(Stalled|Degraded|Failed|Failing|Failure|Error)$`, condition.type)
}

# hoped_for are the ends of types that are True while all is well.
hoped_for := `(Ready|Synced|Reconciled|Healthy|Available|Succeeded|Applied|Valid|Accepted|Programmed|Connected)$`

# failure are reasons that tell of an error, rather than of work that goes on.
failure := `(?i)error|fail|invalid|denied|forbidden|unauthori[sz]ed|auth|credential|notfound|missing|unreachable|^no reason given$`

told(condition) := sprintf("%s is %s since %s: %s: %s", [
	condition.type, condition.status, condition.lastTransitionTime,
	clean(condition.reason, 80), clean(object.get(condition, "message", ""), 300),
]) if {
	not condition.last
}

told(condition) := sprintf("Event from %s to %s: %s: %s", [
	condition.lastTransitionTime, condition.last,
	clean(condition.reason, 80), clean(object.get(condition, "message", ""), 300),
]) if {
	condition.last
}

# clean is text of others in one line, and no longer than that.
clean(text, limit) := substring(regex.replace(text, `[[:cntrl:]\s]+`, " "), 0, limit)
