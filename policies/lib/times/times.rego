# METADATA
# description: Times and durations. The current time is a fact.
package termguard.lib.times

since(time_of) := floor((time.parse_rfc3339_ns(data.cluster.now) - time.parse_rfc3339_ns(time_of)) / 1000000000)

# readable reports whether since can parse a time: an operator may write any text, and a parse
# error ends the policy. The years are those of nanoseconds.
readable(text) if regex.match(sprintf("^(%s|%s)T%s$", [days, leap_days, hours]), text)

days := `(19|20|21)\d\d-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))`

leap_days := `((19|20|21)(0[48]|[2468][048]|[13579][26])|2000)-02-29`

hours := `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`

duration(seconds) := sprintf("%d s", [seconds]) if seconds < 120

duration(seconds) := sprintf("%d minutes", [floor(seconds / 60)]) if {
	seconds >= 120
	seconds < 7200
}

duration(seconds) := sprintf("%d hours", [floor(seconds / 3600)]) if {
	seconds >= 7200
	seconds < 864000
}

duration(seconds) := sprintf("%d days", [floor(seconds / 86400)]) if seconds >= 864000
