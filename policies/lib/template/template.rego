# METADATA
# description: The pods that an object makes, of an object that is applied.
package termguard.lib.template

import data.termguard.lib.request

# workloads are the paths to the specs of the pods that objects make.
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

# pod_path is where the spec of the pods stands in the object that is applied.
pod_path := path if {
	request.applying
	path := object.get(workloads, request.resource, "")
	path != ""
}

# pods are those that the object makes, in words.
pods := request.word if request.resource == "pods"

pods := sprintf("the pods of %s", [request.word]) if request.resource != "pods"

# pod_spec is that of the pods that the object makes.
pod_spec := spec if {
	spec := object.get(input.request.object, split(pod_path, "."), {})
	is_object(spec)
}

# containers are those of the pods, by where each stands.
containers[path] := container if {
	some list in ["initContainers", "containers"]
	some i, container in pod_spec[list]
	path := sprintf("%s.%s[%d]", [pod_path, list, i])
}

# starts is all that a container is started with, where the manifest says it.
starts(container) := array.concat(words(container, "command"), words(container, "args"))

words(container, key) := [word | some word in container[key]; is_string(word)]
