# METADATA
# title: Nothing is deleted in a change freeze
# description: >-
#   Between two dates, only one group deletes namespaces, workloads and claims.
#   data.params["change-freeze"] has the dates and the group: from and until, such as
#   2026-12-18T00:00:00Z, and group. Without from and until, the freeze is from December
#   18 to the end of each year.
# related_resources:
#   - ref: https://www.openpolicyagent.org/docs/policy-reference/builtins/time
#     description: Days and times in Rego.
# custom:
#   id: change-freeze
#   severity: medium
#   triggers: [delete]
#   resources: [namespaces, persistentvolumeclaims, deployments.apps, statefulsets.apps, daemonsets.apps]
#   remedy: >-
#     Wait until the freeze is over, or let a member of the group delete it.
#   limits: >-
#     Controllers continue: the policy applies to people only.
package termguard.change_freeze

import data.termguard.lib.request

settings := object.get(data.params, "change-freeze", {})

now := time.parse_rfc3339_ns(data.cluster.now)

frozen if {
	now >= time.parse_rfc3339_ns(settings.from)
	now < time.parse_rfc3339_ns(settings.until)
}

frozen if {
	not settings.from
	[_, month, day] := time.date(now)
	month == 12
	day >= 18
}

deny contains finding if {
	request.deleting
	request.person
	frozen
	group := object.get(settings, "group", "sre")
	not group in object.get(input.request.userInfo, "groups", [])
	finding := {
		"kind": "forbidden",
		"msg": sprintf("%s is not deleted in the change freeze; group %s may", [request.word, group]),
		"objects": [request.target],
		"evidence": [sprintf("it is %s", [data.cluster.now])],
	}
}
