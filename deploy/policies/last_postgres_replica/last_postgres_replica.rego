# METADATA
# title: Last running replica of a Postgres
# description: >-
#   Deleting the only running pod of a database stops the database until another runs.
#   Pods of Postgres have the label app.kubernetes.io/name=postgresql, or cnpg.io/cluster
#   of CloudNativePG.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/workloads/pods/disruptions/
#     description: The limits of a PodDisruptionBudget.
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
#     Whether the other replica is ready, and has caught up. Use a PodDisruptionBudget for
#     evictions, as in a drain.
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
