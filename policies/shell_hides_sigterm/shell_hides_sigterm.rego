# METADATA
# title: Shell that keeps TERM from the program
# description: >-
#   The container starts as a shell with a script that does not exec its program. Then
#   the shell may be PID 1: it neither ends on TERM, for the kernel spares PID 1 the
#   default action of a signal, nor passes it on. Every stop then takes the whole grace
#   period and ends with KILL. Some shells exec the last simple command of a script by
#   themselves (bash, busybox), others never do (dash, which is sh on Debian and Ubuntu).
# related_resources:
#   - ref: https://man7.org/linux/man-pages/man7/pid_namespaces.7.html
#     description: Signals without a handler do not reach PID 1 of a namespace.
#   - ref: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
#     description: TERM, then KILL at the end of the grace period.
# custom:
#   id: shell-hides-sigterm
#   severity: low
#   triggers: [apply]
#   resources: [pods, deployments.apps, statefulsets.apps, daemonsets.apps, replicasets.apps, replicationcontrollers]
#   remedy: >-
#     Write exec before the last command of the script, so that the program becomes
#     PID 1 and gets TERM, or trap TERM in the script. A program that cannot run as
#     PID 1 wants an init such as tini, or shareProcessNamespace: true.
#   limits: >-
#     Scripts in images and ConfigMaps. Which shell the image has, and whether it execs
#     the last command by itself. Containers that finish by themselves are left out.
package termguard.shell_hides_sigterm

import data.termguard.lib

warn contains {
	"msg": sprintf(
		"container %s starts as a shell that may keep TERM from its program: stopping takes the whole %d s",
		[container.name, grace],
	),
	"objects": [lib.target],
	"evidence": [sprintf("%s -c, without exec or trap: %s", [shell, shortened])],
	"field": field(path, container),
} if {
	grace > 5
	not lib.pod_spec.shareProcessNamespace == true
	object.get(lib.pod_spec, "restartPolicy", "Always") == "Always"
	some path, container in lib.containers
	contains(path, ".containers[")
	not container.lifecycle.preStop # somebody has thought of stopping it
	[shell, text] := script(container)
	not regex.match(`(^|[\s;&|({])(exec|trap)\s|^\s*exit\b`, text)
	stays(shell, text)
	shortened := substring(regex.replace(text, `\s+`, " "), 0, 60)
}

default grace := 30

grace := lib.pod_spec.terminationGracePeriodSeconds if is_number(lib.pod_spec.terminationGracePeriodSeconds)

# script is the shell that a container starts as, and what it runs.
script(container) := [shell, after[0]] if {
	words := lib.starts(container)
	count(words) > 2
	shell := regex.find_n(`[^/]*$`, words[0], 1)[0]
	shell in {"sh", "bash", "ash", "dash", "busybox"}
	some i in [1, 2]
	regex.match(`^-[a-z]*c$`, words[i])
	every option in array.slice(words, 1, i) {
		regex.match(`^(-[a-z]+|sh|ash|pipefail)$`, option)
	}

	# Options may follow -c too: sh -c -- SCRIPT.
	after := [word | some j, word in words; j > i; not regex.match(`^(-[a-z]+|--|pipefail)$`, word)]
}

# stays is true where the shell lives on: bash execs the last command of a list.
stays(shell, _) if shell != "bash"

stays("bash", text) if regex.match(`[^&]&\s*$|&\s*\n|[^|]\||\b(while|until|for|wait|done|fi)\b|[^;];\s*$`, text)

# field is where the script stands.
field(path, container) := sprintf("%s.args", [path]) if count(lib.words(container, "args")) > 0

field(path, container) := sprintf("%s.command", [path]) if count(lib.words(container, "args")) == 0
