package teardown

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

// relate finds what has to be gone before what. Things that are added on the way are asked
// about, too.
func (m *maker) relate(ctx context.Context) error {
	for from := 0; from < len(m.nodes); {
		if len(m.nodes)-len(m.subjects) > maxAdded {
			return errTooMany
		}
		which := make([]int, 0, len(m.nodes)-from)
		for i := from; i < len(m.nodes); i++ {
			which = append(which, i)
		}
		from = len(m.nodes)
		heard := make(map[policies.Object]said, len(which))
		var mu sync.Mutex
		err := m.ask(ctx, which, func(ctx context.Context, n *node) error {
			report, err := check.Ask(ctx, m.engine, m.World, n.subject, m.options.Delete)
			found := said{}
			if err != nil {
				return err
			}
			found.steps = deletesFirst(report.Findings)
			m.World.Ask(n.subject.Deletion(m.options.Delete), func(moment cluster.Moment) {
				for finalizer, verdict := range moment.Ownership().All() {
					for _, runs := range verdict.Runs {
						found.removers = append(found.removers, remover{policies.Object(runs), finalizer})
					}
				}
			})
			slices.SortFunc(found.removers, func(a, b remover) int { return strings.Compare(a.finalizer, b.finalizer) })
			mu.Lock()
			defer mu.Unlock()
			heard[n.id] = found
			return nil
		})
		if err != nil {
			return err
		}
		for _, i := range which {
			if err := m.owned(i); err != nil {
				return err
			}
			if err := m.follow(i, heard[m.nodes[i].id]); err != nil {
				return err
			}
		}
	}
	m.contained()
	m.fronts()
	return nil
}

// said is what was said of the deletion of one thing, alone.
type said struct {
	steps    []first
	removers []remover
}

// first are objects that a finding wants deleted before.
type first struct {
	objects []policies.Object
	why     string
}

// remover is a workload that removes a finalizer.
type remover struct {
	workload  policies.Object
	finalizer string
}

// deletesFirst are what findings want deleted before. A node is never: its step says "if its
// machine is off for good", which nobody here knows.
func deletesFirst(findings []policies.Finding) (found []first) {
	for _, f := range findings {
		if f.Severity == policies.Info {
			continue
		}
		for _, step := range f.Steps {
			if objects := deletedBy(step); len(objects) > 0 {
				found = append(found, first{objects, f.Message})
			}
		}
	}
	return found
}

// deletedBy are the objects that a step deletes without force; nil for another step.
func deletedBy(step policies.Step) (objects []policies.Object) {
	if step.Action == nil || step.Action.Verb != policies.VerbDelete || step.Kind == policies.Force {
		return nil
	}
	for _, object := range step.Action.Objects {
		resource, name, _ := strings.Cut(object, "/")
		if resource == "nodes" {
			return nil
		}
		objects = append(objects, policies.Object{Resource: resource, Namespace: step.Action.Namespace, Name: name})
	}
	return objects
}

// before notes that a thing has to be gone before another.
func (m *maker) before(first, then int, why string) {
	if pair := [2]int{first, then}; first != then && !m.known[pair] {
		m.known[pair] = true
		m.edges = append(m.edges, edge{first: first, then: then, why: why})
	}
}

// carrier is the thing with which an object goes: itself, the workload of a pod, its
// namespace. It is false where that is not torn down.
func (m *maker) carrier(o policies.Object) (int, bool) {
	if at, known := m.at[o]; known {
		return at, true
	}
	if o.Resource == "pods" {
		workload := ""
		m.World.Read(func(f cluster.Facts) { workload = f.Pod(o.Namespace, o.Name).Workload })
		kind, name, _ := strings.Cut(workload, "/")
		for _, resource := range []string{"deployments.apps", "statefulsets.apps", "daemonsets.apps", "replicasets.apps", "jobs.batch"} {
			if strings.HasPrefix(resource, strings.ToLower(kind)+"s.") {
				if at, known := m.at[policies.Object{Resource: resource, Namespace: o.Namespace, Name: name}]; known {
					return at, true
				}
			}
		}
	}
	at, known := m.at[policies.Object{Resource: "namespaces", Name: o.Namespace}]
	return at, known && o.Namespace != ""
}

// follow notes what was said of a thing.
func (m *maker) follow(i int, what said) error {
	for _, r := range what.removers {
		if at, known := m.carrier(r.workload); known {
			m.before(i, at, fmt.Sprintf("%s removes %s", scan.Shown(r.workload), r.finalizer))
			m.nodes[at].serves = m.nodes[at].serves || at != i
		}
	}
	for _, step := range what.steps {
		for _, o := range step.objects {
			if o == m.nodes[i].id {
				continue
			}
			// Pods, and their claims, go with the namespace, in its order.
			if _, known := m.at[o]; !known && m.mine(o) && o.Resource != "pods" && o.Resource != "persistentvolumeclaims" {
				subject, err := m.described(o)
				if err != nil {
					return err
				}
				m.add(subject)
			}
			if at, known := m.carrier(o); known {
				m.before(at, i, step.why)
			}
		}
	}
	return nil
}

// owned has what controls a thing go before it: while it is there, it makes the thing anew.
// Deleted in the background, it is gone first in any case.
func (m *maker) owned(i int) error {
	s := m.nodes[i].subject
	owner := metav1.GetControllerOf(&unstructured.Unstructured{Object: s.Object})
	if owner == nil {
		return nil
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil //nolint:nilerr // the API server would not have taken it
	}
	resource := m.resourceOf(owner.Kind, gv.Group)
	for _, o := range []policies.Object{{Resource: resource, Namespace: s.Namespace, Name: owner.Name}, {Resource: resource, Name: owner.Name}} {
		at, known := m.at[o]
		if !known && resource != "" && m.mine(o) && (o.Namespace != "") == m.namespaced(resource) {
			subject, err := m.described(o)
			if err != nil {
				return err
			}
			at, known = m.add(subject), true
		}
		if known {
			if !m.known[[2]int{i, at}] {
				m.before(at, i, "it controls it, and would make it anew")
			}
			return nil
		}
	}
	return nil
}

// resourceOf is the resource of a custom kind, "" where there is no definition of it.
func (m *maker) resourceOf(kind, group string) string {
	if m.kinds == nil {
		m.kinds = map[string]string{}
		m.World.Read(func(f cluster.Facts) {
			for _, name := range f.Names(resourceDefinition, "") {
				m.kinds[f.Definition(name).Kind+"."+schema.ParseGroupResource(name).Group] = name
			}
		})
	}
	return m.kinds[kind+"."+group]
}

func (m *maker) namespaced(resource string) (is bool) {
	m.World.Read(func(f cluster.Facts) { is = f.Definition(resource).Namespaced })
	return is
}

// contained has what is in a namespace, of a definition, or served by an API server, go
// before that.
func (m *maker) contained() {
	said := len(m.edges)
	defer func() {
		for i := range m.edges[said:] {
			m.edges[said+i].plain = true
		}
	}()
	byGroup := map[string][]int{}
	for i, n := range m.nodes {
		if n.rank == apiservices {
			_, group, _ := strings.Cut(n.id.Name, ".")
			byGroup[group] = append(byGroup[group], i)
		}
	}
	for i, n := range m.nodes {
		if at, known := m.at[policies.Object{Resource: "namespaces", Name: n.id.Namespace}]; known && n.id.Namespace != "" {
			m.before(i, at, "it is in it")
		}
		if at, known := m.at[policies.Object{Resource: resourceDefinition, Name: n.id.Resource}]; known {
			m.before(i, at, "it is one of its objects")
		}
		if n.rank == custom {
			for _, at := range byGroup[schema.ParseGroupResource(n.id.Resource).Group] {
				m.before(i, at, "it is served by it")
			}
		}
	}
}

// fronts has APIServices and configurations of webhooks go before what is behind them.
func (m *maker) fronts() {
	type front struct{ front, behind policies.Object }
	var all []front
	m.World.Read(func(f cluster.Facts) {
		for o, workload := range f.Fronts() {
			all = append(all, front{policies.Object(o), policies.Object(workload)})
		}
	})
	for _, one := range all {
		at, torn := m.at[one.front]
		behind, known := m.carrier(one.behind)
		if !torn || !known {
			continue
		}
		m.before(at, behind, "it is served from there")
		m.nodes[behind].serves = true
	}
}
