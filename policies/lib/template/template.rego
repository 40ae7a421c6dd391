# METADATA
# description: The pod template of an applied object.
package termguard.lib.template

import data.termguard.lib.request

workloads := {
	"pods": "spec",
	"deployments.apps": "spec.template.spec",
	"statefulsets.apps": "spec.template.spec",
	"daemonsets.apps": "spec.template.spec",
	"replicasets.apps": "spec.template.spec",
	"replicationcontrollers": "spec.template.spec",
	"jobs.batch": "spec.template.spec",
	"cronjobs.batch": "spec.jobTemplate.spec.template.spec",
}

pod_path := path if {
	request.applying
	path := object.get(workloads, request.resource, "")
	path != ""
}

pods := request.word if request.resource == "pods"

pods := sprintf("the pods of %s", [request.word]) if request.resource != "pods"

pod_spec := spec if {
	spec := object.get(input.request.object, split(pod_path, "."), {})
	is_object(spec)
}

containers[path] := container if {
	some list in ["initContainers", "containers"]
	some i, container in pod_spec[list]
	path := sprintf("%s.%s[%d]", [pod_path, list, i])
}

# starts is the command and its arguments.
starts(container) := array.concat(words(container, "command"), words(container, "args"))

words(container, key) := [word | some word in container[key]; is_string(word)]
