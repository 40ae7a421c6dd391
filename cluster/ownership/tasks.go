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

// KeepTask records the controller of a Job or a RoleBinding, and reports whether it did.
func (p *Part) KeepTask(resource string, key types.NamespacedName, m metav1.Object) bool {
	if resource != "jobs.batch" && resource != "rolebindings"+rbacGroup {
		return false
	}
	var by controller
	if by.kind, by.name = facts.Controller(m); by.name == "" || !facts.Custom(by.kind.Group) {
		p.ForgetTask(resource, key)
		return false
	}
	if p.tasks[key.Namespace] == nil {
		p.tasks[key.Namespace] = map[task]controller{}
	}
	p.tasks[key.Namespace][task{resource, key.Name}] = by
	return true
}

// ForgetTask undoes KeepTask.
func (p *Part) ForgetTask(resource string, key types.NamespacedName) {
	if delete(p.tasks[key.Namespace], task{resource, key.Name}); len(p.tasks[key.Namespace]) == 0 {
		delete(p.tasks, key.Namespace)
	}
}

// tasked is the section with the finalized objects that have such tasks, if the owner runs, may create more,
// and is not in the catalog, which lists what its owners create.
func (p *Part) tasked() facts.Section {
	return facts.Section{
		Keys: func() iter.Seq[string] { return maps.Keys(p.tasks) },
		Below: func(namespace string) any {
			type of struct{ finalizer, resource string }
			doc, names, creates, owners := facts.Document{}, map[of]map[string]bool{}, map[of]string{}, map[of]map[string]any{}
			for made, by := range p.tasks[namespace] {
				resource := p.Resource(by.kind)
				h := p.holding(resource, types.NamespacedName{Namespace: namespace, Name: by.name})
				if h == nil {
					continue
				}
				for _, b := range h.buckets {
					at := of{b.verdict.key.finalizer, resource}
					if _, known := p.options.Catalog.Lookup(at.finalizer, resource); known || b.verdict.state != Alive || !slices.ContainsFunc(b.verdict.workloads, func(wl workload) bool {
						lets, _, _ := p.Lets(wl.account, "create", made.resource, namespace)
						return lets
					}) {
						continue
					}
					if names[at] == nil {
						names[at], creates[at] = map[string]bool{}, made.resource
					}
					names[at][by.name], creates[at] = true, min(creates[at], made.resource)
					owners[at] = b.verdict.facts
				}
			}
			for at, all := range names {
				group := facts.Names{Limit: p.options.MaxNames}
				for name := range all {
					group.Add(name)
				}
				record, _ := group.Facts().(map[string]any)
				record["creates"], record["ownership"] = creates[at], owners[at]
				doc.Put(record, at.finalizer, at.resource)
			}
			if len(doc) == 0 {
				return nil
			}
			return map[string]any(doc)
		},
	}
}
