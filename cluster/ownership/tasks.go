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

// task is a Job or a RoleBinding.
type task struct{ resource, name string }

// keepTask keeps a task's controller if it is a custom object.
func (p *Part) keepTask(resource string, key types.NamespacedName, m metav1.Object) bool {
	if resource != "jobs.batch" && resource != "rolebindings"+rbacGroup {
		return false
	}
	by := controllerOf(m)
	if !facts.Custom(by.kind.Group) {
		by = controller{}
	}
	p.tasks.set(key.Namespace, task{resource, key.Name}, by)
	return by != controller{}
}

// tasked is the section of finalized objects with tasks, if the owner runs, may create more, and is not in the
// catalog, which lists them.
func (p *Part) tasked() facts.Section {
	return facts.Section{
		Keys: func() iter.Seq[string] { return maps.Keys(p.tasks) },
		Below: func(namespace string) any {
			groups := map[kindHeld]*facts.Group{}
			for created, by := range p.tasks[namespace] {
				h := p.holding(p.Resource(by.kind), types.NamespacedName{Namespace: namespace, Name: by.name})
				if h == nil {
					continue
				}
				for _, b := range h.buckets {
					if !p.mayCreate(b.verdict, created.resource, namespace) {
						continue
					}
					group := groups[b.kind()]
					if group == nil {
						empty := facts.NewGroup(false, p.options.MaxNames)
						group = &empty
						groups[b.kind()] = group
						group.Facts()["creates"], group.Facts()["ownership"] = created.resource, b.verdict.facts
					}
					creates, _ := group.Facts()["creates"].(string)
					group.Facts()["creates"] = min(creates, created.resource)
					group.Add(by.name, facts.Nowhere)
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
