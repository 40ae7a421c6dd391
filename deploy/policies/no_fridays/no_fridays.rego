# METADATA
# title: No deletion of a namespace before the weekend
# description: >-
#   A mistake on a Friday is noticed on a Saturday, when no one is there to restore the
#   namespace. The days are in data.params["no-fridays"].days, in UTC; Friday, Saturday
#   and Sunday by default.
# related_resources:
#   - ref: https://www.openpolicyagent.org/docs/policy-reference/builtins/time
#     description: Days and times in Rego.
# custom:
#   id: no-fridays
#   severity: medium
#   triggers: [delete]
#   resources: [namespaces]
#   remedy: >-
#     Delete it on Monday. If it cannot wait, annotate the namespace with
#     termguard.dev/allow-hang and the reason.
#   limits: >-
#     Time zones: a Friday evening in Honolulu is a Saturday here.
package termguard.no_fridays

import data.termguard.lib.request

deny contains finding if {
	request.deletes_namespace
	day := time.weekday(time.parse_rfc3339_ns(data.cluster.now))
	day in object.get(data.params, ["no-fridays", "days"], ["Friday", "Saturday", "Sunday"])
	finding := {
		"kind": "forbidden",
		"msg": sprintf("namespace %s is not deleted on a %s", [request.name, day]),
		"objects": [request.target],
		"evidence": [sprintf("it is %s", [data.cluster.now])],
	}
}
