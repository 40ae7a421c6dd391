# METADATA
# description: How long pods may take to stop.
package termguard.lib.grace

import data.termguard.lib.request
import data.termguard.lib.times

# requested is the grace period in the request, in seconds.
requested contains input.request.options.gracePeriodSeconds if request.deleting

requested contains input.request.object.deleteOptions.gracePeriodSeconds if request.evicting

# effective is the grace period that applies to a pod, in seconds: that of the request, or
# otherwise the pod's own. The API server treats a negative one as 1
# (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
effective(spec) := positive(seconds) if {
	some seconds in requested
} else := positive(own(spec))

# own is the grace period in the pod's spec, in seconds.
own(spec) := seconds if {
	seconds := spec.terminationGracePeriodSeconds
	is_number(seconds)
} else := 30

positive(seconds) := seconds if {
	seconds >= 0
} else := 1

# minimum is the number of seconds that the kubelet gives a container after its hook or its wait
# (pkg/kubelet/kuberuntime/kuberuntime_container.go, minimumGracePeriodInSeconds).
minimum := 2

# stops is the upper bound, in seconds, for the containers of a pod to stop (killContainer).
# Hooks and the time that a sidecar waits for the others are part of the grace period. Idle
# containers, a set of names, do not run. The facts compute the same for whole namespaces
# (podsByGrace); TestGrace compares the two.
stops(spec, seconds, idle) := max(array.concat([seconds, minimum], late(spec, seconds, idle)))

# late lists the seconds after which containers with a hook or a wait have stopped.
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

# hook is the longest time of a preStop hook, in seconds.
hook(container, seconds) := sleep if {
	sleep := container.lifecycle.preStop.sleep.seconds
	is_number(sleep)
} else := seconds

# slowest is the longest time that a pod of the namespace under review takes to stop, in
# seconds.
slowest := max([to_number(key) | some key, _ in data.cluster.podsByGrace[request.name]]) if request.deletes_namespace

# patience is how long a deletion may take beyond its grace period, in seconds: the kubelet and
# the namespace controller back off.
patience := 60

# overdue lists the Terminating pods of a node or a namespace whose deadline passed longer ago
# than that.
overdue(leaving) := [pod |
	some pod in leaving.pods
	times.since(pod.deadline) > patience
]
