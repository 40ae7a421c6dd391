# METADATA
# description: Observed times that owners took to remove their finalizers.
package termguard.lib.durations

# of is the time observed in a namespace, or otherwise in all namespaces together.
of(finalizer, resource, ns) := seen if {
	seen := data.cluster.durations[finalizer][resource][ns]
} else := data.cluster.durations[finalizer][resource][""]

# evidence is the observed time as evidence; empty if none was observed.
evidence(finalizer, resource, ns) := [sprintf(
	"finalizer %s was removed from %d %s before, usually within %d s, at most %d s",
	[finalizer, seen.count, resource, seen.usualSeconds, seen.longestSeconds],
) |
	seen := of(finalizer, resource, ns)
]

# patience is the number of seconds after which an owner counts as stuck: three times the
# longest time observed on at least three objects, and at least two minutes, in which an owner
# may restart.
patience(finalizer, resource, ns) := max([120, seen.longestSeconds * 3]) if {
	seen := of(finalizer, resource, ns)
	seen.count >= 3
}
