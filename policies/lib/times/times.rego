# METADATA
# description: Times and durations. What time it is now is a fact.
package termguard.lib.times

# since is how long ago a time was, in seconds.
since(time_of) := floor((time.parse_rfc3339_ns(data.cluster.now) - time.parse_rfc3339_ns(time_of)) / 1000000000)

# duration is so many seconds in words.
duration(seconds) := sprintf("%d s", [seconds]) if seconds < 120

duration(seconds) := sprintf("%d minutes", [floor(seconds / 60)]) if {
	seconds >= 120
	seconds < 7200
}

duration(seconds) := sprintf("%d hours", [floor(seconds / 3600)]) if seconds >= 7200
