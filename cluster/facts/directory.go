package facts

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Named is implemented by values with a unique name in their namespace.
type Named interface{ Named() string }

// Directory holds the values of one namespace, by name, in a half to a third of a map's memory. The zero
// value is empty.
type Directory[T Named] struct {
	pages [][]T // none of them empty
}

// maxPage bounds the values that a change moves.
const maxPage = 256

func (d *Directory[T]) find(name string) (page, at int, ok bool) {
	if d == nil {
		return 0, 0, false
	}
	page, _ = slices.BinarySearchFunc(d.pages, name, func(page []T, name string) int {
		return strings.Compare(page[len(page)-1].Named(), name)
	})
	if page == len(d.pages) {
		if page--; page < 0 {
			return 0, 0, false
		}
		return page, len(d.pages[page]), false
	}
	at, ok = slices.BinarySearchFunc(d.pages[page], name, func(v T, name string) int { return strings.Compare(v.Named(), name) })
	return page, at, ok
}

// Section returns a section with a record, or nil, for each value.
func (d *Directory[T]) Section(record func(T) any) Section {
	return Section{Keys: d.Names, Below: func(name string) any {
		if v := d.At(name); v != nil {
			return record(*v)
		}
		return nil
	}}
}

func (d *Directory[T]) Empty() bool { return len(d.pages) == 0 }

// At returns the value with a name, or nil. It may be changed in place until the next Put or Delete.
func (d *Directory[T]) At(name string) *T {
	if page, at, ok := d.find(name); ok {
		return &d.pages[page][at]
	}
	return nil
}

// Put adds a value, or replaces the one with its name.
func (d *Directory[T]) Put(v T) {
	page, at, ok := d.find(v.Named())
	switch {
	case ok:
		d.pages[page][at] = v
	case len(d.pages) == 0:
		d.pages = [][]T{{v}}
	case len(d.pages[page]) < maxPage:
		d.pages[page] = slices.Insert(d.pages[page], at, v)
	case at == maxPage: // a listing comes in order: leave full pages behind
		d.pages = slices.Insert(d.pages, page+1, []T{v})
	default:
		full := d.pages[page]
		d.pages[page] = slices.Clone(full[:maxPage/2])
		d.pages = slices.Insert(d.pages, page+1, slices.Clone(full[maxPage/2:]))
		d.Put(v)
	}
}

func (d *Directory[T]) Delete(name string) {
	page, at, ok := d.find(name)
	if !ok {
		return
	}
	if d.pages[page] = slices.Delete(d.pages[page], at, at+1); len(d.pages[page]) == 0 {
		d.pages = slices.Delete(d.pages, page, page+1)
	}
}

// All returns the values, in order. They must not change meanwhile.
func (d *Directory[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		if d == nil {
			return
		}
		for _, page := range d.pages {
			for _, v := range page {
				if !yield(v) {
					return
				}
			}
		}
	}
}

func (d *Directory[T]) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for v := range d.All() {
			if !yield(v.Named()) {
				return
			}
		}
	}
}

// Directories holds a Directory per namespace, "" for cluster-scoped objects.
type Directories[T Named] map[string]*Directory[T]

func (d Directories[T]) At(key types.NamespacedName) *T {
	return d[key.Namespace].At(key.Name)
}

func (d Directories[T]) Put(namespace string, v T) {
	in := d[namespace]
	if in == nil {
		in = &Directory[T]{}
		d[namespace] = in
	}
	in.Put(v)
}

func (d Directories[T]) Delete(key types.NamespacedName) {
	in := d[key.Namespace]
	if in == nil {
		return
	}
	if in.Delete(key.Name); in.Empty() {
		delete(d, key.Namespace)
	}
}

// Keys returns the keys of the values that means selects.
func (d Directories[T]) Keys(means func(T) bool) []types.NamespacedName {
	var keys []types.NamespacedName
	for namespace, in := range d {
		for v := range in.All() {
			if means(v) {
				keys = append(keys, types.NamespacedName{Namespace: namespace, Name: v.Named()})
			}
		}
	}
	return keys
}
