package ownership

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

const (
	// maxLinks bounds a resource's objects with a kept owner: few are between an operator and its installer.
	maxLinks  = 1000
	maxHeight = 8
)

// owner is an object's only owner, and is deleted with it. With several, it stays until all are deleted
// (k8s.io/kubernetes, pkg/controller/garbagecollector, attemptToDeleteItem).
type owner struct {
	uid  types.UID
	what string // "KIND/NAME" or "KIND.GROUP/NAME"
}

// onlyOwner returns the zero owner if there is none, or more than one.
func onlyOwner(m metav1.Object) owner {
	refs := m.GetOwnerReferences()
	if len(refs) != 1 {
		return owner{}
	}
	kind := schema.GroupKind{Group: schema.FromAPIVersionAndKind(refs[0].APIVersion, "").Group, Kind: refs[0].Kind}
	return owner{uid: refs[0].UID, what: kind.String() + "/" + refs[0].Name}
}

type links map[types.NamespacedName]link

type link struct {
	uid   types.UID
	owner owner
}

// KeepLink records a custom object's owner, and reports whether it did: the object may own workloads in turn.
func (p *Part) KeepLink(resource string, key types.NamespacedName, m metav1.Object) bool {
	if !facts.Custom(facts.GroupOf(resource)) {
		return false
	}
	now := link{uid: m.GetUID(), owner: onlyOwner(m)}
	if now == p.links[resource][key] {
		return now.owner != owner{}
	}
	p.ForgetLink(resource, key)
	if now.uid == "" || now.owner == (owner{}) || len(p.links[resource]) == maxLinks {
		return false
	}
	if p.links[resource] == nil {
		p.links[resource] = links{}
	}
	p.links[resource][key], p.ownerOf[now.uid] = now, now.owner
	p.dirty = true
	return true
}

// ForgetLink undoes KeepLink.
func (p *Part) ForgetLink(resource string, key types.NamespacedName) {
	was, known := p.links[resource][key]
	if !known {
		return
	}
	delete(p.ownerOf, was.uid)
	if delete(p.links[resource], key); len(p.links[resource]) == 0 {
		delete(p.links, resource)
	}
	p.dirty = true
}

// ownersOf returns the common owners of workloads, the nearest first, with the owners' owners.
func (p *Part) ownersOf(workloads []workload) []owner {
	var common []owner
	for i, wl := range workloads {
		var above []owner
		for at := wl.owner; at != (owner{}) && len(above) < maxHeight && !slices.Contains(above, at); at = p.ownerOf[at.uid] {
			above = append(above, at)
		}
		if i == 0 {
			common = above
			continue
		}
		common = slices.DeleteFunc(common, func(o owner) bool { return !slices.Contains(above, o) })
	}
	return common
}
