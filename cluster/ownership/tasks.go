package ownership

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// Some owners create Jobs, pods that end and RoleBindings beside their objects, also to clean up, which a
// Terminating namespace forbids; and some wait for pods that fail.

// task is a Job, a pod or a RoleBinding.
type task struct{ resource, name string }

type made struct {
	by      controller
	failure string // of a pod
	created int64  // a failing pod, in seconds of Unix time
	runs    bool   // a pod that never ends
}

func (p *Part) keepTask(resource string, key types.NamespacedName, m metav1.Object) bool {
	var now made
	switch resource {
	case "jobs.batch", "rolebindings" + rbacGroup:
		now.by = controllerOf(m)
	case "pods":
		pod, _ := m.(*corev1.Pod)
		by := controllerOf(m)
		if pod == nil || by.name == "" {
			break
		}
		if pod.Status.Phase == corev1.PodFailed {
			now.failure = string(corev1.PodFailed)
		}
		now.failure = cmp.Or(now.failure, facts.Failing(pod))
		now.by, now.runs = by, pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
	default:
		return false
	}
	if now.failure != "" {
		now.created = m.GetCreationTimestamp().Unix()
	} else if now.runs || !facts.Custom(now.by.kind.Group) {
		now = made{}
	}
	p.tasks.set(key.Namespace, task{resource, key.Name}, now)
	return now != made{}
}

// failing is the section of failing pods, and why they fail, by the objects that they were made for.
func (p *Part) failing() facts.Section {
	return facts.SectionOf(p.tasks, func(namespace string, tasks map[task]made) any {
		doc := facts.Document{}
		for t, pod := range tasks {
			by := pod.by
			for height := 0; pod.failure != "" && by.name != "" && height < maxHeight; height++ {
				if facts.Custom(by.kind.Group) {
					why := map[string]any{"why": pod.failure, "created": pod.created}
					doc.Put(why, p.Resource(by.kind), by.name, t.name)
				}
				by = p.above(types.NamespacedName{Namespace: namespace, Name: by.name}, by.kind)
			}
		}
		return map[string]any(doc)
	})
}

// above returns what controls a controller.
func (p *Part) above(key types.NamespacedName, kind schema.GroupKind) controller {
	if h := p.holding(p.Resource(kind), key); h != nil {
		return h.controller
	}
	if kind.Kind == "Job" {
		return p.tasks[key.Namespace][task{"jobs.batch", key.Name}].by
	}
	by, name, _ := strings.Cut(p.workloads[kind.Kind][key].owner.what, "/")
	return controller{schema.ParseGroupKind(by), name}
}

// tasked is the section of finalized objects with tasks, if the owner runs, may create more, and is not in the
// catalog, which lists them.
func (p *Part) tasked() facts.Section {
	return facts.SectionOf(p.tasks, func(namespace string, tasks map[task]made) any {
		doc := facts.Document{}
		groups := facts.NewGroups(doc, p.options.MaxNames)
		for created, task := range tasks {
			by := task.by
			h := p.holding(p.Resource(by.kind), types.NamespacedName{Namespace: namespace, Name: by.name})
			if h == nil || task.runs || !facts.Custom(by.kind.Group) {
				continue
			}
			for _, b := range h.buckets {
				if !p.mayCreate(b.verdict, created.resource, namespace) {
					continue
				}
				path := []string{b.kind().finalizer, b.kind().resource}
				groups.Add(by.name, path...)
				group := groups.At(path...).Facts()
				if creates, again := group["creates"].(string); !again || created.resource < creates {
					group["creates"] = created.resource
				}
				facts.Set(group, "ownership", b.verdict.facts, group["ownership"] == nil)
			}
		}
		if len(doc) == 0 {
			return nil
		}
		return map[string]any(doc)
	})
}

func (p *Part) mayCreate(v *verdict, resource, namespace string) bool {
	_, catalogued := p.options.Catalog.Lookup(v.key.finalizer, v.key.resource)
	return !catalogued && v.state == Alive && slices.ContainsFunc(v.workloads, func(wl workload) bool {
		lets, _, _ := p.Lets(wl.account, "create", resource, namespace)
		return lets
	})
}
