package facts

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Named is what has a name of its own in its namespace.
type Named interface{ Named() string }

// Directory holds what is kept of the objects of one namespace, in the order of their
// names. There may be very many, or a few in each of many namespaces: a map of them
// takes twice to three times the memory. The zero value is empty.
type Directory[T Named] struct {
	pages [][]T // none of them empty
}

// maxPage bounds what moves when one comes or goes.
const maxPage = 256

// find is where the one of a name is, or belongs.
func (d *Directory[T]) find(name string) (page, at int, found bool) {
	page, _ = slices.BinarySearchFunc(d.pages, name, func(page []T, name string) int {
		return strings.Compare(page[len(page)-1].Named(), name)
	})
	if page == len(d.pages) { // after all others
		if page--; page < 0 {
			return 0, 0, false
		}
		return page, len(d.pages[page]), false
	}
	at, found = slices.BinarySearchFunc(d.pages[page], name, func(v T, name string) int { return strings.Compare(v.Named(), name) })
	return page, at, found
}

// Empty tells whether there is nothing in it.
func (d *Directory[T]) Empty() bool { return len(d.pages) == 0 }

// At is the one of a name, to be read or changed in place until the next Put or Delete;
// nil if there is none.
func (d *Directory[T]) At(name string) *T {
	if page, at, found := d.find(name); found {
		return &d.pages[page][at]
	}
	return nil
}

// Put puts one in, in place of the one that has its name.
func (d *Directory[T]) Put(v T) {
	page, at, found := d.find(v.Named())
	switch {
	case found:
		d.pages[page][at] = v
	case len(d.pages) == 0:
		d.pages = [][]T{{v}}
	case len(d.pages[page]) < maxPage:
		d.pages[page] = slices.Insert(d.pages[page], at, v)
	case at == maxPage: // a listing comes in order, and leaves full pages behind
		d.pages = slices.Insert(d.pages, page+1, []T{v})
	default:
		full := d.pages[page]
		d.pages[page] = slices.Clone(full[:maxPage/2])
		d.pages = slices.Insert(d.pages, page+1, slices.Clone(full[maxPage/2:]))
		d.Put(v)
	}
}

// Delete takes out the one of a name.
func (d *Directory[T]) Delete(name string) {
	page, at, found := d.find(name)
	if !found {
		return
	}
	if d.pages[page] = slices.Delete(d.pages[page], at, at+1); len(d.pages[page]) == 0 {
		d.pages = slices.Delete(d.pages, page, page+1)
	}
}

// All are all of them, in order. They must not change meanwhile.
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

// Directories are one for each namespace, "" for objects in none.
type Directories[T Named] map[string]*Directory[T]

// At is the one of a key, to be read or changed in place until the next Put or Delete;
// nil if there is none.
func (d Directories[T]) At(key types.NamespacedName) *T {
	if in := d[key.Namespace]; in != nil {
		return in.At(key.Name)
	}
	return nil
}

// Put puts one in, in place of the one that has its name.
func (d Directories[T]) Put(namespace string, v T) {
	in := d[namespace]
	if in == nil {
		in = &Directory[T]{}
		d[namespace] = in
	}
	in.Put(v)
}

// Delete takes out the one of a key.
func (d Directories[T]) Delete(key types.NamespacedName) {
	in := d[key.Namespace]
	if in == nil {
		return
	}
	if in.Delete(key.Name); in.Empty() {
		delete(d, key.Namespace)
	}
}

// Keys are those of the ones that are meant.
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
