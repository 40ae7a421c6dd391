# METADATA
# title: Production needs a change
# description: >-
#   In namespaces with the label example.com/env=production, people delete only with a
#   change number in the annotation example.com/change, such as CHG-1234.
# related_resources:
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
#     description: The requests of admission webhooks.
# custom:
#   id: change-ticket
#   severity: medium
#   triggers: [delete]
#   resources: [namespaces]
#   remedy: >-
#     Open a change, annotate the namespace with its number, and delete it then.
#   limits: >-
#     Whether the change was approved. The policy applies to people and to the namespace
#     itself: policies see only the labels of the deleted object.
package termguard.change_ticket

import data.termguard.lib.request

deny contains finding if {
	request.deletes_namespace
	request.person
	input.request.oldObject.metadata.labels["example.com/env"] == "production"
	change := object.get(input.request.oldObject.metadata, ["annotations", "example.com/change"], "")
	not regex.match(`^CHG-[0-9]+$`, change)
	finding := {
		"kind": "forbidden",
		"msg": sprintf("namespace %s is production: annotate it with example.com/change, as in CHG-1234", [request.name]),
		"objects": [request.target],
		"evidence": [sprintf("example.com/change is %q", [change])],
		"field": "metadata.labels",
	}
}
