# METADATA
# title: Only the owning team deletes its namespace
# description: >-
#   The label example.com/team of a namespace names the group whose members may delete it.
#   Service accounts are exempt: the software that deploys for a team is not in its group.
# related_resources:
#   - ref: https://kubernetes.io/docs/reference/access-authn-authz/authentication/
#     description: The groups of a user.
# custom:
#   id: owning-team
#   severity: high
#   triggers: [delete]
#   resources: [namespaces]
#   remedy: >-
#     Let a member of the team in the label delete it.
#   limits: >-
#     A user who may change the label of the namespace may delete it, too: protect the
#     label with RBAC or an admission policy.
package termguard.owning_team

import data.termguard.lib.request

deny contains finding if {
	request.deletes_namespace
	request.person
	team := input.request.oldObject.metadata.labels["example.com/team"]
	not team in object.get(input.request.userInfo, "groups", [])
	finding := {
		"kind": "forbidden",
		"msg": sprintf("namespace %s belongs to team %s, and you are not in that group", [request.name, team]),
		"objects": [request.target],
		"evidence": [sprintf("label example.com/team: %s", [team])],
		"field": "metadata.labels",
	}
}
