# METADATA
# description: Observed times that owners took to remove their finalizers.
package termguard.lib.durations

# of is the time in a namespace, or else in all.
of(finalizer, resource, ns) := seen if {
	seen := data.cluster.durations[finalizer][resource][ns]
} else := data.cluster.durations[finalizer][resource][""]

evidence(finalizer, resource, ns) := [sprintf(
	"finalizer %s was removed from %d %s before, usually within %d s, at most %d s",
	[finalizer, seen.count, resource, seen.usualSeconds, seen.longestSeconds],
) |
	seen := of(finalizer, resource, ns)
]

# patience is in seconds: three times the longest time of at least three objects, and two minutes
# for a restart.
patience(finalizer, resource, ns) := max([120, seen.longestSeconds * 3]) if {
	seen := of(finalizer, resource, ns)
	seen.count >= 3
}
