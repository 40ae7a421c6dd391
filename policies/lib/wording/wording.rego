# METADATA
# description: Words that agree with a number.
package termguard.lib.wording

# counted is a number of objects of a resource. Only resources of the core group have a name
# with a singular.
counted(n, resource) := sprintf("1 %s", [trim_suffix(resource, "s")]) if {
	n == 1
	not contains(resource, ".")
} else := sprintf("%d %s", [n, resource])

# plural is the word for a number of things.
plural(1, one, _) := one

plural(n, _, many) := many if n != 1
