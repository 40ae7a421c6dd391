package nodes

import (
	"cmp"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// This file finds the volumes that the CSI external-attacher cannot detach from their nodes, as far as the
// API shows it.

// attacherPrefix begins the finalizer that the external-attacher sets before it attaches a volume and removes
// after it has detached it (github.com/kubernetes-csi/external-attacher, pkg/controller/util.go).
const attacherPrefix = "external-attacher/"

// nodeIDAnnotation on an attachment is the driver's name of the node. The attacher first looks for it in the
// CSINode (same repository, csi_handler.go, getNodeID).
const nodeIDAnnotation = "csi.alpha.kubernetes.io/node-id"

// The reasons that a volume is not detached.
const (
	// lost: the driver's name of the node is no longer known.
	lost = "lost"
	// fails: the attacher reports an error.
	fails = "fails"
)

type attachment struct {
	driver, volume, node string
	hasID                bool     // an annotation has the driver's name of the node
	message              string   // error of the last attempt to detach
	group                []string // path of its group in the facts
}

// KeepAttachment records a VolumeAttachment that an attacher must detach.
func (p *Part) KeepAttachment(o *storagev1.VolumeAttachment) bool {
	p.ForgetAttachment(types.NamespacedName{Name: o.Name})
	a := &attachment{
		driver: o.Spec.Attacher, node: o.Spec.NodeName, volume: facts.Or(o.Spec.Source.PersistentVolumeName, ""),
		hasID: o.Annotations[nodeIDAnnotation] != "",
	}
	if !slices.ContainsFunc(o.Finalizers, func(finalizer string) bool { return strings.HasPrefix(finalizer, attacherPrefix) }) {
		return false
	}
	if failed := o.Status.DetachError; failed != nil {
		a.message = cmp.Or(facts.Shorten(failed.Message, facts.MaxText), "no reason given")
	}
	p.storage.attachments[o.Name] = a
	if p.storage.attached[a.node] == nil {
		p.storage.attached[a.node] = map[string]bool{}
	}
	p.storage.attached[a.node][o.Name] = true
	p.judgeAttachment(o.Name)
	return true
}

// ForgetAttachment undoes KeepAttachment.
func (p *Part) ForgetAttachment(key types.NamespacedName) {
	a := p.storage.attachments[key.Name]
	if a == nil {
		return
	}
	p.unlistAttachment(key.Name, a)
	delete(p.storage.attachments, key.Name)
	if delete(p.storage.attached[a.node], key.Name); len(p.storage.attached[a.node]) == 0 {
		delete(p.storage.attached, a.node)
	}
}

// judgeAttachment writes why an attachment stays, by its name and its volume.
func (p *Part) judgeAttachment(name string) {
	a := p.storage.attachments[name]
	p.unlistAttachment(name, a)
	why := p.whyAttached(a)
	if why == "" {
		return
	}
	entry := map[string]any{"why": why, "volume": a.volume, "node": p.strings.Box(a.node), "driver": p.strings.Box(a.driver)}
	if a.message != "" {
		entry["message"] = a.message
	}
	p.doc.Child("attachments")[name] = entry
	if a.volume != "" {
		a.group = []string{"attachmentsOf", a.volume, why}
		p.groups.Add(name, a.group...)
	}
}

func (p *Part) unlistAttachment(name string, a *attachment) {
	if a.group != nil {
		p.groups.Remove(name, a.group...)
		a.group = nil
	}
	p.doc.Prune("attachments", name)
}

// whyAttached returns why an attachment stays, "" if unknown. Manifests do not show which drivers are
// registered on nodes.
func (p *Part) whyAttached(a *attachment) string {
	switch {
	case !a.hasID && !slices.Contains(p.storage.nodes[a.node], a.driver) && !p.options.Manifests:
		return lost
	case a.message != "":
		return fails
	}
	return ""
}
