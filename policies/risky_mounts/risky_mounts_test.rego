package termguard.risky_mounts_test

import data.termguard.risky_mounts as policy

create(spec) := {"request": {
	"operation": "CREATE",
	"resource": {"group": "", "version": "v1", "resource": "pods"},
	"name": "web",
	"namespace": "demo",
	"object": {"spec": spec},
}}

pod(path, mount) := {
	"containers": [{"name": "c", "image": "i", "volumeMounts": [object.union({"name": "v", "mountPath": "/v"}, mount)]}],
	"volumes": [{"name": "v", "hostPath": {"path": path}}],
}

finding(msg, evidence, field) := {
	"msg": msg,
	"objects": [{"resource": "pods", "namespace": "demo", "name": "web"}],
	"evidence": [evidence],
	"field": field,
}

bidirectional := finding(
	"container c leaves its mounts in volume v on the node when it is killed: propagation is Bidirectional",
	"mounted at /v",
	"spec.containers[0].volumeMounts[0].mountPropagation",
)

test_bidirectional if {
	got := policy.warn with input as create(pod("/mnt", {"mountPropagation": "Bidirectional"}))
	got == {bidirectional}
}

test_runtime if {
	got := policy.warn with input as create(pod("/var/lib/docker/", {}))
	got == {finding(
		"volume v shows /var/lib/docker: mounts of other pods seen through it stay busy while this pod lives",
		"container c mounts it without propagation",
		"spec.volumes[0].hostPath.path",
	)}
}

test_socket if {
	got := policy.warn with input as create(pod("/var/run/docker.sock", {}))
	got == {finding(
		"what is started through /var/run/docker.sock is not the kubelet's: it is left when the pod goes",
		"volume v",
		"spec.volumes[0].hostPath.path",
	)}
}

csi_plugin := pod("/var/lib/kubelet/plugins_registry/", {"mountPropagation": "Bidirectional"})

registrar := object.union(
	pod("/mnt", {"mountPropagation": "Bidirectional"}),
	{"initContainers": [{"name": "r", "image": "csi-node-driver-registrar:v2"}]},
)

test_harmless if {
	every spec in [
		pod("/mnt", {}),
		pod("/var/lib/docker", {"mountPropagation": "HostToContainer"}),
		pod("/var/lib/docker", {"subPath": "containers"}),
		csi_plugin,
		registrar,
		{"initContainers": pod("/mnt", {"mountPropagation": "Bidirectional"}).containers},
	] {
		got := policy.warn with input as create(spec)
		got == set()
	}
}

# An init container is gone before the others start, unless it is a sidecar.
test_runtime_init if {
	seen := pod("/run/containerd", {})
	migrator := {"initContainers": seen.containers, "volumes": seen.volumes}
	ended := policy.warn with input as create(migrator)
	ended == set()
	sidecar := object.union(seen.containers[0], {"restartPolicy": "Always"})
	lives := policy.warn with input as create(object.union(migrator, {"initContainers": [sidecar]}))
	count(lives) == 1
}
