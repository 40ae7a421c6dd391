// Package dependents keeps who holds up the deletion of its owner. An object that
// is deleted in the foreground stays until each dependent whose owner reference
// has blockOwnerDeletion is gone, which the garbage collector deletes the same way
// (pkg/controller/garbagecollector). The section "owners" of the facts holds, by
// the UID of the owner, just the dependents that may not go: those with
// finalizers, those that are pods of a node that is not ready, and those that have
// such dependents in turn. Which they are the other parts tell.
package dependents

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Part is the part of the facts that tells it.
type Part struct {
	doc      facts.Document
	groups   facts.Groups
	byObject map[object]*link
	byUID    map[types.UID]*link
	holding  map[types.UID]int // what holds an owner up: blockers, and dependents that are shown
}

type object struct {
	resource string // "plural.group"
	key      types.NamespacedName
}

// link says which object blocks the deletion of which: a dependent and the one
// owner that it blocks.
type link struct {
	uid, owner types.UID
	shown      bool // as a dependent that may not go
}

// New returns a Part that writes into doc and names at most limit objects of a group.
func New(doc facts.Document, limit int) *Part {
	doc["owners"] = map[string]any{}
	return &Part{
		doc: doc, groups: facts.NewGroups(doc, limit),
		byObject: map[object]*link{}, byUID: map[types.UID]*link{}, holding: map[types.UID]int{},
	}
}

// leaves own nothing, by decision: there are too many of them to remember whom
// they block.
var leaves = map[string]bool{"pods": true, "endpointslices.discovery.k8s.io": true, "controllerrevisions.apps": true}

// Keep remembers whom an object blocks, and tells whether it blocks anybody.
func (p *Part) Keep(resource string, key types.NamespacedName, m metav1.Object) bool {
	if leaves[resource] {
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
	if before := p.byUID[uid]; before != nil && p.show(before, false) {
		p.chain(before.owner)
	}
	l := &link{uid: uid, owner: owner}
	p.byObject[at], p.byUID[uid] = l, l
	p.chain(uid)
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
	p.show(l, false)
	p.chain(l.owner)
}

// Block puts something that may not go under the owner that it blocks: a name
// in the group at path, below the owner. at is where a finalizer stands in it,
// for a group that tells; facts.Nowhere for others.
func (p *Part) Block(owner types.UID, name string, placed bool, at int, path ...string) {
	path = append([]string{"owners", string(owner)}, path...)
	if g := p.groups.At(path...); g == nil || !g.Has(name) {
		p.holding[owner]++
	}
	if placed {
		p.groups.Place(name, at, path...)
	} else {
		p.groups.Add(name, path...)
	}
	p.chain(owner)
}

// Unblock undoes Block.
func (p *Part) Unblock(owner types.UID, name string, path ...string) {
	path = append([]string{"owners", string(owner)}, path...)
	if g := p.groups.At(path...); g == nil || !g.Has(name) {
		return
	}
	p.groups.Remove(name, path...)
	p.release(owner)
	p.chain(owner)
}

func (p *Part) release(owner types.UID) {
	if p.holding[owner]--; p.holding[owner] <= 0 {
		delete(p.holding, owner)
	}
}

// chain makes the owner of an object show it as a dependent exactly if it has
// such itself, and so on upwards as long as something changes.
func (p *Part) chain(uid types.UID) {
	for {
		l := p.byUID[uid]
		if l == nil || !p.show(l, p.holding[uid] > 0) {
			return
		}
		uid = l.owner
	}
}

// show tells whether it changed anything.
func (p *Part) show(l *link, shown bool) bool {
	if l.shown == shown {
		return false
	}
	l.shown = shown
	path := []string{"owners", string(l.owner), "dependents", string(l.uid)}
	if shown {
		p.holding[l.owner]++
		p.doc.Put(true, path...)
		return true
	}
	p.doc.Prune(path...)
	p.release(l.owner)
	return true
}
