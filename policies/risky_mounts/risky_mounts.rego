# METADATA
# title: Mounts that keep pods from going
# description: >-
#   A container that mounts with Bidirectional propagation leaves its mounts on the node
#   when it is killed: the volume stays busy, and the pod Terminating. One that sees the
#   directories of the runtime or of the kubelet through a hostPath without propagation
#   keeps the mounts of other pods busy for as long as it lives. What is started through
#   the socket of the runtime is not the kubelet's, and is left when the pod goes.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/storage/volumes/#mount-propagation
#     description: Bidirectional mounts must be unmounted by the container itself.
#   - ref: https://github.com/moby/moby/issues/22260
#     description: Device or resource busy, from mounts that leaked into other containers.
# custom:
#   id: risky-mounts
#   severity: info
#   triggers: [apply]
#   resources:
#     [pods, deployments.apps, statefulsets.apps, daemonsets.apps, replicasets.apps, replicationcontrollers, jobs.batch, cronjobs.batch]
#   remedy: >-
#     Bidirectional: unmount on TERM and in a preStop hook. Directories of the runtime:
#     mount only what is needed, with mountPropagation HostToContainer. The socket: use
#     the Kubernetes API, or remove the containers before the pod ends.
#   limits: >-
#     What the program does with its mounts is in its image. The node plugins of CSI
#     drivers are left out: they mount for the kubelet, which unmounts through them. Newer
#     kernels unmount what is busy elsewhere.
package termguard.risky_mounts

import data.termguard.lib

warn contains {
	"msg": sprintf(
		"container %s leaves its mounts in volume %s on the node when it is killed: propagation is Bidirectional",
		[container.name, mount.name],
	),
	"objects": [lib.target],
	"evidence": [sprintf("mounted at %s", [mount.mountPath])],
	"field": sprintf("%s.volumeMounts[%d].mountPropagation", [path, i]),
} if {
	not csi
	some path, container in lib.containers
	contains(path, ".containers[") # what an init container mounts, it means to leave
	some i, mount in container.volumeMounts
	mount.mountPropagation == "Bidirectional"
}

warn contains {
	"msg": sprintf("volume %s shows %s: mounts of other pods seen through it stay busy while this pod lives", [volume.name, directory]),
	"objects": [lib.target],
	"evidence": [sprintf("container %s mounts it without propagation", [container.name])],
	"field": sprintf("%s.volumes[%d].hostPath.path", [lib.pod_path, i]),
} if {
	some i, volume in lib.pod_spec.volumes
	some directory in directories
	volume.hostPath.path in {directory, sprintf("%s/", [directory])}
	some path, container in lib.containers
	stays(path, container)
	some mount in container.volumeMounts
	mount.name == volume.name
	object.get(mount, "subPath", "") == ""
	object.get(mount, "mountPropagation", "None") == "None"
}

warn contains {
	"msg": sprintf("what is started through %s is not the kubelet's: it is left when the pod goes", [volume.hostPath.path]),
	"objects": [lib.target],
	"evidence": [sprintf("volume %s", [volume.name])],
	"field": sprintf("%s.volumes[%d].hostPath.path", [lib.pod_path, i]),
} if {
	some i, volume in lib.pod_spec.volumes
	volume.hostPath.path in {"/var/run/docker.sock", "/run/docker.sock"}
}

# stays is true of a container that lives as long as its pod: not of one that ends
# before the others start.
stays(path, _) if contains(path, ".containers[")

stays(path, container) if {
	contains(path, ".initContainers[")
	container.restartPolicy == "Always"
}

# directories are where runtimes and the kubelet mount for pods.
directories := {
	"/var/lib/docker",
	"/var/lib/containerd",
	"/run/containerd",
	"/var/lib/containers",
	"/var/lib/containers/storage",
	"/var/lib/kubelet",
	"/var/lib/kubelet/pods",
}

# csi is true of the node plugin of a CSI driver, which registers with the kubelet.
csi if {
	some container in lib.containers
	is_string(container.image)
	contains(container.image, "node-driver-registrar")
}

csi if {
	some volume in lib.pod_spec.volumes
	volume.hostPath.path in {"/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins_registry/"}
}
