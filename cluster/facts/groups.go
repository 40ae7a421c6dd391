package facts

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// Group is a set of names in the facts: the count, and the first few.
type Group struct {
	placed  bool
	limit   int
	members map[string]int // finalizer index, or Nowhere
	names   []string
	facts   map[string]any
}

// Nowhere is the place of a finalizer that is not in metadata.finalizers.
const Nowhere = -1

// NewGroup returns a group that names at most limit members; placed adds the finalizer's index in each.
func NewGroup(placed bool, limit int) Group {
	return Group{placed: placed, limit: limit, members: map[string]int{}, facts: map[string]any{}}
}

// Facts returns the group as the document has it.
func (g *Group) Facts() map[string]any { return g.facts }

func (g *Group) Empty() bool { return len(g.members) == 0 }

func (g *Group) Has(name string) bool {
	_, member := g.members[name]
	return member
}

// Names returns the first few members.
func (g *Group) Names() []string { return slices.Clone(g.names) }

// At returns the place of a member.
func (g *Group) At(name string) int { return g.members[name] }

// Least returns the n least values, in order, in linear time.
func Least[T any](values iter.Seq[T], n int, compare func(a, b T) int) []T {
	var least []T
	for v := range values {
		if i, _ := slices.BinarySearchFunc(least, v, compare); i < n {
			least = slices.Insert(least, i, v)
			least = least[:min(n, len(least))]
		}
	}
	return least
}

// Names is a group that is built while it is read.
type Names struct {
	Limit int
	count int
	least []string
}

func (n *Names) Add(name string) {
	n.count++
	if i, _ := slices.BinarySearch(n.least, name); i < n.Limit {
		n.least = slices.Insert(n.least, i, name)
		n.least = n.least[:min(n.Limit, len(n.least))]
	}
}

// Facts returns the group as the document has it, or nil.
func (n *Names) Facts() any {
	if n.count == 0 {
		return nil
	}
	return map[string]any{"count": n.count, "names": List(n.least)}
}

func (g *Group) Members() []string { return slices.Collect(maps.Keys(g.members)) }

// Add adds a name, or changes its place.
func (g *Group) Add(name string, at int) {
	g.members[name] = at
	if i, named := slices.BinarySearch(g.names, name); !named && (i < len(g.names) || len(g.names) < g.limit) {
		g.names = slices.Insert(g.names, i, name)
		g.names = g.names[:min(g.limit, len(g.names))]
	}
	g.publish()
}

func (g *Group) Remove(name string) {
	delete(g.members, name)
	if i, named := slices.BinarySearch(g.names, name); named {
		g.names = slices.Delete(g.names, i, i+1)
		if len(g.names) == 0 { // refill only now, so that removing many costs little each
			g.names = Least(maps.Keys(g.members), g.limit, strings.Compare)
		}
	}
	g.publish()
}

func (g *Group) publish() {
	g.facts["count"] = len(g.members)
	g.facts["names"] = List(g.names)
	if g.placed {
		at := make([]any, len(g.names))
		for i, name := range g.names {
			at[i] = g.members[name]
		}
		g.facts["at"] = at
	}
}

// Groups are the non-empty groups, by their path in the document.
type Groups struct {
	doc    Document
	limit  int
	byPath map[string]*Group
}

func NewGroups(doc Document, limit int) Groups {
	return Groups{doc: doc, limit: limit, byPath: map[string]*Group{}}
}

func pathKey(path []string) string { return strings.Join(path, "\x00") }

func (g Groups) At(path ...string) *Group { return g.byPath[pathKey(path)] }

// Add adds a name to the group at a path.
func (g Groups) Add(name string, path ...string) { g.made(false, path).Add(name, Nowhere) }

// Place is Add for a group whose facts have the finalizer's index.
func (g Groups) Place(name string, at int, path ...string) { g.made(true, path).Add(name, at) }

func (g Groups) made(placed bool, path []string) *Group {
	group := g.byPath[pathKey(path)]
	if group == nil {
		made := NewGroup(placed, g.limit)
		group = &made
		g.byPath[pathKey(path)] = group
		g.doc.Put(group.facts, path...)
	}
	return group
}

func (g Groups) Remove(name string, path ...string) {
	group := g.byPath[pathKey(path)]
	if group == nil {
		return
	}
	if group.Remove(name); group.Empty() {
		delete(g.byPath, pathKey(path))
		g.doc.Prune(path...)
	}
}
