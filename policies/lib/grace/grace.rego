# METADATA
# description: How long pods may take to stop.
package termguard.lib.grace

import data.termguard.lib.request
import data.termguard.lib.times

requested contains input.request.options.gracePeriodSeconds if request.deleting

requested contains input.request.object.deleteOptions.gracePeriodSeconds if request.evicting

# effective is the request's grace period, or the pod's own, in seconds. A negative one is 1
# (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
effective(spec) := positive(seconds) if {
	some seconds in requested
} else := positive(own(spec))

own(spec) := seconds if {
	seconds := spec.terminationGracePeriodSeconds
	is_number(seconds)
} else := 30

positive(seconds) := seconds if {
	seconds >= 0
} else := 1

# minimum is in seconds (pkg/kubelet/kuberuntime/kuberuntime_container.go,
# minimumGracePeriodInSeconds).
minimum := 2

# stops is an upper bound in seconds (killContainer). Hooks and a sidecar's wait for the others
# are part of the grace period. Idle containers do not run. The facts compute the same
# (podsByGrace); TestGrace compares the two.
stops(spec, seconds, idle) := max(array.concat([seconds, minimum], late(spec, seconds, idle)))

late(spec, seconds, idle) := array.concat(
	[stop |
		some container in spec.containers
		container.lifecycle.preStop
		not container.name in idle
		stop := min([seconds, hook(container, seconds)]) + minimum
	],
	[stop |
		some container in spec.initContainers
		container.restartPolicy == "Always" # a sidecar, which waits for the others
		stop := seconds + minimum
	],
)

hook(container, seconds) := sleep if {
	sleep := container.lifecycle.preStop.sleep.seconds
	is_number(sleep)
} else := seconds

# slowest is the longest time of a pod of the namespace under review, in seconds.
slowest := max([to_number(key) | some key, _ in data.cluster.podsByGrace[request.name]]) if request.deletes_namespace

# patience is in seconds beyond the grace period: the kubelet and the namespace controller back
# off.
patience := 60

# overdue lists the Terminating pods past that.
overdue(leaving) := [pod |
	some pod in leaving.pods
	times.since(pod.deadline) > patience
]
