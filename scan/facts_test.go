package scan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/facts"
)

// FromFacts returns a place from facts. They name the first few objects of a group, and
// only those can be evaluated. If namespaces are given, it is limited to them and their content.
func FromFacts(world *cluster.World, namespaces ...string) (*Place, error) {
	p := &Place{World: world}
	elsewhere := func(namespace string) bool { return len(namespaces) > 0 && !slices.Contains(namespaces, namespace) }
	var names []answer.Name
	kinds := map[answer.Name]Kind{}
	world.Read(func(f cluster.Facts) {
		add := func(kind Kind, resource, namespace, name string) {
			home := namespace
			if kind == Namespaces {
				home = name
			}
			if elsewhere(home) {
				return
			}
			n := answer.Name{Type: resource, Namespace: namespace, Name: name}
			if _, twice := kinds[n]; !twice && !immortal(kind, name) {
				kinds[n] = kind
				names = append(names, n)
			}
		}
		for _, resource := range []string{"namespaces", nodes, definitions} {
			for name := range sectionOf(world, strings.Replace(resource, definitions, "crds", 1)) {
				add(resources[resource], resource, "", name)
			}
		}
		unnamed := map[string]int{}
		for _, namespace := range f.Holding() {
			if elsewhere(namespace) {
				continue
			}
			named := map[string]map[string]bool{}
			for held := range f.Held(namespace, "") {
				if named[held.Resource] == nil {
					named[held.Resource] = map[string]bool{}
				}
				for _, name := range held.Names {
					named[held.Resource][name] = true
				}
			}
			for resource, names := range named {
				group := schema.ParseGroupResource(resource).Group
				kind, wanted := kindOf(resource, group, true)
				if !wanted || kind == Namespaces || kind == Nodes || kind == Definitions { // the facts name all of those
					continue
				}
				for _, name := range slices.Sorted(maps.Keys(names)) {
					add(kind, resource, namespace, name)
				}
				if more := f.Count(namespace, resource) - len(names); more > 0 && kind != Custom {
					unnamed[resource] += more
				}
			}
		}
		for _, byResource := range sectionOf(world, "terminating") {
			for resource, held := range byResource.(map[string]any) {
				for _, item := range held.(map[string]any)["objects"].([]any) {
					object := item.(map[string]any)
					add(Terminating, resource, object["namespace"].(string), object["name"].(string))
				}
			}
		}
		for pod := range f.AllPods() {
			if pod.Terminating {
				add(Terminating, "pods", pod.Namespace, pod.Name)
			}
		}
		for _, resource := range slices.Sorted(maps.Keys(unnamed)) {
			p.unseen = append(p.unseen, fmt.Sprintf("%d of the %s are not named in the snapshot, and were not asked about", unnamed[resource], resource))
		}
		p.hidden(f, false)
	})
	slices.SortFunc(names, func(a, b answer.Name) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var subjects []answer.Subject
	var missing []error
	world.Read(func(f cluster.Facts) {
		for _, n := range names {
			if s, exists := answer.Described(f, n.Type, n.Namespace, n.Name); exists {
				switch kinds[n] { // as a snapshot held
				case Custom:
					s.Hide("a snapshot does not tell what its status says")
				case Volumes:
					s.Hide("a snapshot does not tell whether it is bound")
				}
				subjects = append(subjects, s)
			} else {
				missing = append(missing, fmt.Errorf("the snapshot has no %s", s))
			}
		}
	})
	terminating := 0
	for _, s := range subjects {
		kind := kinds[answer.Name{Type: s.Type.GroupResource().String(), Namespace: s.Namespace, Name: s.Name}]
		if kind == Terminating {
			if terminating++; terminating > maxTerminating {
				continue
			}
		}
		p.subjects = append(p.subjects, candidate{kind: kind, subject: func() answer.Subject { return s }})
	}
	if more := terminating - maxTerminating; more > 0 {
		p.unseen = append(p.unseen, moreTerminating(more))
	}
	for _, err := range missing {
		p.unseen = append(p.unseen, err.Error())
	}
	return p, nil
}

// sectionOf returns a section of the facts.
func sectionOf(world *cluster.World, name string) (section map[string]any) {
	world.View(func(doc map[string]any) { section, _ = facts.Lookup(doc, name).(map[string]any) })
	return section
}
