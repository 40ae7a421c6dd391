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

finding(shell, script, key) := {
	"msg": "container web starts as a shell that may keep TERM from its program: stopping takes the whole 30 s",
	"objects": [{"resource": "pods", "namespace": "demo", "name": "web"}],
	"evidence": [sprintf("%s -c, without exec or trap: %s", [shell, script])],
	"field": sprintf("spec.containers[0].%s", [key]),
}

test_shell if {
	found(["sh", "-c", "server --port 80"]) == {finding("sh", "server --port 80", "command")}
	found(["/bin/sh", "-ec", "prepare\nserver"]) == {finding("sh", "prepare server", "command")}
	found(["/bin/busybox", "sh", "-c", "server"]) == {finding("busybox", "server", "command")}
	found(["bash", "-c", "while true; do work; done"]) == {finding("bash", "while true; do work; done", "command")}
	found(["sh", "-c", "--", "server"]) == {finding("sh", "server", "command")}
	found(["sh", "-c", "-x", "while true; do work; done"]) == {finding("sh", "while true; do work; done", "command")}
	found(["sh", "-c", "--", "exec server"]) == set()
	found(["bash", "-c", "server | tee log"]) == {finding("bash", "server | tee log", "command")}
}

test_script_in_args if {
	got := policy.warn with input as create({"containers": [{"name": "web", "command": ["sh", "-c"], "args": ["server"]}]})
	got == {finding("sh", "server", "args")}
}

test_harmless if {
	every command in [
		["server"],
		["sh", "/start.sh"],
		["sh", "-c", "prepare && exec server"],
		["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"],
		["bash", "-c", "prepare && server"], # bash execs the last of them
		["python", "-c", "serve()"],
		["sh", "-c"],
		["sh", "-c", "exit 1"],
	] {
		found(command) == set()
	}
}

test_someone_has_thought_of_it if {
	every spec in [
		{"containers": [object.union(container(["sh", "-c", "server"]), {"lifecycle": {"preStop": {"exec": {"command": ["kill"]}}}})]},
		{"containers": [container(["sh", "-c", "server"])], "shareProcessNamespace": true},
		{"containers": [container(["sh", "-c", "server"])], "restartPolicy": "Never"},
		{"containers": [container(["sh", "-c", "server"])], "terminationGracePeriodSeconds": 2},
		{"initContainers": [container(["sh", "-c", "prepare"])]},
	] {
		got := policy.warn with input as create(spec)
		got == set()
	}
}
