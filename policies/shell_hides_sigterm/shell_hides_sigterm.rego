# METADATA
# title: Shell that keeps TERM from the program
# description: >-
#   The container starts as a shell with a script that does not exec its program, so the
#   shell is PID 1. It does not end on TERM, because the kernel spares PID 1 the default
#   action of a signal, and it does not forward TERM. Every stop then takes the whole
#   grace period and ends with KILL. A shell always waits for loops and pipelines itself.
#   bash and busybox exec the last simple command of a script; dash (sh on Debian and
#   Ubuntu) does not, which is reported only if the image shows which shell it has. The
#   same is true of sleep, tail and the web server of python as PID 1, and of inline
#   programs for python and node without a handler.
# related_resources:
#   - ref: https://man7.org/linux/man-pages/man7/pid_namespaces.7.html
#     description: Signals without a handler do not reach PID 1 of a namespace.
#   - ref: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
#     description: TERM, then KILL at the end of the grace period.
# custom:
#   id: shell-hides-sigterm
#   aliases: [slow-termination]
#   severity: info
#   triggers: [apply]
#   resources: [pods, deployments.apps, statefulsets.apps, daemonsets.apps, replicasets.apps, replicationcontrollers]
#   needs:
#     - input.request.object.spec.**.containers.*.command.* with sh or busybox or sleep or tail or python or node
#     - input.request.object.spec.**.containers.*.args.* with sh or busybox or sleep or tail or python or node
#   remedy: >-
#     Write exec before the last command of the script, so that the program becomes PID 1
#     and gets TERM. A script that only waits or loops needs a trap, which a shell runs
#     during a wait: trap exit TERM; sleep infinity & wait. A program for python or node
#     needs a handler: signal.signal(signal.SIGTERM, ...), process.on("SIGTERM", ...). One
#     that cannot run as PID 1 needs an init such as tini, or shareProcessNamespace: true.
#   limits: >-
#     Scripts and programs in images and ConfigMaps, scripts with more than 16
#     here-documents, handlers that a library sets, and the entry point of an image before
#     the shell. Containers that finish by themselves are excluded.
package termguard.shell_hides_sigterm

import data.termguard.lib.grace
import data.termguard.lib.request
import data.termguard.lib.template

warn contains {
	"msg": sprintf(
		"TERM does not end container %s of %s, which starts as %s: stopping may take the whole %d s",
		[container.name, request.word, started.as, period],
	),
	"objects": [request.target],
	"evidence": [started.how, started.why],
	"field": field(path, container),
} if {
	period > 5
	not template.pod_spec.shareProcessNamespace == true
	not template.pod_spec.hostPID == true # the container is not PID 1
	object.get(template.pod_spec, "restartPolicy", "Always") == "Always"
	some path, container in template.containers
	contains(path, ".containers[")
	not stopped(container)
	started := starts(container)
}

# stopped reports whether a preStop hook may stop a container.
stopped(container) if {
	hook := container.lifecycle.preStop
	not hook.sleep
	not waits(hook)
}

waits(hook) if {
	hook.exec
	said := concat(" ", [word | some word in hook.exec.command; is_string(word)])
	text := regex.replace(said, `^(/(usr/)?bin/)?(ba|da|a)?sh -[a-z]*c `, "")
	every part in regex.split(`&&|[;&\n]`, text) {
		regex.match(`^\s*((/(usr/)?bin/)?(sleep|echo|true|date)\b.*)?$`, part)
	}
}

starts(container) := {"as": "a shell", "how": how, "why": why} if {
	started := script(container)
	how := sprintf("%s -c, without exec or trap: %s", [started.shell, shortened(started.text)])
	not regex.match(sprintf(`(^|[;&|(){!\n]|\b(%s)\s)\s*(\w+=\S*\s+)*(exec|trap)\s|^\s*exit\b|<<`, [keywords]), started.runs)
	why := reasons(sh(started.shell, image(container)), started.runs)[0]
}

# An idle program is reported alike with and without exec.
starts(container) := {"as": split(last, " ")[0], "how": sprintf("it is PID 1: %s", [shortened(last)]), "why": idle(last)} if {
	started := script(container)
	not regex.match(`\btrap\s|<<`, started.runs)
	last := trim_prefix(tail(started.runs), "exec ")
	last != tail(started.runs)
	idle(last) != ""
}

starts(container) := {"as": split(text, " ")[0], "how": sprintf("it is PID 1: %s", [shortened(text)]), "why": idle(text)} if {
	text := concat(" ", words(container))
	idle(text) != ""
}

starts(container) := {"as": interpreter, "how": how, "why": why} if {
	started := words(container)
	some interpreter, option in {"python": `^-[a-zA-Z]*c$`, "node": `^(-e|--eval)$`}
	regex.match(sprintf(`^(\S*/)?%s[0-9.]*$`, [interpreter]), started[0])
	some i in [1, 2, 3]
	regex.match(option, started[i])
	every before in array.slice(started, 1, i) {
		regex.match(`^-[a-zA-Z]+$`, before)
	}
	regex.match(endless[interpreter], started[i + 1])
	not regex.match(`SIGTERM|\bbreak\b|exit\(|SystemExit`, started[i + 1])
	how := sprintf("it is PID 1: %s", [shortened(concat(" ", started))])
	why := sprintf("%s does not end on TERM as PID 1 either, and the program sets no handler", [interpreter])
}

# endless matches programs that run until they are stopped (measured with python 3.11 and node).
endless := {"python": `(?m)^while\s+(True|1)\s*:|\.serve_forever\(`, "node": `\bsetInterval\(|\.listen\(`}

# keywords are words before a command: elsewhere exec is an argument, as in docker exec.
keywords := "if|then|elif|else|while|until|do|time|command|builtin"

shortened(text) := substring(trim(regex.replace(text, `\s+`, " "), " ;"), 0, 60)

period := grace.own(template.pod_spec)

# Arguments alone follow the entry point of the image, which may be an init.
words(container) := template.starts(container) if {
	some entered in [count(template.words(container, "command")) > 0, regex.match(bare, image(container))]
	entered
}

# bare matches images without an entry point.
bare := `^([^/]+/)*(alpine|busybox|debian|ubuntu|fedora|centos|rockylinux|almalinux|amazonlinux|ubi[0-9]+(-minimal)?)(:|@|$)`

script(container) := {"shell": shell, "text": after[0], "runs": without_documents(after[0])} if {
	started := words(container)
	shell := regex.find_n(`[^/]*$`, started[0], 1)[0]
	shell in {"sh", "bash", "ash", "dash", "busybox"}
	i := min({i | some i, word in started; i > 0; regex.match(`^-[a-z]*c$`, word)})
	every j, _ in array.slice(started, 1, i) {
		is_option(started, j + 1)
	}

	# Options may follow -c too: sh -c -- SCRIPT.
	after := [word | some j, word in started; j > i; not regex.match(sprintf(`^(-[a-z]+|--|%s)$`, [settings]), word)]
}

# is_option reports whether a word before -c is an option and not a file.
is_option(started, j) if regex.match(`^(-[a-z]+|[-+][a-zA-Z]*[oO]|\+[a-z]+|--[a-z-]+|sh|ash)$`, started[j])

is_option(started, j) if regex.match(`^[-+][a-zA-Z]*[oO]$|^--(rcfile|init-file)$`, started[j - 1]) # of several words

# without_documents keeps the mark of a here-document that does not end, or if there are many.
without_documents(text) := concat("\n", [kept |
	some i, line in lines
	every document in documents {
		not between(i, document)
	}
	kept := regex.replace(line, here, substitute(i, documents))
]) if {
	lines := split(text, "\n")
	opened := [[i, found[0][1]] |
		some i, line in lines
		contains(line, "<<")
		found := regex.find_all_string_submatch_n(here, line, 2)
		count(found) == 1
	]
	count(opened) <= 16
	documents := [[i, end] |
		some [i, mark] in opened
		end := min({j | some j, line in lines; j > i; trim(line, " \t") == mark})
	]
} else := text

# here matches the beginning of a here-document.
here := `(?:^|\b|\s)<<-?\s*['"\\]?(\w+)['"]?`

between(line, document) if {
	line > document[0]
	line <= document[1]
}

# substitute replaces the beginning of a here-document with another input.
substitute(line, documents) := " <_" if {
	some document in documents
	line == document[0]
} else := "$0"

# settings matches arguments of -o.
settings := "allexport|errexit|errtrace|nounset|pipefail|verbose|xtrace"

default image(_) := ""

image(container) := container.image if is_string(container.image) # a template may leave null

# sh is the program behind a shell's name.
sh("sh", image) := "busybox" if {
	regex.match(`alpine|(^|/)busybox(:|@|$)`, image)
} else := "bash" if {
	regex.match(`redhat|/ubi[0-9]|centos|fedora|rockylinux|almalinux|amazonlinux`, image)
} else := "dash" if {
	some pattern in [
		`(^|/)(debian|ubuntu)(:|@|$)`,
		`:[^/]*(bullseye|bookworm|trixie|focal|jammy|noble|debian|ubuntu|slim)`,
		# Official images, of Debian or Ubuntu unless the tag says otherwise.
		`^((docker\.io/)?library/)?(golang|httpd|mariadb|mongo|nginx|node|php|postgres|python|redis|ruby)(:|@|$)`,
	]
	regex.match(pattern, image)
} else := "sh"

sh(shell, _) := "busybox" if shell in {"ash", "busybox"}

sh(shell, _) := shell if shell in {"bash", "dash"}

# reasons lists why a shell stays PID 1, the best first.
reasons(shell, text) := [reason |
	some reason in [loop(text, last), function_loop(text, last), pipe(last), idle(last), own(shell, text, last)]
	reason != ""
] if {
	last := tail(text)
	not contains(last, "<_") # readers of a here-document end soon
}

tail(text) := commands[count(commands) - 1] if {
	quoted := regex.replace(text, `'[^']*'|"(?:\\.|[^"\\])*"|\\(?s:.)|(?:^|\s)#[^\n]*`, " _")
	not regex.match(`['"]`, quoted) # one that is not closed ends the shell
	inner := regex.replace(quoted, `\x60[^\x60]*\x60|\$\([^()]*\)`, "_")
	substituted := regex.replace(inner, `\$\([^()]*\)`, "_")
	ampersands := regex.replace(substituted, `[<>]&|&>`, ">")
	commands := [command | some part in regex.split(`&&|\|\||[;&\n]`, ampersands); command := trim_space(part); command != ""]
	count(commands) > 0
}

default loop(_, _) := ""

loop(_, last) := "a shell waits for background jobs itself" if regex.match(`^wait\b`, last)

# Other loops end soon.
loop(text, last) := "a shell runs a loop itself" if {
	regex.match(`^done\b`, last)
	regex.match(`\bwhile\b|\buntil +(false|\[ +0 +\])|\bfor +\(\(`, text)
}

default function_loop(_, _) := ""

# A function that the script ends with may loop.
function_loop(text, last) := loop(body, tail(body)) if {
	name := split(last, " ")[0]
	regex.match(`^\w+$`, name)
	found := regex.find_all_string_submatch_n(
		sprintf(`(?s)(?:^|[;\n])\s*(?:function\s+)?%s\s*(?:\(\))?\s*\{(.*?)(?:;|\n)\s*\}\s*(?:[;\n]|$)`, [name]),
		text, 1,
	)
	body := found[0][1]
}

default pipe(_) := ""

pipe(last) := "a shell waits for a pipeline itself" if {
	contains(last, "|")
	some part in split(last, "|")
	not over(trim_space(part))
}

over(command) if {
	regex.match(`^(/(usr/)?bin/)?(echo|printf|date|head|tail|wc|sort)\b`, command)
	not regex.match(` -[a-zA-Z0-9]*[fF]`, command)
}

default idle(_) := ""

# idle programs have no handler for TERM.
idle(last) := sprintf("%s does not end on TERM as PID 1 either", [split(last, " ")[0]]) if {
	regex.match(`^(/(usr/)?bin/)?(sleep |tail .*-[a-zA-Z0-9]*[fF])`, last)
	every seconds in [to_number(trim(n, " s")) | some n in regex.find_n(` [0-9]+s?$`, last, 1)] {
		seconds > period
	}
}

idle(last) := "the web server of python does not end on TERM as PID 1 either" if {
	regex.match(`^(\S*/)?python[0-9.]* (-[a-zA-Z]+ )*-m (http\.server|SimpleHTTPServer)\b`, last)
}

default own(_, _, _) := ""

# own differs between shells (measured with dash 0.5.12, bash 5.2 and busybox 1.35).
own("dash", _, _) := "sh is dash in this image, which execs no command by itself"

own("bash", _, last) := "bash execs no last command that is compound, or that has redirections" if {
	regex.match(`[<>]|^(fi|esac|\}|\))`, last)
}

own("busybox", text, _) := "busybox does not exec a last command with a line break after it" if endswith(text, "\n")

field(path, container) := sprintf("%s.args", [path]) if count(template.words(container, "args")) > 0

field(path, container) := sprintf("%s.command", [path]) if count(template.words(container, "args")) == 0
