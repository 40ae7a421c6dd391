package main

import rego.v1

pod_spec := input.spec.template.spec if input.kind in {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"}

pod_spec := input.spec if input.kind == "Pod"

warn contains sprintf("long grace period in %s", [input.metadata.name]) if pod_spec.terminationGracePeriodSeconds >= 300

warn contains sprintf("shell as PID 1 in %s", [container.name]) if {
	some container in pod_spec.containers
	regex.match(`^([^ ]*/)?(ba|da|a)?sh -[a-z]*c `, concat(" ", container.command))
	not regex.match(`(^|[\s;&|({])(exec|trap)\s`, concat(" ", container.command))
}

warn contains sprintf("bidirectional mount in %s", [container.name]) if {
	some container in pod_spec.containers
	some mount in container.volumeMounts
	mount.mountPropagation == "Bidirectional"
}

warn contains sprintf("docker socket in %s", [volume.name]) if {
	some volume in pod_spec.volumes
	endswith(volume.hostPath.path, "docker.sock")
}

warn contains sprintf("finalizer %s", [finalizer]) if some finalizer in input.metadata.finalizers

warn contains sprintf("webhook %s fails closed", [hook.name]) if {
	input.kind in {"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
	some hook in input.webhooks
	object.get(hook, "failurePolicy", "Fail") == "Fail"
}
