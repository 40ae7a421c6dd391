# METADATA
# description: >-
#   What holds for every policy: its input and the facts have the shapes that
#   schema/ describes, so that the type checker finds a misspelt path.
# scope: subpackages
# schemas:
#   - input: schema["input.schema"]
#   - data.cluster: schema["cluster.schema"]
package termguard
