package lint

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// Order is one in which the objects of a set can be deleted without a hang, for who writes
// manifests and has no cluster that check could make a plan for: those of one
// place at once, the next when they are gone.
type Order struct {
	// Folder of the set, "" for files that were given.
	Folder string
	Places [][]Ordered
}

// Ordered is an object in an order. Its Namespace is that of the manifest.
type Ordered struct {
	policies.Object
	// Open tells that the manifest leaves the namespace to who applies it.
	Open bool
	schema.GroupVersionKind
	// For has to outlive it: the workload that removes a finalizer of it or answers for it,
	// or the APIService that serves it.
	For *policies.Object
}

// order puts first what needs a workload of the set, then the rest, and last Namespaces and
// CustomResourceDefinitions, which take others with them. A finalizer needs the workload
// that removes it; an APIService, and a webhook that fails closed, keep others from going
// once theirs is gone.
func (a *asker) order(subjects []*subject) Order {
	needed := map[policies.Object][]policies.Object{}
	needs := func(object, other policies.Object) {
		if a.index[object] != nil && a.index[other] != nil && object != other && !slices.Contains(needed[object], other) {
			needed[object] = append(needed[object], other)
		}
	}
	a.facts.Read(func(f cluster.Facts) {
		for front, workload := range f.Fronts() {
			needs(policies.Object(front), policies.Object(workload))
		}
	})
	for _, sub := range subjects {
		gvk := schema.FromAPIVersionAndKind(sub.APIVersion, sub.Kind)
		needs(sub.id, policies.Object{Resource: "apiservices.apiregistration.k8s.io", Name: gvk.Version + "." + gvk.Group})
		if sub.object == nil || len(sub.object.GetFinalizers()) == 0 {
			continue
		}
		a.facts.Ask(sub.target().Delete(nil), func(m cluster.Moment) {
			for _, verdict := range m.Ownership().All() {
				for _, runs := range verdict.Runs {
					needs(sub.id, policies.Object(runs))
				}
			}
		})
	}
	for _, others := range needed {
		slices.SortFunc(others, func(x, y policies.Object) int {
			return cmp.Or(cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
	}
	// before tells how many have to go, one after the other, before an object does: two that
	// need each other are no reason to go round in circles.
	before := map[policies.Object]int{}
	for range 2 + len(needed) {
		changed := false
		for object, others := range needed {
			for _, other := range others {
				if before[other] <= before[object] && before[object] <= len(needed) {
					before[other], changed = before[object]+1, true
				}
			}
		}
		if !changed {
			break
		}
	}
	rest := 0
	for _, n := range before {
		rest = max(rest, n)
	}
	order := Order{Folder: a.set.folder, Places: make([][]Ordered, rest+2)}
	for _, sub := range subjects {
		kind := schema.FromAPIVersionAndKind(sub.APIVersion, sub.Kind)
		entry, place := Ordered{Object: sub.id, GroupVersionKind: kind}, rest
		if sub.Namespace == "" && entry.Namespace != "" {
			entry.Namespace, entry.Open = "", true
		}
		if others := needed[sub.id]; len(others) > 0 {
			entry.For, place = &others[0], before[sub.id]
		} else if kind.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) || kind.GroupKind() == (schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
			place = rest + 1
		}
		order.Places[place] = append(order.Places[place], entry)
	}
	order.Places = slices.DeleteFunc(order.Places, func(p []Ordered) bool { return len(p) == 0 })
	for _, place := range order.Places {
		slices.SortFunc(place, func(x, y Ordered) int {
			return cmp.Or(cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
	}
	return order
}
