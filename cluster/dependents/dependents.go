// Package dependents finds the dependents that block the foreground deletion of their owner: it stays until each
// with blockOwnerDeletion is deleted, which the garbage collector also does in the foreground
// (pkg/controller/garbagecollector). The section "owners" lists, by UID, only dependents that may stay: with
// finalizers, pods on nodes that are not ready, or owners of such.
package dependents

import (
	"iter"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

type Part struct {
	limit    int
	byObject map[object]*link
	byUID    map[types.UID]*link
	listed   facts.Sets[types.UID, types.UID]      // dependents that may stay, by owner
	groups   map[types.UID]map[string]*facts.Group // other blockers, by owner and path
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

// New returns a Part that lists at most limit objects per group.
func New(doc facts.Document, limit int) *Part {
	p := &Part{
		limit: limit, byObject: map[object]*link{}, byUID: map[types.UID]*link{},
		listed: facts.Sets[types.UID, types.UID]{}, groups: map[types.UID]map[string]*facts.Group{},
	}
	doc["owners"] = facts.Section{Keys: p.owners, Below: p.owner}
	return p
}

func (p *Part) owners() iter.Seq[string] {
	uids := map[string]bool{}
	for uid := range p.listed {
		uids[string(uid)] = true
	}
	for uid := range p.groups {
		uids[string(uid)] = true
	}
	return maps.Keys(uids)
}

func (p *Part) owner(uid string) any {
	listed, groups := p.listed[types.UID(uid)], p.groups[types.UID(uid)]
	if len(listed)+len(groups) == 0 {
		return nil
	}
	doc := facts.Document{}
	for dependent := range listed {
		doc.Put(true, "dependents", string(dependent))
	}
	for path, group := range groups {
		doc.Put(group.Facts(), strings.Split(path, separator)...)
	}
	return map[string]any(doc)
}

// separator is in no name.
const separator = "\x00"

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
	groups, key := p.groups[owner], strings.Join(path, separator)
	if groups == nil {
		groups = map[string]*facts.Group{}
		p.groups[owner] = groups
	}
	if groups[key] == nil {
		group := facts.NewGroup(placed, p.limit)
		groups[key] = &group
	}
	groups[key].Add(name, at)
	p.propagate(owner)
}

func (p *Part) Unblock(owner types.UID, name string, path ...string) {
	groups, key := p.groups[owner], strings.Join(path, separator)
	group := groups[key]
	if group == nil {
		return
	}
	if group.Remove(name); group.Empty() {
		delete(groups, key)
	}
	if len(groups) == 0 {
		delete(p.groups, owner)
	}
	p.propagate(owner)
}

// propagate lists an object under its owner while something blocks it, and so on upwards.
func (p *Part) propagate(uid types.UID) {
	for {
		l := p.byUID[uid]
		if l == nil || !p.setListed(l, len(p.listed[uid])+len(p.groups[uid]) > 0) {
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
	p.listed.Set(l.owner, l.uid, listed)
	return true
}

// Finalized are dependents with one finalizer and the same evidence of its owner.
type Finalized struct {
	Namespace, Finalizer, Resource, Evidence string
	*facts.Group
}

func (p *Part) Blocking(owner types.UID) (all []Finalized) {
	visited := map[types.UID]bool{}
	for next := []types.UID{owner}; len(next) > 0; next = next[1:] {
		if visited[next[0]] {
			continue
		}
		visited[next[0]] = true
		next = slices.AppendSeq(next, maps.Keys(p.listed[next[0]]))
		for key, group := range p.groups[next[0]] {
			if path := strings.Split(key, separator); path[0] == "finalized" {
				all = append(all, Finalized{path[1], path[2], path[3], path[4], group})
			}
		}
	}
	return all
}

func (p *Part) HoldsUp(namespace string) bool {
	for _, groups := range p.groups {
		for key := range groups {
			if namespace == "" || strings.Split(key, separator)[1] == namespace {
				return true
			}
		}
	}
	return false
}
