package lint

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// Order is one in which the objects of a set can be deleted without a hang: those of one
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
	// For is the workload that has to outlive it, as it removes a finalizer of it.
	For *policies.Object
}

// order puts first what waits for a workload of the set, then the rest, and last
// Namespaces and CustomResourceDefinitions, which take others with them.
func (a *asker) order(subjects []*subject) Order {
	removers := map[policies.Object][]policies.Object{}
	for _, sub := range subjects {
		if sub.object == nil || len(sub.object.GetFinalizers()) == 0 {
			continue
		}
		a.facts.Ask(sub.target().Delete(nil), func(m cluster.Moment) {
			for _, verdict := range m.Ownership().All() {
				for _, runs := range verdict.Runs {
					workload := policies.Object(runs)
					if _, together := a.index[workload]; together && workload != sub.id {
						removers[sub.id] = append(removers[sub.id], workload)
					}
				}
			}
		})
	}
	for _, workloads := range removers {
		slices.SortFunc(workloads, func(x, y policies.Object) int {
			return cmp.Or(cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
	}
	// before tells how many have to go, one after the other, before an object does: a
	// workload that waits for another is no reason to go round in circles.
	before := map[policies.Object]int{}
	for range 2 + len(removers) {
		changed := false
		for object, workloads := range removers {
			for _, workload := range workloads {
				if before[workload] <= before[object] && before[object] <= len(removers) {
					before[workload], changed = before[object]+1, true
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
		if workloads := removers[sub.id]; len(workloads) > 0 {
			entry.For, place = &workloads[0], before[sub.id]
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
