# METADATA
# title: Volume that cannot be detached
# description: >-
#   The attacher of a CSI driver keeps a finalizer on a VolumeAttachment until the volume
#   is detached, and on the PersistentVolume while it is attached anywhere. It retries
#   forever if the storage returns an error, or if the driver's name for the node is
#   unknown. A deleted node is no problem if the attachment has that name.
# related_resources:
#   - ref: https://github.com/kubernetes-csi/external-attacher/blob/v4.13.0/pkg/controller/csi_handler.go
#     description: Inputs of the attacher to detach a volume (csiDetach, getNodeID).
#   - ref: https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/volume-attachment-v1/
#     description: VolumeAttachment, and its status.detachError.
# custom:
#   id: attachment-held
#   severity: high
#   class: broken
#   triggers: [delete]
#   resources: [volumeattachments.storage.k8s.io, persistentvolumes]
#   needs: [data.cluster.attachments]
#   relies_on:
#     - kinds: [csinodes.storage.k8s.io]
#       for: [volumeattachments.storage.k8s.io]
#     - kinds: [volumeattachments.storage.k8s.io]
#       for: [persistentvolumes]
#   remedy: >-
#     Fix the error, at the driver or at the storage behind it: the attacher retries, and
#     the deletion finishes by itself. Or detach the volume by hand at the storage: the
#     attacher notices that.
#   manifest:
#     remedy: >-
#       Remove the VolumeAttachment from the manifests: the attach-detach controller creates
#       and deletes VolumeAttachments by itself.
#   limits: >-
#     Errors show only after the first attempt, when the attachment is Terminating. A
#     drain that waits until volumes are detached, as Karpenter's does. Other policies
#     report an attachment without its PersistentVolume (missing-reference) or without its
#     attacher (orphaned-finalizer), and a volume that is merely attached (in-use).
package termguard.attachment_held

import data.termguard.lib.request
import data.termguard.lib.steps

deny contains own if {
	data.cluster.attachments[attachment].why == "lost"
	seen
}

deny contains volume(data.cluster.attachmentsOf[released].lost) if seen

warn contains own if data.cluster.attachments[attachment].why == "fails"

warn contains volume(data.cluster.attachmentsOf[released].fails)

seen if not "csinodes.storage.k8s.io" in {hidden.resource | some hidden in data.cluster.unseen}

attachment := request.name if {
	request.deleting
	request.resource == "volumeattachments.storage.k8s.io"
}

# A bound volume waits for its claim first.
released := request.name if {
	request.deleting
	request.resource == "persistentvolumes"
	not bound
	some finalizer in input.request.oldObject.metadata.finalizers
	startswith(finalizer, "external-")
}

bound if input.request.oldObject.status.phase == "Bound"

own := {
	"msg": sprintf("a volume stays attached to node %s: %s", [known.node, because(known)]),
	"objects": array.concat(
		[request.target],
		[{"resource": "persistentvolumes", "namespace": "", "name": known.volume} | known.volume != ""],
	),
	"evidence": evidence(attachment, known),
	"steps": [mended(known)],
} if {
	known := data.cluster.attachments[attachment]
}

volume(held) := {
	"msg": sprintf("this volume stays attached to node %s: %s", [known.node, because(known)]),
	"objects": array.concat(
		[request.target],
		[{"resource": "volumeattachments.storage.k8s.io", "namespace": "", "name": name} | some name in held.names],
	),
	"evidence": evidence(held.names[0], known),
	"steps": [mended(known)],
} if {
	known := data.cluster.attachments[held.names[0]]
}

because(known) := sprintf("the ID of that node at CSI driver %s is unknown", [known.driver]) if known.why == "lost"

because(known) := "its attacher fails to detach it" if known.why == "fails"

evidence(name, known) := array.concat(
	[sprintf("CSINode %s lists: %s", [known.node, listed]) | known.why == "lost"; listed := drivers(known.node)],
	[sprintf("status.detachError of VolumeAttachment %s: %s", [name, message]) | message := known.message],
)

drivers(node) := concat(", ", names) if {
	names := data.cluster.csinodes[node].drivers
	count(names) > 0
}

drivers(node) := "no driver" if count(object.get(data.cluster.csinodes, [node, "drivers"], [])) == 0

mended(known) := steps.mend(
	sprintf(
		concat(" ", [
			"Restore CSI driver %s on node %s, or annotate the attachment with the driver's ID for the node",
			"(csi.alpha.kubernetes.io/node-id): the attacher then detaches the volume",
		]),
		[known.driver, known.node],
	),
	[],
) if {
	known.why == "lost"
}

mended(known) := steps.mend(
	sprintf(
		concat(" ", [
			"Fix the error, at CSI driver %s or at the storage behind it, or detach the volume there by hand:",
			"its attacher retries",
		]),
		[known.driver],
	),
	[],
) if {
	known.why == "fails"
}
