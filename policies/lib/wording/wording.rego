# METADATA
# description: Words that agree with a number.
package termguard.lib.wording

# plural is the word for so many.
plural(1, one, _) := one

plural(n, _, many) := many if n != 1
