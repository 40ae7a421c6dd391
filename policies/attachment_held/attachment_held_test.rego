package termguard.attachment_held_test

import data.termguard.attachment_held as policy

found := {"deny": policy.deny, "warn": policy.warn}

nothing := {"deny": set(), "warn": set()}

delete_attachment := {"request": {
	"operation": "DELETE",
	"resource": {"group": "storage.k8s.io", "version": "v1", "resource": "volumeattachments"},
	"name": "va1",
	"oldObject": {"metadata": {"name": "va1", "finalizers": ["external-attacher/d1"]}},
}}

delete_volume(phase, finalizers) := {"request": {
	"operation": "DELETE",
	"resource": {"group": "", "version": "v1", "resource": "persistentvolumes"},
	"name": "pv1",
	"oldObject": {"metadata": {"name": "pv1", "finalizers": finalizers}, "status": {"phase": phase}},
}}

held := ["kubernetes.io/pv-protection", "external-attacher/d1"]

lost := {
	"csinodes": {},
	"attachments": {"va1": {"why": "lost", "volume": "pv1", "node": "n1", "driver": "d1"}},
	"attachmentsOf": {"pv1": {"lost": {"count": 1, "names": ["va1"]}}},
}

fails := {
	"csinodes": {},
	"attachments": {"va1": {"why": "fails", "volume": "pv1", "node": "n1", "driver": "d1", "message": "locked"}},
	"attachmentsOf": {"pv1": {"fails": {"count": 1, "names": ["va1"]}}},
}

va := {"resource": "volumeattachments.storage.k8s.io", "namespace": "", "name": "va1"}

pv := {"resource": "persistentvolumes", "namespace": "", "name": "pv1"}

bring_back := {"kind": "mend", "do": concat(" ", [
	"Bring CSI driver d1 back on node n1, or annotate the attachment with what the driver calls the node",
	"(csi.alpha.kubernetes.io/node-id): the attacher then detaches the volume",
])}

mend := {"kind": "mend", "do": "Fix what the error names, at CSI driver d1 or at the storage behind it: its attacher tries again"}

own_force := {
	"kind": "force",
	"do": "Detach the volume by hand at the storage, then remove the finalizer: one that is still attached may lose data",
	"action": data.termguard.lib.finalizers.taking_out(["volumeattachments.storage.k8s.io/va1"], "", [[0, "external-attacher/d1"]]),
}

volume_force := {"kind": "force", "do": concat(" ", [
	"Detach the volume by hand at the storage, then remove the finalizer of its attachment:",
	"one that is still attached may lose data",
])}

test_attachment if {
	expected := {
		"msg": "a volume stays attached to node n1: nothing tells what CSI driver d1 calls that node",
		"objects": [va, pv],
		"evidence": ["CSINode n1 lists: no driver"],
		"steps": [bring_back, own_force],
	}
	got := found with input as delete_attachment with data.cluster as lost
	got == {"deny": {expected}, "warn": set()}
	others := object.union(lost, {"csinodes": {"n1": {"drivers": ["d2", "d3"]}}})
	listing := found with input as delete_attachment with data.cluster as others
	listing == {"deny": {object.union(expected, {"evidence": ["CSINode n1 lists: d2, d3"]})}, "warn": set()}
}

test_attachment_that_fails if {
	inline := object.union(fails, {"attachments": {"va1": {"volume": ""}}})
	got := found with input as delete_attachment with data.cluster as inline
	got == {"deny": set(), "warn": {{
		"msg": "a volume stays attached to node n1: its attacher tries to detach it, and fails",
		"objects": [va],
		"evidence": ["status.detachError of VolumeAttachment va1: locked"],
		"steps": [mend, own_force],
	}}}
}

test_volume if {
	got := found with input as delete_volume("Released", held) with data.cluster as lost
	got == {
		"deny": {{
			"msg": "this volume stays attached to node n1: nothing tells what CSI driver d1 calls that node",
			"objects": [pv, va],
			"evidence": ["CSINode n1 lists: no driver"],
			"steps": [bring_back, volume_force],
		}},
		"warn": set(),
	}
	failing := found with input as delete_volume("Available", held) with data.cluster as fails
	failing == {"deny": set(), "warn": {{
		"msg": "this volume stays attached to node n1: its attacher tries to detach it, and fails",
		"objects": [pv, va],
		"evidence": ["status.detachError of VolumeAttachment va1: locked"],
		"steps": [mend, volume_force],
	}}}
}

test_nothing_to_wait_for if {
	every request in [
		delete_volume("Bound", held),
		delete_volume("Released", ["kubernetes.io/pv-protection"]),
		object.union(delete_attachment, {"request": {"name": "va2"}}),
		object.union(delete_attachment, {"request": {"operation": "UPDATE"}}),
	] {
		got := found with input as request with data.cluster as lost
		got == nothing
	}
}
