# METADATA
# title: Pods with a long grace period
# description: >-
#   The pods may take their whole grace period to stop, and 2 seconds more if a preStop
#   hook uses it up. Their namespace waits for the slowest of them, and so does a drain.
#   The policy reports grace periods of at least data.params["long-grace-period"].seconds,
#   300 by default.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
#     description: How a pod is stopped.
#   - ref: https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kuberuntime/kuberuntime_container.go
#     description: The arithmetic (killContainer, minimumGracePeriodInSeconds).
# custom:
#   id: long-grace-period
#   aliases: [slow-termination]
#   severity: info
#   triggers: [apply]
#   resources:
#     [pods, deployments.apps, statefulsets.apps, daemonsets.apps, replicasets.apps, replicationcontrollers, jobs.batch, cronjobs.batch]
#   needs: [input.request.object.spec.**.terminationGracePeriodSeconds over 299, data.params.long-grace-period.seconds]
#   remedy: >-
#     If the program needs that long to finish its work, keep it: deletes finish by
#     themselves, late. Otherwise let the program end on TERM, shorten the preStop hook,
#     and set a smaller terminationGracePeriodSeconds.
#   limits: >-
#     The grace period is an upper bound. The real time depends on the program.
package termguard.long_grace_period

import data.termguard.lib.grace
import data.termguard.lib.request
import data.termguard.lib.template

warn contains {
	"msg": sprintf("a delete may wait up to %d s for %s: the grace period is %d s", [stops, template.pods, period]),
	"objects": [request.target],
	"evidence": [sprintf("container %s has a preStop hook, which runs within the grace period", [name]) | some name in hooks],
	"estimate_seconds": stops,
	"field": sprintf("%s.terminationGracePeriodSeconds", [template.pod_path]),
} if {
	period >= threshold
}

threshold := object.get(data.params, ["long-grace-period", "seconds"], 300)

period := template.pod_spec.terminationGracePeriodSeconds if is_number(template.pod_spec.terminationGracePeriodSeconds)

stops := grace.stops(template.pod_spec, period, set())

hooks contains container.name if {
	some container in template.containers
	container.lifecycle.preStop
}
