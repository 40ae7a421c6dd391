# METADATA
# title: Last running replica of a Postgres
# description: >-
#   To delete the only running pod of a database takes the database away until another
#   runs. Pods of Postgres are those with the label app.kubernetes.io/name=postgresql, or
#   cnpg.io/cluster of CloudNativePG.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/workloads/pods/disruptions/
#     description: What a PodDisruptionBudget holds up, and what it does not.
# custom:
#   id: last-postgres-replica
#   severity: high
#   triggers: [delete]
#   resources: [pods]
#   relies_on:
#     - kinds: [pods]
#   remedy: >-
#     Wait until another replica runs, or fail over first.
#   limits: >-
#     Whether the other replica is ready, and has caught up. Evictions, as of a drain, are a
#     matter for a PodDisruptionBudget.
package termguard.last_postgres_replica

import data.termguard.lib.request

postgres if input.request.oldObject.metadata.labels["app.kubernetes.io/name"] == "postgresql"

postgres if input.request.oldObject.metadata.labels["cnpg.io/cluster"]

deny contains finding if {
	request.deleting
	postgres
	siblings := data.cluster.pods[request.namespace]
	mine := siblings[request.name]
	mine.phase == "Running"
	others := [name |
		some name, pod in siblings
		name != request.name
		pod.workload == mine.workload
		pod.phase == "Running"
		object.get(pod, "deletionTimestamp", "") == ""
	]
	count(others) == 0
	finding := {
		"kind": "forbidden",
		"msg": sprintf("%s is the last running replica of %s", [request.word, mine.workload]),
		"objects": [request.target],
	}
}
