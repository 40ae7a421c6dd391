package ownership

import (
	"iter"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Some owners create Jobs and RoleBindings beside their objects, also to clean up, which a Terminating
// namespace forbids.

// keepTask keeps the controller of a Job or a RoleBinding, a custom object.
func (p *Part) keepTask(resource string, key types.NamespacedName, m metav1.Object) bool {
	if resource != "jobs.batch" && resource != "rolebindings"+rbacGroup {
		return false
	}
	by := controllerOf(m)
	if !facts.Custom(by.kind.Group) {
		by = controller{}
	}
	p.tasks.set(resource, key, by)
	return by != controller{}
}

// tasked is the section with the finalized objects that have such tasks, if the owner runs, may create more,
// and is not in the catalog, which lists what its owners create.
func (p *Part) tasked() facts.Section {
	return facts.Section{
		Keys: func() iter.Seq[string] {
			namespaces := map[string]bool{}
			for _, tasks := range p.tasks {
				for key := range tasks {
					namespaces[key.Namespace] = true
				}
			}
			return maps.Keys(namespaces)
		},
		Below: func(namespace string) any {
			groups := map[kindHeld]*facts.Group{}
			for _, created := range slices.Sorted(maps.Keys(p.tasks)) {
				for key, by := range p.tasks[created] {
					h := p.holding(p.Resource(by.kind), types.NamespacedName{Namespace: namespace, Name: by.name})
					if key.Namespace != namespace || h == nil {
						continue
					}
					for _, b := range h.buckets {
						if !p.mayCreate(b.verdict, created, namespace) {
							continue
						}
						group := groups[b.kind()]
						if group == nil {
							empty := facts.NewGroup(false, p.options.MaxNames)
							group = &empty
							groups[b.kind()] = group
							group.Facts()["creates"], group.Facts()["ownership"] = created, b.verdict.facts
						}
						group.Add(by.name, facts.Nowhere)
					}
				}
			}
			doc := facts.Document{}
			for kind, group := range groups {
				doc.Put(group.Facts(), kind.finalizer, kind.resource)
			}
			if len(doc) == 0 {
				return nil
			}
			return map[string]any(doc)
		},
	}
}

func (p *Part) mayCreate(v *verdict, resource, namespace string) bool {
	_, catalogued := p.options.Catalog.Lookup(v.key.finalizer, v.key.resource)
	return !catalogued && v.state == Alive && slices.ContainsFunc(v.workloads, func(wl workload) bool {
		lets, _, _ := p.Lets(wl.account, "create", resource, namespace)
		return lets
	})
}
