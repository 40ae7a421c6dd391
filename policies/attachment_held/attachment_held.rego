# METADATA
# title: Volume that cannot be detached
# description: >-
#   The attacher of a CSI driver keeps a finalizer on a VolumeAttachment until it has
#   detached the volume, and on the PersistentVolume as long as it is attached anywhere. It
#   tries for ever: while the storage behind it answers with an error, and where nothing
#   tells any more what the driver calls the node. A node that is gone is no trouble as long
#   as the attachment tells that.
# related_resources:
#   - ref: https://github.com/kubernetes-csi/external-attacher/blob/v4.13.0/pkg/controller/csi_handler.go
#     description: What the attacher needs to detach a volume (csiDetach, getNodeID).
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
#     Fix what the error names, at the driver or at the storage behind it: the attacher
#     tries again, and the rest follows. Or detach the volume by hand at the storage: the
#     attacher then finds that done.
#   manifest:
#     remedy: >-
#       Take the VolumeAttachment out of the manifests: the attach-detach controller makes
#       one, and deletes it, by itself.
#   limits: >-
#     Whether detaching will fail is seen only once it was tried: when the attachment is
#     being deleted. A drain whose owner waits until volumes are detached, as Karpenter does.
#     An attachment whose PersistentVolume is gone is told by
#     missing-reference, one whose attacher is gone by orphaned-finalizer, and a volume that
#     is only still attached by in-use.
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

# seen reports whether CSINodes are visible, so that a missing driver is known.
seen if not "csinodes.storage.k8s.io" in {hidden.resource | some hidden in data.cluster.unseen}

attachment := request.name if {
	request.deleting
	request.resource == "volumeattachments.storage.k8s.io"
}

# released is the deleted volume; a bound volume waits for its claim first.
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

# volume reports the attachments of a deleted volume.
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

because(known) := sprintf("nothing tells what CSI driver %s calls that node", [known.driver]) if known.why == "lost"

because(known) := "its attacher tries to detach it, and fails" if known.why == "fails"

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
			"Bring CSI driver %s back on node %s, or annotate the attachment with what the driver calls the node",
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
			"Fix what the error names, at CSI driver %s or at the storage behind it, or detach the volume there by hand:",
			"its attacher tries again",
		]),
		[known.driver],
	),
	[],
) if {
	known.why == "fails"
}
