# METADATA
# description: Words that agree with a number.
package termguard.lib.wording

# counted is so many objects of a resource. Only one of Kubernetes' first group has a name
# that is a word, and so a singular.
counted(n, resource) := sprintf("1 %s", [trim_suffix(resource, "s")]) if {
	n == 1
	not contains(resource, ".")
} else := sprintf("%d %s", [n, resource])

# plural is the word for so many.
plural(1, one, _) := one

plural(n, _, many) := many if n != 1
