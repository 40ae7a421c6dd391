# METADATA
# description: What an object's status and Events about it say of its deletion, in their writers' own words.
package termguard.lib.reports

import data.termguard.lib.request
import data.termguard.lib.steps
import data.termguard.lib.times

# own are what the status of the object under review says, and Events about it.
own := array.concat(
	object.get(input, "conditions", []),
	[event |
		some event in of(object.get(input.request, "namespace", ""), request.resource, request.name)
		event.last
	],
)

# of is the same of an object in a namespace, as far as it was read.
of(ns, resource, name) := object.get(data.cluster.conditions, [ns, resource, name], [])

# failures are the reports that have said for a while that an owner fails.
failures(list, ownership) := [object.union(said, {"how": how}) |
	some said in most(list)
	how := counts(said, ownership)
]

# quotes are what an object that is being deleted says of that: first what fails, then what it
# has said since its deletion began.
quotes(list) := array.slice(
	array.concat(
		[said | some said in most(list); wrong(said)],
		[said | some said in most(list); not wrong(said); answers(said); explains(said)],
	),
	0, 3,
)

explains(said) if reason(said) != silent

# saying goes behind a message that tells no cause.
saying(quoted) := "" if count(quoted) == 0

saying(quoted) := sprintf("; it says %s: %s", [head(quoted[0]), clean(reason(quoted[0]), 60)]) if count(quoted) > 0

head(said) := said.status if said.type == "phase"

head(said) := said.type if said.type != "phase"

# mending is the step that comes before any look into a log.
mending(quoted) := [steps.mend(sprintf("See to what it says: %s", [clean(told(quoted[0]), 250)]), [])] if count(quoted) > 0

mending(quoted) := [] if count(quoted) == 0

# most bounds the reports that are read: the facts bound them, a snapshot of a stranger need not.
most(list) := array.slice([said | some said in list; said.lastTransitionTime], 0, 40)

wrong(said) if fails(said)

wrong(said) if blocked(said)

wrong(said) if warns(said)

# counts tells how a report counts, if it does.
counts(said, ownership) := "that it fails" if {
	fails(said)
	lasts(said, ownership)
} else := "that it is blocked" if {
	blocked(said)
	lasts(said, ownership)
} else := "that it is not ready, since it was created" if {
	ownership.circumstantial
	never_ready(said)
	times.since(said.lastTransitionTime) > 120
} else := "that it fails" if {
	warns(said)

	# A controller writes an Event each time that it fails, and none when it does not any more.
	times.since(said.lastTransitionTime) - times.since(said.last) > patience(ownership)
	times.since(said.last) < 1800
}

# lasts is true of what an owner has said for long enough, or says of the deletion itself. That
# a run has failed is about the run, not about who cleans up after it.
lasts(said, ownership) if {
	not said.ended
	times.since(said.lastTransitionTime) > patience(ownership)
}

lasts(said, _) if answers(said)

# answers is true of what was said since the deletion began.
answers(said) if {
	not said.last
	times.since(said.lastTransitionTime) <= times.since(said.deleted)
}

# patience is how long a condition may be bad before it counts, in seconds: a
# controller that starts, or retries, passes through bad states. Who is taken for the
# owner by its rights alone is not known to do its work: nothing else speaks for it.
patience(ownership) := 30 if ownership.circumstantial

patience(ownership) := 600 if not ownership.circumstantial

# fails is true of a report that tells of an error, rather than of work that goes on.
fails(said) if {
	said.status == "False"
	not regex.match(feared, said.type)
	tells(said, failure)
}

# Of what most controllers mean by these types, a word about access is enough, and so is none.
fails(said) if {
	said.status == "False"
	regex.match(hoped_for, said.type)
	tells(said, access)
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
	tells(said, concat("|", [failure, access, silent]))
}

# Where there are no conditions.
fails(said) if {
	said.type == "phase"
	regex.match(failure, said.status)
}

fails(said) if {
	said.type == "phase"
	answers(said)
	admits(said)
}

# blocked is true of a condition that says by its type that something is in the way.
blocked(said) if {
	said.status == "True"
	endswith(said.type, "Blocked")
}

# warns is true of Events about a failure.
warns(said) if {
	said.last
	regex.match(concat("|", [failure, access, silent]), reason(said))
}

# tells is true where a reason has one of the words, or a message admits a failure.
tells(said, words) if regex.match(words, regex.replace(reason(said), denial, ""))

tells(said, _) if admits(said)

admits(said) if regex.match(sentence, regex.replace(object.get(said, "message", ""), denial, ""))

# unready is true of an object that, as far as it says, was not good for a moment since it was
# created: what it failed at then need not be there to be cleaned up.
unready(list) if {
	early := [1 | some said in list; new(said)]
	count(early) > 0
	good := [1 | some said in list; said.status == "True"; regex.match(hoped_for, said.type)]
	count(good) == 0
}

# never_ready is true of a condition that the owner wrote while it took the object in
# hand, within a minute, and that has not been good since.
never_ready(said) if {
	said.status != "True"
	regex.match(`(Ready|Available|Healthy)$`, said.type)
	not regex.match(`Not[A-Z][a-z]+$`, said.type)
	new(said)
}

new(said) if times.since(said.created) - times.since(said.lastTransitionTime) < 60

# reason is that of a report; some have nothing but a message, or not even that.
default reason(_) := "no reason given"

reason(said) := said.reason

reason(said) := said.message if not said.reason

silent := reason({})

# hoped_for are the ends of types that are True while all is well, and feared of those that
# are False.
hoped_for := `(Ready|Synced|Reconciled|Healthy|Available|Succeeded|Applied|Valid|Accepted|Programmed|Connected)$`

feared := concat("", [
	`(?i)((un|dis|in|not)(healthy|available|ready|reachable|synced|connected|valid|known|found)`,
	`|stalled|degraded|fail(ed|ing|ures?)|errors?|blocked|denied|rejected|conflict(s|ed)?|missing|stuck`,
	`|paused|suspended|expired|pressure|exceeded|time(d_?)?out|lost|drift(ed)?|outofdate|restarting)$`,
])

# failure are words of an error in a reason, access those of a lack of rights, and sentence
# what tells of an error in a message.
failure := `(?i)error|fail|invalid|denied|forbidden|unauthori[sz]ed|refused|rejected|notfound|missing|unreachable|time[d_]*out`

access := `(?i)auth|credential`

sentence := concat("", [
	`(?i)\b(errors?|failed|fails|failure|failing|cannot|could not|unable to|denied|forbidden|unauthori[sz]ed`,
	`|refused|timed out|timeout|unreachable|invalid|no such|not found|does not exist)\b`,
])

# denial are words that say of a failure that there is none.
denial := `(?i)\b(no|not|non|without|zero|0|never)[ _-]?(\w+ )?(errors?|fail\w*|invalid|missing|denied|rejected)\w*`

# told is a report as evidence.
told(said) := sprintf("%s is %s since %s%s", [said.type, said.status, said.lastTransitionTime, because(said)]) if {
	not said.last
}

told(said) := sprintf("Event from %s to %s%s", [said.lastTransitionTime, said.last, because(said)]) if said.last

because(said) := concat("", [sprintf(": %s", [clean(text, limit)]) |
	some [key, limit] in [["reason", 80], ["message", 300]]
	text := said[key]
])

# clean is text of others in one line, and no longer than that.
clean(text, limit) := substring(trim_space(regex.replace(text, `[[:cntrl:]\s]+`, " ")), 0, limit)
