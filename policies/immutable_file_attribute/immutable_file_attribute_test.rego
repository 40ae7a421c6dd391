package termguard.immutable_file_attribute_test

import data.termguard.immutable_file_attribute as policy

create(container) := {"request": {
	"operation": "CREATE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "web",
	"namespace": "demo",
	"object": {"spec": {"initContainers": [container]}},
}}

finding(msg, evidence, field) := {
	"msg": msg,
	"objects": [{"resource": "pods", "namespace": "demo", "name": "web"}],
	"evidence": [evidence],
	"field": sprintf("spec.initContainers[0].%s", [field]),
}

test_chattr if {
	got := policy.warn with input as create({"name": "seal", "command": ["sh", "-c", "touch /data/x; chattr -R +ai /data"]})
	msg := "container seal runs chattr +i: a volume with such a file cannot be removed, nor can the pod"
	got == {finding(msg, "chattr -R +ai", "command[2]")}
}

test_chattr_in_args if {
	got := policy.warn with input as create({"name": "seal", "args": ["chattr +a /data/log"]})
	got == {finding("container seal runs chattr +a: a volume with such a file cannot be removed, nor can the pod", "chattr +a", "args[0]")}
}

test_capability if {
	every name in ["LINUX_IMMUTABLE", "CAP_LINUX_IMMUTABLE"] {
		got := policy.warn with input as create({"name": "seal", "securityContext": {"capabilities": {"add": ["CHOWN", name]}}})
		got == {finding(
			"container seal may make files that nobody can remove: it has CAP_LINUX_IMMUTABLE",
			"such a file in a volume keeps the pod Terminating",
			"securityContext.capabilities.add[1]",
		)}
	}
}

test_harmless if {
	every container in [
		{"name": "seal", "command": ["chattr -i /data", "chattr", "+i"]},
		{"name": "seal", "securityContext": {"capabilities": {"add": ["CHOWN"], "drop": ["LINUX_IMMUTABLE"]}}},
	] {
		got := policy.warn with input as create(container)
		got == set()
	}
}

test_malformed if {
	context := {"capabilities": {"add": [null]}}
	got := policy.warn with input as create({"name": "seal", "command": [null, "chattr"], "securityContext": context})
	got == set()
}
