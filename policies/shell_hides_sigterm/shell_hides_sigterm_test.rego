package termguard.shell_hides_sigterm_test

import data.termguard.shell_hides_sigterm as policy

create(spec) := {"request": {
	"operation": "CREATE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "web",
	"namespace": "demo",
	"object": {"spec": spec},
}}

container(command) := {"name": "web", "command": command}

found(command) := warn if {
	warn := policy.warn with input as create({"containers": [container(command)]})
}

in_image(image, text) := why if {
	warn := policy.warn with input as create({"containers": [object.union(container(["sh", "-c", text]), {"image": image})]})
	why := {finding.evidence[1] | some finding in warn}
}

finding(shell, script, why, key) := {
	"msg": "TERM does not end container web of pods/web, which starts as a shell: stopping may take the whole 30 s",
	"objects": [{"resource": "pods", "namespace": "demo", "name": "web"}],
	"evidence": [sprintf("%s -c, without exec or trap: %s", [shell, script]), why],
	"field": sprintf("spec.containers[0].%s", [key]),
}

loop := "a shell runs a loop itself"

background := "a shell waits for what is in the background itself"

pipe := "a shell waits for a pipeline itself"

test_shell if {
	work := "while true; do work; done"
	found(["sh", "-c", work]) == {finding("sh", work, loop, "command")}
	found(["/bin/bash", "-ec", "a\nwhile b\ndo\nc\ndone\n"]) == {finding("bash", "a while b do c done", loop, "command")}
	found(["sh", "-c", "--", work]) == {finding("sh", work, loop, "command")}
	found(["sh", "-c", "-x", work]) == {finding("sh", work, loop, "command")}
	found(["sh", "-c", "--", "exec server"]) == set()
	found(["bash", "-c", "server 2>&1 | tee log"]) == {finding("bash", "server 2>&1 | tee log", pipe, "command")}
	found(["bash", "-c", "server & wait"]) == {finding("bash", "server & wait", background, "command")}
	found(["ash", "-c", "server\n"]) == {finding("ash", "server", ends, "command")}
	found(["/bin/busybox", "sh", "-c", "server\n"]) == {finding("busybox", "server", ends, "command")}
	found(["dash", "-c", "server"]) == {finding("dash", "server", dash, "command")}
}

endless := "while true; do\n  work\ndone"

test_here_documents if {
	every started in ["cat > a <<END\nexec x\nEND\nENDLESS", "cat > a <<-'E'\n\ttrap x\n\tE\ncat <<\"F\" > b\n'\nF\nENDLESS"] {
		in_image("", replace(started, "ENDLESS", endless)) == {loop}
	}

	# One that does not end, that ends the script, two of one line, many, and a string.
	every started in ["cat > a <<END\nx\nENDLESS", "echo a\ncat <<END\nx\nEND", "a <<E; b <<F\nE\nF\nENDLESS", "work <<< 1\nENDLESS"] {
		found(["dash", "-c", replace(started, "ENDLESS", endless)]) == set()
	}
	many := concat("", ["a <<E\nE\n" | some _ in numbers.range(1, 17)])
	found(["dash", "-c", concat("", [many, endless])]) == set()
}

test_text_of_a_here_document if in_image("", "cat > f <<E\nwhile\ndone\nE\nwork | log") == {pipe}

test_function if {
	every started in ["f() {\n  ENDLESS\n}\nf", "a\nfunction f {\n  b\n  ENDLESS; }\nprepare\nf # at last\n", "f () { ENDLESS; }; f"] {
		in_image("", replace(started, "ENDLESS", endless)) == {loop}
	}
	every started in [
		"f() {\n  ENDLESS\n}\ng", "f() {\n  exec server\n  ENDLESS\n}\nf",
		"f() {\n  ENDLESS\n  exit\n}\nf", "f() {\n  work\n}\nf",
	] {
		in_image("", replace(started, "ENDLESS", endless)) == set()
	}
}

# Programs have arguments called exec, too.
test_exec if {
	every started in [
		"exec server", "prepare; exec server", "prepare &&\n\texec server", "A=1 B=2 exec server", "command exec server",
		"if a; then exec server; fi; while true; do work; done", "case $1 in a) exec server;; esac; while true; do work; done",
		"if a; then\n  b\nelse exec server\nfi\nwhile true; do work; done", "{ exec server; }", "(trap 'exit' TERM; server) | cat",
	] {
		found(["dash", "-c", started]) == set()
	}
	every started in ["dlv exec /server", "docker exec a b", "while true; do dlv exec /server || true; sleep 2; done"] {
		count(found(["dash", "-c", started])) == 1
	}
}

ends := "busybox does not exec the last command where a line break follows it"

dash := "sh is dash in this image, which execs no command by itself"

test_idle if {
	in_image("", "echo don\\'t && sleep infinity") == {"sleep does not end on TERM as PID 1 either"}
	in_image("", "echo ready && sleep infinity") == {"sleep does not end on TERM as PID 1 either"}
	in_image("", "tail -f /dev/null") == {"tail does not end on TERM as PID 1 either"}
	in_image("", "ready; /bin/sleep 31s;") == {"/bin/sleep does not end on TERM as PID 1 either"}
	in_image("", "sleep 2m") == {"sleep does not end on TERM as PID 1 either"}
	found(["sh", "-c", "tail /log"]) == set()
}

# They are told of whether or not a shell is between.
test_idle_itself if {
	infinity := {
		"msg": "TERM does not end container web of pods/web, which starts as sleep: stopping may take the whole 30 s",
		"objects": [{"resource": "pods", "namespace": "demo", "name": "web"}],
		"evidence": ["it is PID 1: sleep infinity", "sleep does not end on TERM as PID 1 either"],
		"field": "spec.containers[0].command",
	}
	found(["sleep", "infinity"]) == {infinity}
	found(["sh", "-c", "prepare; exec sleep infinity"]) == {infinity}
	found(["sleep", "10"]) == set()
	found(["sh", "-c", "trap 'exit' TERM; exec sleep infinity"]) == set()
}

test_web_server if {
	served := "the web server of python does not end on TERM as PID 1 either"
	in_image("", "cd /www && python3 -m http.server 80") == {served}
	found(["python", "-m", "uvicorn", "http.server"]) == set()
	every command in [["python", "-m", "SimpleHTTPServer"], ["/usr/bin/python3.12", "-u", "-m", "http.server", "8"]] {
		some one in found(command)
		one.evidence[1] == served
	}
}

# A program in the command runs until TERM, and handles it or not.
test_program if {
	work := "import time\nwhile True:\n  work()\n  time.sleep(5)"
	found(["python3", "-u", "-c", work]) == {{
		"msg": "TERM does not end container web of pods/web, which starts as python: stopping may take the whole 30 s",
		"objects": [{"resource": "pods", "namespace": "demo", "name": "web"}],
		"evidence": [
			"it is PID 1: python3 -u -c import time while True: work() time.sleep(5)",
			"python does not end on TERM as PID 1 either, and the program sets no handler",
		],
		"field": "spec.containers[0].command",
	}}
	every command in [
		["/usr/local/bin/python3.12", "-uc", "while 1: work()"],
		["python", "-c", "with TCPServer(at, Handler) as s:\n  s.serve_forever()"],
		["node", "-e", "setInterval(work, 1000)"],
		["node", "--eval", "require('http').createServer(answer).listen(80)"],
	] {
		count(found(command)) == 1
	}
	every command in [
		["python", "-c", concat("\n", ["signal.signal(signal.SIGTERM, end)", work])],
		["python", "-c", "while True:\n  if done(): break"],
		["python", "-c", "while True:\n  if done(): sys.exit(0)"],
		["python", "-c", "def work():\n  while True: pass"],
		["python", "-W", "ignore", "-c", "while True: work()"], # it is not read that far
		["python", "main.py", "-c", "while True: work()"],
		["python", "-c"],
		["node", "-e", "process.on('SIGTERM', end); setInterval(work, 1000)"],
		["node", "-e", "console.log(1)"],
		["ruby", "-e", "while true do work end"], # which ends on TERM
	] {
		found(command) == set()
	}
}

# What a hook does, other than wait, may end it.
test_hook if {
	every hook, found in {
		{"sleep": {"seconds": 5}}: 1,
		{"exec": {"command": ["/bin/sh", "-c", "sleep 5; echo bye"]}}: 1,
		{"exec": {"command": ["sleep", "5"]}}: 1,
		{"exec": {"command": ["/bin/sh", "-c", "sleep 5; kill 7"]}}: 0,
		{"httpGet": {"port": 80}}: 0,
	} {
		got := policy.warn with input as create({"containers": [object.union(
			container(["sh", "-c", "while true; do work; done"]),
			{"lifecycle": {"preStop": hook}},
		)]})
		count(got) == found
	}
}

test_options if {
	every command in [
		["sh", "-o", "errexit", "-c"],
		["bash", "-eu", "-o", "pipefail", "-c"],
		["/bin/bash", "-o", "errexit", "-o", "nounset", "-c"],
	] {
		count(found(array.concat(command, ["while true; do work; done"]))) == 1
	}
}

# It is over within the grace period.
test_finite if {
	every text in ["sleep 30", "sleep 5s", "for i in 1 2; do work; done", "until ready; do sleep 1; done"] {
		found(["sh", "-c", text]) == set()
	}
}

test_until if found(["sh", "-c", "until false; do a; done"]) == {finding("sh", "until false; do a; done", loop, "command")}

# What follows only the shell of the image tells.
test_own if {
	every image in ["debian:12", "docker.io/library/nginx", "python:3.13-slim", "example.com/web:1-bookworm"] {
		in_image(image, "server") == {dash}
	}
	every image in [null, "", "example.com/web:1", "nginx:alpine", "alpine", "busybox:1.36", "redhat/ubi9:slim", "bitnami/nginx"] {
		in_image(image, "server") == set()
	}
}

test_own_busybox if in_image("alpine:3", "server\n") == {ends}

test_own_bash if {
	in_image("quay.io/centos/centos:stream9", "server\n") == set()
	got := in_image("quay.io/centos/centos:stream9", "server > log")
	got == {"bash execs no last command that is compound, or that has redirections"}
}

# What is quoted, substituted or a comment is no command.
test_tail if {
	every text in [
		"a=$(b | c); server",
		"a=`b | c`; server",
		"a=$(b $(c | d)); server",
		"server --flag 'a | b'",
		"server --flag \"a | \\\" b\"",
		"work | log; server",
		"sleep 10; head -c 100m /dev/zero | tail",
		"echo ready | tail -n 1",
		"server # | log",
		"server \\\n --flag",
		"# nothing",
		"echo 'ready; sleep infinity", # the shell ends at once: no quote closes this one
		"echo \"ready; sleep infinity",
	] {
		found(["sh", "-c", text]) == set()
	}
}

test_script_in_args if {
	got := policy.warn with input as create({"containers": [{"name": "web", "command": ["sh", "-c"], "args": ["server | log"]}]})
	got == {finding("sh", "server | log", pipe, "args")}
}

# The entry point of the image, which may be an init, starts the shell.
test_args_alone if {
	every image in ["example.com/web", "nginx", "example.com/alpine/web:1"] {
		got := policy.warn with input as create({"containers": [{"name": "web", "image": image, "args": ["sh", "-c", "server | log"]}]})
		got == set()
	}
}

# An image without an entry point starts it, too.
test_args_of_a_bare_image if {
	every image in ["busybox", "docker.io/library/alpine:3.20", "debian:12", "registry.access.redhat.com/ubi9/ubi9-minimal:9"] {
		got := policy.warn with input as create({"containers": [{"name": "web", "image": image, "args": ["/bin/sh", "-c", "server | log"]}]})
		got == {finding("sh", "server | log", pipe, "args")}
	}
}

test_harmless if {
	every command in [
		["server"],
		["sh", "/start.sh"],
		["sh", "-c", "prepare && exec server"],
		["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"],
		["sh", "-c", "prepare && server"], # some shells exec the last of them
		["bash", "-c", "prepare && server"],
		["python", "-c", "serve()"],
		["sh", "-c"],
		["sh", "-c", "exit 1"],
	] {
		found(command) == set()
	}
}

test_someone_has_thought_of_it if {
	every spec in [
		{"containers": [object.union(container(["sh", "-c", "server | log"]), {"lifecycle": {"preStop": {"exec": {"command": ["kill"]}}}})]},
		{"containers": [container(["sh", "-c", "server | log"])], "shareProcessNamespace": true},
		{"containers": [container(["sh", "-c", "server | log"])], "hostPID": true},
		{"containers": [container(["sh", "-c", "server | log"])], "restartPolicy": "Never"},
		{"containers": [container(["sh", "-c", "server | log"])], "terminationGracePeriodSeconds": 2},
		{"initContainers": [container(["sh", "-c", "prepare"])]},
	] {
		got := policy.warn with input as create(spec)
		got == set()
	}
}
