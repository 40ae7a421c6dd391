package nodes

import (
	"cmp"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// This file keeps which volumes the CSI external-attacher cannot detach from their
// nodes, as far as the API shows it.

// attacherPrefix begins the finalizer that the external-attacher puts on an
// attachment before it attaches, and takes off once it has detached (github.com/
// kubernetes-csi/external-attacher, pkg/controller/util.go).
const attacherPrefix = "external-attacher/"

// nodeIDAnnotation of an attachment is what the driver calls the node. The attacher
// looks it up in the CSINode first (the same, csi_handler.go, getNodeID).
const nodeIDAnnotation = "csi.alpha.kubernetes.io/node-id"

// Why a volume is not detached.
const (
	// lost: nothing tells what the driver calls the node any more.
	lost = "lost"
	// fails: the attacher tried, and reports an error.
	fails = "fails"
)

type attachment struct {
	driver, volume, node string
	hasID                bool     // an annotation tells what the driver calls the node
	message              string   // of the last attempt to detach it
	group                []string // of those of its volume that are not detached
}

// KeepAttachment takes in a VolumeAttachment that an attacher has to detach.
func (p *Part) KeepAttachment(o *storagev1.VolumeAttachment) bool {
	p.ForgetAttachment(types.NamespacedName{Name: o.Name})
	kept := &attachment{
		driver: o.Spec.Attacher, node: o.Spec.NodeName, volume: facts.Or(o.Spec.Source.PersistentVolumeName, ""),
		hasID: o.Annotations[nodeIDAnnotation] != "",
	}
	if !slices.ContainsFunc(o.Finalizers, func(finalizer string) bool { return strings.HasPrefix(finalizer, attacherPrefix) }) {
		return false
	}
	if failed := o.Status.DetachError; failed != nil {
		kept.message = cmp.Or(facts.Shorten(failed.Message, facts.MaxText), "no reason given")
	}
	p.storage.attachments[o.Name] = kept
	if p.storage.attached[kept.node] == nil {
		p.storage.attached[kept.node] = map[string]bool{}
	}
	p.storage.attached[kept.node][o.Name] = true
	p.judgeAttachment(o.Name)
	return true
}

// ForgetAttachment undoes KeepAttachment.
func (p *Part) ForgetAttachment(key types.NamespacedName) {
	gone := p.storage.attachments[key.Name]
	if gone == nil {
		return
	}
	p.unlistAttachment(key.Name, gone)
	delete(p.storage.attachments, key.Name)
	if delete(p.storage.attached[gone.node], key.Name); len(p.storage.attached[gone.node]) == 0 {
		delete(p.storage.attached, gone.node)
	}
}

// judgeAttachment writes what keeps an attachment, by its name and its volume.
func (p *Part) judgeAttachment(name string) {
	a := p.storage.attachments[name]
	p.unlistAttachment(name, a)
	why := p.whyAttached(a)
	if why == "" {
		return
	}
	found := map[string]any{"why": why, "volume": a.volume, "node": p.strings.Box(a.node), "driver": p.strings.Box(a.driver)}
	if a.message != "" {
		found["message"] = a.message
	}
	p.doc.Child("attachments")[name] = found
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

// whyAttached says why an attachment stays, "" where nothing is known. Manifests do not show what is
// registered on the nodes.
func (p *Part) whyAttached(a *attachment) string {
	switch {
	case !a.hasID && !slices.Contains(p.storage.nodes[a.node], a.driver) && !p.options.Manifests:
		return lost
	case a.message != "":
		return fails
	}
	return ""
}
