# METADATA
# description: How long pods may take to stop.
package termguard.lib.grace

import data.termguard.lib.request
import data.termguard.lib.times

# requested is the grace period that the request names, in seconds.
requested contains input.request.options.gracePeriodSeconds if request.deleting

requested contains input.request.object.deleteOptions.gracePeriodSeconds if request.evicting

# asked is the grace period that counts for a pod, in seconds: that of the request;
# its own, if the request names none. The API server takes a negative one for 1
# (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
asked(spec) := positive(seconds) if {
	some seconds in requested
} else := positive(own(spec))

# own is the grace period of a pod itself, in seconds.
own(spec) := seconds if {
	seconds := spec.terminationGracePeriodSeconds
	is_number(seconds)
} else := 30

positive(seconds) := seconds if {
	seconds >= 0
} else := 1

# minimum is what the kubelet leaves a container after its hook or its wait, in
# seconds (pkg/kubelet/kuberuntime/kuberuntime_container.go,
# minimumGracePeriodInSeconds).
minimum := 2

# stops is the upper bound, in seconds, for the containers of a pod to stop with
# a grace period (killContainer): hooks are part of it, and so is the time that
# a sidecar waits for the others. Idle containers, a set of names, do not run.
# The facts do the same for whole namespaces (podsByGrace); TestGrace holds the two
# together.
stops(spec, seconds, idle) := max(array.concat([seconds, minimum], late(spec, seconds, idle)))

# late are the seconds after which containers that start to stop late are gone.
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

# hook is how long a preStop hook may take, in seconds.
hook(container, seconds) := sleep if {
	sleep := container.lifecycle.preStop.sleep.seconds
	is_number(sleep)
} else := seconds

# slowest is the longest that the pods of the namespace under review take to stop,
# in seconds.
slowest := max([to_number(key) | some key, _ in data.cluster.podsByGrace[request.name]]) if request.deletes_namespace

# patience is what a deletion may take beyond its grace period, in seconds: the
# kubelet and the namespace controller back off.
patience := 60

# overdue are, of pods that leave a node or a namespace, those that should have been
# gone for longer than that.
overdue(leaving) := [pod |
	some pod in leaving.pods
	times.since(pod.deadline) > patience
]
