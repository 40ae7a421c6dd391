// Package dependents finds the dependents that block the foreground deletion of their owner: it stays until each
// with blockOwnerDeletion is deleted, which the garbage collector also does in the foreground
// (pkg/controller/garbagecollector). The section "owners" lists, by UID, only dependents that may stay: with
// finalizers, pods on nodes that are not ready, or owners of such.
package dependents

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Part is the facts about dependents.
type Part struct {
	doc      facts.Document
	groups   facts.Groups
	byObject map[object]*link
	byUID    map[types.UID]*link
	blockers map[types.UID]int // blockers and shown dependents per owner
}

type object struct {
	resource string // "plural.group"
	key      types.NamespacedName
}

// link is a dependent and the one owner that it blocks.
type link struct {
	uid, owner types.UID
	listed     bool
}

// New returns a Part that writes into doc, at most limit objects per group.
func New(doc facts.Document, limit int) *Part {
	doc["owners"] = map[string]any{}
	return &Part{
		doc: doc, groups: facts.NewGroups(doc, limit),
		byObject: map[object]*link{}, byUID: map[types.UID]*link{}, blockers: map[types.UID]int{},
	}
}

// leafResources are treated as owning nothing: they are too numerous to keep.
var leafResources = map[string]bool{"pods": true, "endpointslices.discovery.k8s.io": true, "controllerrevisions.apps": true}

// Keep records the owner that an object blocks, and reports whether there is one.
func (p *Part) Keep(resource string, key types.NamespacedName, m metav1.Object) bool {
	if leafResources[resource] {
		return false
	}
	at := object{resource, key}
	uid, owner := m.GetUID(), facts.BlockingOwner(m)
	if l := p.byObject[at]; l != nil {
		if l.uid == uid && l.owner == owner {
			return true
		}
		p.Forget(resource, key)
	}
	if uid == "" || owner == "" {
		return false
	}
	if previous := p.byUID[uid]; previous != nil && p.setListed(previous, false) {
		p.propagate(previous.owner)
	}
	l := &link{uid: uid, owner: owner}
	p.byObject[at], p.byUID[uid] = l, l
	p.propagate(uid)
	return true
}

// Forget undoes Keep.
func (p *Part) Forget(resource string, key types.NamespacedName) {
	at := object{resource, key}
	l := p.byObject[at]
	if l == nil {
		return
	}
	delete(p.byObject, at)
	if p.byUID[l.uid] == l {
		delete(p.byUID, l.uid)
	}
	p.setListed(l, false)
	p.propagate(l.owner)
}

// Block lists an object that may stay under the owner that it blocks, in the group at path below. at is the
// index of a finalizer if placed is set, otherwise facts.Nowhere.
func (p *Part) Block(owner types.UID, name string, placed bool, at int, path ...string) {
	path = append([]string{"owners", string(owner)}, path...)
	if g := p.groups.At(path...); g == nil || !g.Has(name) {
		p.blockers[owner]++
	}
	if placed {
		p.groups.Place(name, at, path...)
	} else {
		p.groups.Add(name, path...)
	}
	p.propagate(owner)
}

// Unblock undoes Block.
func (p *Part) Unblock(owner types.UID, name string, path ...string) {
	path = append([]string{"owners", string(owner)}, path...)
	if g := p.groups.At(path...); g == nil || !g.Has(name) {
		return
	}
	p.groups.Remove(name, path...)
	p.release(owner)
	p.propagate(owner)
}

func (p *Part) release(owner types.UID) {
	if p.blockers[owner]--; p.blockers[owner] <= 0 {
		delete(p.blockers, owner)
	}
}

// propagate lists an object under its owner while something blocks it, and so on upwards.
func (p *Part) propagate(uid types.UID) {
	for {
		l := p.byUID[uid]
		if l == nil || !p.setListed(l, p.blockers[uid] > 0) {
			return
		}
		uid = l.owner
	}
}

func (p *Part) setListed(l *link, listed bool) bool {
	if l.listed == listed {
		return false
	}
	l.listed = listed
	path := []string{"owners", string(l.owner), "dependents", string(l.uid)}
	if listed {
		p.blockers[l.owner]++
		p.doc.Put(true, path...)
		return true
	}
	p.doc.Prune(path...)
	p.release(l.owner)
	return true
}
