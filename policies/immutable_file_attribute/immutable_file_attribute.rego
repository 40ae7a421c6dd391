# METADATA
# title: Files that cannot be removed
# description: >-
#   A file with the attribute i (chattr +i) or a (chattr +a) cannot be removed, not even
#   by root. In a volume of the pod, it keeps the pod Terminating until the attribute is
#   cleared on the node.
# related_resources:
#   - ref: https://man7.org/linux/man-pages/man1/chattr.1.html
#     description: The attributes.
#   - ref: https://man7.org/linux/man-pages/man7/capabilities.7.html
#     description: CAP_LINUX_IMMUTABLE, which is needed to set them.
# custom:
#   id: immutable-file-attribute
#   aliases: [immutable-files]
#   severity: medium
#   triggers: [apply]
#   resources:
#     [pods, deployments.apps, statefulsets.apps, daemonsets.apps, replicasets.apps, replicationcontrollers, jobs.batch, cronjobs.batch]
#   needs:
#     - input.request.object.spec.**.command.* with chattr
#     - input.request.object.spec.**.args.* with chattr
#     - input.request.object.spec.**.capabilities.add.* with LINUX_IMMUTABLE
#   remedy: >-
#     Do not set the attribute in a volume of the pod, or clear it in a preStop hook
#     (chattr -R -i DIR). For a pod that hangs already, run chattr -R -i on its volumes in
#     /var/lib/kubelet/pods/UID/volumes on the node: the deletion then finishes by itself.
#   manifest:
#     remedy: >-
#       Do not set the attribute in a volume of the pod, or clear it in a preStop hook
#       (chattr -R -i DIR).
#   limits: >-
#     Scripts in images and ConfigMaps, and programs that set the attribute by
#     themselves. Whether the files are in a volume.
package termguard.immutable_file_attribute

import data.termguard.lib.request
import data.termguard.lib.template

warn contains {
	"msg": sprintf(
		"container %s runs chattr +%s: a volume with such a file cannot be removed, so the pod stays Terminating",
		[container.name, attribute],
	),
	"objects": [request.target],
	"evidence": [substring(found[0], 0, 100)],
	"field": sprintf("%s.%s[%d]", [path, key, i]),
} if {
	some path, container in template.containers
	some key in ["command", "args"]
	some i, word in container[key]
	is_string(word)
	some found in regex.find_all_string_submatch_n(`\bchattr\s+(?:-[A-Za-z]+\s+)*\+[A-Za-z]*([ia])`, word, 1)
	attribute := found[1]
}

warn contains {
	"msg": sprintf("container %s may make files that cannot be removed: it has CAP_LINUX_IMMUTABLE", [container.name]),
	"objects": [request.target],
	"evidence": ["such a file in a volume keeps the pod Terminating"],
	"field": sprintf("%s.securityContext.capabilities.add[%d]", [path, i]),
} if {
	some path, container in template.containers
	some i, capability in container.securityContext.capabilities.add
	capability in {"LINUX_IMMUTABLE", "CAP_LINUX_IMMUTABLE"}
}
