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
	"mounts that container c makes in volume v stay on the node if it is killed, and keep pods/web Terminating",
	"mounted at /v, with propagation Bidirectional",
	"spec.containers[0].volumeMounts[0].mountPropagation",
)

shared := {"mountPropagation": "Bidirectional"}

empty := object.union(pod("/mnt", shared), {"volumes": [{"name": "v", "emptyDir": {}}]})

test_bidirectional if {
	every spec in [empty, pod("/var/lib/kubelet/pods/", shared)] {
		got := policy.warn with input as create(spec)
		got == {bidirectional}
	}
}

test_runtime if {
	got := policy.warn with input as create(pod("/var/lib/docker/", {}))
	got == {finding(
		"volume v shows /var/lib/docker/ to pods/web: mounts of other pods seen through it stay busy",
		"container c mounts it without propagation",
		"spec.volumes[0].hostPath.path",
	)}
}

test_above if {
	every path in ["/", "/var", "/var/lib/", "/run"] {
		got := policy.warn with input as create(pod(path, {}))
		count(got) == 1
	}
	every path in ["/var/log", "/etc"] {
		got := policy.warn with input as create(pod(path, {}))
		count(got) == 0
	}
}

test_socket if {
	got := policy.warn with input as create(pod("/var/run/docker.sock", {}))
	got == {finding(
		"containers started through /var/run/docker.sock are not the kubelet's: they stay when the pod is deleted",
		"volume v",
		"spec.volumes[0].hostPath.path",
	)}
}

csi_plugin := pod("/var/lib/kubelet/plugins_registry/", {"mountPropagation": "Bidirectional"})

sidecar(image) := object.union(empty, {"initContainers": [{"name": "r", "image": image}]})

hook := object.union(empty, {"containers": [object.union(empty.containers[0], {"lifecycle": {"preStop": {}}})]})

watcher := object.union(
	pod("/run/docker.sock", {}),
	{"volumes": [{"name": "v", "hostPath": {"path": "/run/docker.sock"}}, {"name": "p", "hostPath": {"path": "/proc"}}]},
)

test_job if {
	template := {"template": {"spec": pod("/var/lib/kubelet", {})}}
	job := {"resource": {"group": "batch", "version": "v1", "resource": "jobs"}, "object": {"spec": template}}
	got := policy.warn with input as {"request": object.union(create({}).request, job)}
	got == set()
}

test_harmless if {
	every spec in [
		pod("/mnt", {}),
		pod("/var/lib/docker", {"mountPropagation": "HostToContainer"}),
		pod("/var/lib/docker", {"subPath": "containers"}),
		pod("/mnt", shared), # no volume of a pod
		csi_plugin,
		sidecar("csi-node-driver-registrar:v2"),
		sidecar("registry.k8s.io/sig-storage/csi-provisioner:v5"),
		object.union(empty, {"containers": [], "initContainers": empty.containers}),
		hook,
		watcher,
		pod("/var/run/docker.sock", {"readOnly": true}),
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
