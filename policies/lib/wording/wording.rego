# METADATA
# description: Words that agree with a number.
package termguard.lib.wording

# Only resources of the core group have a singular.
counted(n, resource) := sprintf("1 %s", [trim_suffix(resource, "s")]) if {
	n == 1
	not contains(resource, ".")
} else := sprintf("%d %s", [n, resource])

plural(1, one, _) := one

plural(n, _, many) := many if n != 1
