package nodes

import (
	"cmp"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Volumes that the CSI external-attacher cannot detach, as far as the API shows it.

// attacherPrefix begins the finalizer of a volume that the external-attacher has not detached
// (github.com/kubernetes-csi/external-attacher, pkg/controller/util.go).
const attacherPrefix = "external-attacher/"

// nodeIDAnnotation has the driver's name of the node, which the attacher first looks up in the CSINode (same
// repository, csi_handler.go, getNodeID).
const nodeIDAnnotation = "csi.alpha.kubernetes.io/node-id"

// The reasons that a volume is not detached.
const (
	// lost: the driver's name of the node is unknown.
	lost = "lost"
	// fails: the attacher reports an error.
	fails = "fails"
)

type attachment struct {
	driver, volume, node string
	hasID                bool   // an annotation has the driver's name of the node
	message              string // of the last attempt to detach
}

func attachmentOf(o *storagev1.VolumeAttachment) (a attachment, kept bool) {
	a = attachment{
		driver: o.Spec.Attacher, node: o.Spec.NodeName, volume: facts.Or(o.Spec.Source.PersistentVolumeName, ""),
		hasID: o.Annotations[nodeIDAnnotation] != "",
	}
	if failed := o.Status.DetachError; failed != nil {
		a.message = cmp.Or(facts.Shorten(failed.Message, facts.MaxText), "no reason given")
	}
	return a, slices.ContainsFunc(o.Finalizers, func(finalizer string) bool { return strings.HasPrefix(finalizer, attacherPrefix) })
}

func (p *Part) listAttachment(key types.NamespacedName, before, now attachment) {
	for _, why := range []string{lost, fails} {
		p.groups.Remove(key.Name, "attachmentsOf", before.volume, why)
	}
	why := p.whyAttached(now)
	entry := map[string]any{"why": why, "volume": now.volume, "node": now.node, "driver": now.driver}
	facts.Set(entry, "message", now.message, now.message != "")
	p.set(why != "", entry, "attachments", key.Name)
	if why != "" && now.volume != "" {
		p.groups.Add(key.Name, "attachmentsOf", now.volume, why)
	}
}

// whyAttached returns "" if unknown: manifests do not show which drivers are registered.
func (p *Part) whyAttached(a attachment) string {
	switch {
	case a == attachment{}:
	case !a.hasID && !slices.Contains(p.storage.nodes[named(a.node)], a.driver) && !p.options.Manifests:
		return lost
	case a.message != "":
		return fails
	}
	return ""
}
