package cluster

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// Change is an object before and after a repair; nil for none.
type Change struct {
	Resource
	Before, After runtime.Object
}

// Repair is a hypothetical change of a cluster.
type Repair struct {
	Changes []Change
	// Probed are the nodes whose probes report nothing after it.
	Probed []string
}

// Meanwhile calls f while the facts are as after a repair. Nothing else may change them.
func (w *World) Meanwhile(r Repair, f func()) error {
	restore, err := w.repair(r)
	w.Settle()
	if err == nil {
		f()
	}
	err = errors.Join(err, restore())
	w.Settle()
	return err
}

func (w *World) repair(r Repair) (restore func() error, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hide := w.sight.Reveal(func(resource string) bool {
		return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.reveals(resource) })
	})
	w.resight()
	unprobe := w.nodes.ForgetReports(r.Probed)
	for _, c := range r.Changes {
		err = errors.Join(err, w.change(c.Resource, c.Before, c.After))
	}
	return func() (err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range slices.Backward(r.Changes) {
			err = errors.Join(err, w.change(c.Resource, c.After, c.Before))
		}
		unprobe()
		hide()
		w.resight()
		return err
	}, err
}

// change is for holders of the lock.
func (w *World) change(res Resource, before, after runtime.Object) error {
	if after != nil {
		return w.apply(res, after, before == nil)
	}
	return w.remove(res, before)
}

// reveals reports whether a resource can be read after the change: an API that did not answer, or objects that
// did not convert, may have hidden it.
func (c Change) reveals(resource string) bool {
	m, err := meta.Accessor(c.Before)
	if err != nil {
		return false
	}
	switch c.String() {
	case "apiservices.apiregistration.k8s.io":
		_, group, _ := strings.Cut(m.GetName(), ".")
		return strings.HasSuffix(resource, "."+group)
	case "customresourcedefinitions.apiextensions.k8s.io":
		return resource == m.GetName()
	}
	return false
}

// Lacks returns the CSI and DRA drivers that pods on a node need, and that it lacks.
func (w *World) Lacks(node string) (csi, dra []string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.nodes.Lacks(node)
}
