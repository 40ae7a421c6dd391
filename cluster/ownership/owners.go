package ownership

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

const (
	// maxLinks bounds the links of a resource: few objects are between an operator and its installer, or makers.
	maxLinks  = 1000
	maxHeight = 8
)

// owner is an object's only owner: with several, it stays until all are deleted (k8s.io/kubernetes,
// pkg/controller/garbagecollector, attemptToDeleteItem).
type owner struct {
	uid  types.UID
	what string // "KIND/NAME" or "KIND.GROUP/NAME"
}

func onlyOwner(m metav1.Object) owner {
	refs := m.GetOwnerReferences()
	if len(refs) != 1 {
		return owner{}
	}
	kind := schema.GroupKind{Group: schema.FromAPIVersionAndKind(refs[0].APIVersion, "").Group, Kind: refs[0].Kind}
	return owner{uid: refs[0].UID, what: kind.String() + "/" + refs[0].Name}
}

// link is kept of a custom object that may own workloads, or be the maker of a definition.
type link struct {
	there bool
	uid   types.UID
	owner owner
}

func (p *Part) keepLink(resource string, key types.NamespacedName, m metav1.Object) bool {
	if !facts.Custom(facts.GroupOf(resource)) {
		return false
	}
	now, before := link{true, m.GetUID(), onlyOwner(m)}, p.links[resource][key]
	if key.Namespace != "" && now.owner == (owner{}) || !before.there && len(p.links[resource]) == maxLinks {
		now = link{}
	}
	p.setLink(resource, key, now)
	return now.there
}

func (p *Part) setLink(resource string, key types.NamespacedName, now link) {
	before := p.links.set(resource, key, now)
	if before == now {
		return
	}
	delete(p.ownerOf, before.uid)
	if now.uid != "" && now.owner != (owner{}) {
		p.ownerOf[now.uid] = now.owner
	}
	p.dirty = true
}

// rows are grouped by how they are read. The zero row is none.
type rows[K, R comparable] map[string]map[K]R

func (r rows[K, R]) set(group string, key K, now R) (before R) {
	var none R
	before = r[group][key]
	switch {
	case now != none && r[group] == nil:
		r[group] = map[K]R{key: now}
	case now != none:
		r[group][key] = now
	case before != none:
		if delete(r[group], key); len(r[group]) == 0 {
			delete(r, group)
		}
	}
	return before
}

// ownersOf returns the common owners, the nearest first, with the owners' owners.
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
