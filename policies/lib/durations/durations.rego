# METADATA
# description: How long owners of finalizers took to remove them, as far as that was seen.
package termguard.lib.durations

# of is how long it took in a namespace; what was seen in several counts in all.
of(finalizer, resource, ns) := seen if {
	seen := data.cluster.durations[finalizer][resource][ns]
} else := data.cluster.durations[finalizer][resource][""]

# told is that in words; nothing where it was not seen.
told(finalizer, resource, ns) := [sprintf(
	"finalizer %s was removed from %d %s before, usually within %d s, within %d s at most",
	[finalizer, seen.count, resource, seen.usualSeconds, seen.longestSeconds],
) |
	seen := of(finalizer, resource, ns)
]

# patience is the longest that an owner may take before it counts as stuck, in
# seconds: three times what was seen, and no less than two minutes, in which an owner
# may start anew. Less than three objects are no measure.
patience(finalizer, resource, ns) := max([120, seen.longestSeconds * 3]) if {
	seen := of(finalizer, resource, ns)
	seen.count >= 3
}
