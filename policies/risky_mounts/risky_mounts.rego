# METADATA
# title: Mounts that keep pods Terminating
# description: >-
#   Mounts that a container creates in a volume with Bidirectional propagation appear on
#   the node, too, and stay there when the container is killed: the volume stays busy, and
#   the pod Terminating. A container that mounts the directories of the runtime or of the
#   kubelet through a hostPath without propagation keeps the mounts of other pods busy.
#   Containers started through the socket of the runtime stay when the pod is deleted.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/storage/volumes/#mount-propagation
#     description: Bidirectional mounts must be unmounted by the container itself.
#   - ref: https://github.com/moby/moby/issues/22260
#     description: Device or resource busy, from mounts that leaked into other containers.
# custom:
#   id: risky-mounts
#   aliases: [busy-mount]
#   severity: info
#   triggers: [apply]
#   resources:
#     [pods, deployments.apps, statefulsets.apps, daemonsets.apps, replicasets.apps, replicationcontrollers, jobs.batch, cronjobs.batch]
#   needs: [input.request.object.spec.**.mountPropagation is Bidirectional, input.request.object.spec.**.hostPath]
#   remedy: >-
#     Bidirectional: unmount on TERM and in a preStop hook. Directories of the runtime:
#     mount only the needed ones, with mountPropagation HostToContainer. The socket: use the
#     Kubernetes API, or remove the containers before the pod ends.
#   limits: >-
#     How the program uses its mounts and the socket depends on its image. Excluded: CSI
#     drivers, whose mounts the kubelet removes through them; mounts in a hostPath outside
#     the kubelet's directory, which block no pod; and programs with the host's /proc,
#     which monitor the node. Newer kernels unmount directories that are busy elsewhere.
package termguard.risky_mounts

import data.termguard.lib.request
import data.termguard.lib.template

warn contains {
	"msg": sprintf(
		"mounts that container %s creates in volume %s stay on the node if it is killed, and keep %s Terminating",
		[container.name, mount.name, template.pods],
	),
	"objects": [request.target],
	"evidence": [sprintf("mounted at %s, with propagation Bidirectional", [mount.mountPath])],
	"field": sprintf("%s.volumeMounts[%d].mountPropagation", [path, i]),
} if {
	not csi
	some path, container in template.containers
	contains(path, ".containers[") # mounts of init containers stay on purpose
	not container.lifecycle.preStop # it may unmount them
	some i, mount in container.volumeMounts
	mount.mountPropagation == "Bidirectional"
	some volume in template.pod_spec.volumes
	volume.name == mount.name
	removed(volume)
}

warn contains {
	"msg": sprintf(
		"volume %s exposes %s to %s: mounts of other pods in it stay busy",
		[volume.name, volume.hostPath.path, template.pods],
	),
	"objects": [request.target],
	"evidence": [sprintf("container %s mounts it without propagation", [container.name])],
	"field": sprintf("%s.volumes[%d].hostPath.path", [template.pod_path, i]),
} if {
	not csi
	not request.resource in {"jobs.batch", "cronjobs.batch"} # short-lived
	some i, volume in template.pod_spec.volumes
	trim_right(volume.hostPath.path, "/") in directories
	some path, container in template.containers
	stays(path, container)
	some mount in container.volumeMounts
	mount.name == volume.name
	object.get(mount, "subPath", "") == ""
	object.get(mount, "mountPropagation", "None") == "None"
}

warn contains {
	"msg": sprintf("containers started through %s are not the kubelet's: they stay when the pod is deleted", [volume.hostPath.path]),
	"objects": [request.target],
	"evidence": [sprintf("volume %s", [volume.name])],
	"field": sprintf("%s.volumes[%d].hostPath.path", [template.pod_path, i]),
} if {
	not watches
	some i, volume in template.pod_spec.volumes
	volume.hostPath.path in {"/var/run/docker.sock", "/run/docker.sock"}
	some container in template.containers
	some mount in container.volumeMounts
	mount.name == volume.name
	not mount.readOnly == true # starting containers needs no read-only mount
}

# watches reports whether pods read the processes of their node: monitoring.
watches if {
	some volume in template.pod_spec.volumes
	volume.hostPath.path in {"/", "/proc", "/proc/", "/sys/fs/cgroup", "/cgroup", "/sys"}
}

# A hostPath may contain the volumes of all pods.
removed(volume) if not volume.hostPath

removed(volume) if {
	some directory in {"/var/lib/kubelet", "/var/lib/kubelet/pods"}
	trim_suffix(volume.hostPath.path, "/") == directory
}

# stays reports whether a container runs as long as its pod.
stays(path, _) if contains(path, ".containers[")

stays(path, container) if {
	contains(path, ".initContainers[")
	container.restartPolicy == "Always"
}

# directories of runtimes and the kubelet, and their parents.
directories := {
	"", # the root
	"/var",
	"/var/lib",
	"/run",
	"/var/run",
	"/var/lib/docker",
	"/var/lib/containerd",
	"/run/containerd",
	"/var/lib/containers",
	"/var/lib/containers/storage",
	"/var/lib/kubelet",
	"/var/lib/kubelet/pods",
}

# csi reports whether the pods are a CSI driver.
csi if {
	some container in template.containers
	is_string(container.image)
	regex.match(`(^|/)(csi-[a-z-]+|livenessprobe)(:|@|$)|node-driver-registrar`, container.image)
}

csi if {
	some volume in template.pod_spec.volumes
	startswith(volume.hostPath.path, "/var/lib/kubelet/plugins")
}
