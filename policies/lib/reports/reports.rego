# METADATA
# description: Statements of an object's status, and of Events about it, on its deletion.
package termguard.lib.reports

import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times

own := array.concat(
	object.get(input, "conditions", []),
	[event |
		some event in of(object.get(input.request, "namespace", ""), request.resource, request.name)
		event.last
	],
)

# of reads an object in a namespace.
of(ns, resource, name) := object.get(data.cluster.conditions, [ns, resource, name], [])

failures(list, ownership) := [object.union(said, {"how": how}) |
	some said in most(list)
	how := counts(said, ownership)
]

# quotes lists failures, then reports since the deletion began.
quotes(list) := array.slice(
	array.concat(
		[said | some said in most(list); wrong(said)],
		[said | some said in most(list); not wrong(said); recent(said); explains(said)],
	),
	0, 3,
)

# recent reports whether something was reported since the deletion began.
recent(said) if answers(said)

recent(said) if times.since(said.last) <= times.since(input.request.oldObject.metadata.deletionTimestamp)

# A definition reports that its objects are being deleted, which is no reason.
explains(said) if not reason(said) in {silent, "InstanceDeletionInProgress"}

saying(list) := "" if count(list) == 0

saying(list) := sprintf("; it reports %s: %s", [head(list[0]), clean(reason(list[0]), 60)]) if count(list) > 0

head(said) := said.status if said.type == "phase"

head(said) := said.type if said.type != "phase"

mending(list) := [steps.mend(sprintf("%s: %s", [seeing(list[0]), clean(quoted(list[0]), 250)]), [])] if count(list) > 0

mending(list) := [] if count(list) == 0

seeing(said) := "Fix the reported problem" if wrong(said)

seeing(said) := "Check what it reports" if not wrong(said)

# pods lists some failing pods that were made for the object, the newest first.
pods := [pod | some [_, pod] in array.slice(sort([[0 - of.created, pod] | some pod, of in failed]), 0, 3)]

failing := [sprintf("pod %s, made for it, fails: %s", [pod, clean(failed[pod].why, 80)]) | some pod in pods]

failed := object.get(data.cluster.failing, [object.get(input.request, "namespace", ""), request.resource, request.name], {})

# most bounds the reports of a foreign snapshot.
most(list) := array.slice([said | some said in list; said.lastTransitionTime], 0, 40)

wrong(said) if fails(said)

wrong(said) if blocked(said)

wrong(said) if warns(said)

# counts says how a report counts, if it does.
counts(said, ownership) := "a failure" if {
	fails(said)
	lasts(said, ownership)
} else := "a blocker" if {
	blocked(said)
	lasts(said, ownership)
} else := "no readiness since its creation" if {
	ownership.circumstantial
	never_ready(said)
	times.since(said.lastTransitionTime) > 120
} else := "a failure" if {
	warns(said)

	# A controller writes an Event for each failure, and none for a success.
	times.since(said.lastTransitionTime) - times.since(said.last) > patience(ownership)
	times.since(said.last) < 1800
}

# The failure of a finished run is about the run, not about its cleanup.
lasts(said, ownership) if {
	not said.ended
	times.since(said.lastTransitionTime) > patience(ownership)
}

lasts(said, _) if answers(said)

answers(said) if {
	not said.last
	times.since(said.lastTransitionTime) <= times.since(said.deleted)
}

# patience is in seconds: a controller that starts or retries passes through bad states. It is
# short for an owner that only its rights show.
patience(ownership) := 30 if ownership.circumstantial

patience(ownership) := 600 if not ownership.circumstantial

fails(said) if {
	said.status == "False"
	not regex.match(feared, said.type)
	mentions(said, failure)
}

# For these types a word about access is enough, and so is no reason at all.
fails(said) if {
	said.status == "False"
	regex.match(hoped_for, said.type)
	mentions(said, access)
}

fails(said) if {
	said.status == "False"
	regex.match(hoped_for, said.type)
	reason(said) == silent
	not answers(said)
}

fails(said) if {
	said.status == "True"
	regex.match(feared, said.type)
	mentions(said, concat("|", [failure, access, silent]))
}

# A phase instead of conditions.
fails(said) if {
	said.type == "phase"
	regex.match(failure, said.status)
}

fails(said) if {
	said.type == "phase"
	answers(said)
	admits(said)
}

blocked(said) if {
	said.status == "True"
	endswith(said.type, "Blocked")
}

warns(said) if {
	said.last
	said.status == "Warning"
	regex.match(concat("|", [failure, access, silent]), reason(said))
}

# mentions reports whether a reason has one of the words, or a message admits a failure.
mentions(said, words) if regex.match(words, regex.replace(reason(said), denial, ""))

mentions(said, _) if admits(said)

admits(said) if regex.match(sentence, regex.replace(object.get(said, "message", ""), denial, ""))

# unready reports whether an object was never good: what it failed to create needs no cleanup.
unready(list) if {
	early := [1 | some said in list; new(said)]
	count(early) > 0
	good := [1 | some said in list; said.status == "True"; regex.match(hoped_for, said.type)]
	count(good) == 0
}

# never_ready reports whether a condition from the creation has not been good since.
never_ready(said) if {
	said.status != "True"
	regex.match(`(Ready|Available|Healthy)$`, said.type)
	not regex.match(`Not[A-Z][a-z]+$`, said.type)
	new(said)
}

new(said) if times.since(said.created) - times.since(said.lastTransitionTime) < 60

# Some reports have only a message, or not even that.
default reason(_) := "no reason given"

reason(said) := said.reason

reason(said) := said.message if not said.reason

silent := reason({})

# hoped_for matches types that are True while all is well, and feared types that are False.
hoped_for := `(Ready|Synced|Reconciled|Healthy|Available|Succeeded|Applied|Valid|Accepted|Programmed|Connected)$`

feared := concat("", [
	`(?i)((un|dis|in|not)(healthy|available|ready|reachable|synced|connected|valid|known|found)`,
	`|stalled|degraded|fail(ed|ing|ures?)|errors?|blocked|denied|rejected|conflict(s|ed)?|missing|stuck`,
	`|paused|suspended|expired|pressure|exceeded|time(d_?)?out|lost|drift(ed)?|outofdate|restarting)$`,
])

# failure matches a reason, access missing rights, and sentence a message.
failure := `(?i)error|fail|invalid|denied|forbidden|unauthori[sz]ed|refused|rejected|notfound|missing|unreachable|time[d_]*out`

access := `(?i)auth|credential`

sentence := concat("", [
	`(?i)\b(errors?|failed|fails|failure|failing|cannot|could not|unable to|denied|forbidden|unauthori[sz]ed`,
	`|refused|timed out|timeout|unreachable|invalid|no such|not found|does not exist)\b`,
])

# denial matches words that negate a failure.
denial := `(?i)\b(no|not|non|without|zero|0|never)[ _-]?(\w+ )?(errors?|fail\w*|invalid|missing|denied|rejected)\w*`

quoted(said) := sprintf("%s is %s since %s%s", [said.type, said.status, said.lastTransitionTime, because(said)]) if {
	not said.last
}

quoted(said) := sprintf("Event from %s to %s%s", [said.lastTransitionTime, said.last, because(said)]) if said.last

because(said) := concat("", [sprintf(": %s", [clean(text, limit)]) |
	some [key, limit] in [["reason", 80], ["message", 300]]
	text := said[key]
])

# clean is foreign text in one bounded line.
clean(text, limit) := substring(trim_space(regex.replace(text, `[[:cntrl:]\s]+`, " ")), 0, limit)
