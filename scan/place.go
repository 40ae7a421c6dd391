package scan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// Place is a part of a cluster that was read at once: all of it, or a namespace.
type Place struct {
	World    *cluster.World
	subjects []asked
	unseen   []string
}

// asked is an object that is asked about, made as it is needed: a cluster has many.
type asked struct {
	kind    Kind
	subject func() check.Subject
}

// resources of the kinds that have one.
var resources = map[string]Kind{
	"namespaces": Namespaces, "nodes": Nodes, "persistentvolumes": Volumes, "persistentvolumeclaims": Claims,
	"customresourcedefinitions.apiextensions.k8s.io": Definitions,
}

// kindOf is what an object is asked about as, false for what is not asked about unless it
// is Terminating.
func kindOf(resource string, group string, held bool) (Kind, bool) {
	if kind, known := resources[resource]; known {
		return kind, true
	}
	if !held || group == "" || slices.Contains(cluster.BuiltinGroups(), group) {
		return "", false
	}
	return Custom, true
}

// immortal tells whether an object is one that the API server never deletes: to ask what
// would hold it says nothing.
func immortal(kind Kind, name string) bool {
	return kind == Namespaces && check.Immortal(policies.Object{Resource: "namespaces", Name: name})
}

// questions are those about the kinds that are wanted.
func (p *Place) questions(only []Kind) []question {
	questions := make([]question, 0, len(p.subjects))
	for _, a := range p.subjects {
		if slices.Contains(only, a.kind) {
			questions = append(questions, question{a, p})
		}
	}
	return questions
}

// now is the time of the facts, RFC 3339.
func (p *Place) now() (now string) {
	p.World.View(func(doc map[string]any) { now, _ = doc["now"].(string) })
	return now
}

// FromFacts is what can be asked about facts that were read before, as a snapshot: of
// groups of objects they name the first few, and the others cannot be asked about.
func FromFacts(world *cluster.World) (*Place, error) {
	p := &Place{World: world}
	var names []check.Name
	kinds := map[check.Name]Kind{}
	world.View(func(doc map[string]any) {
		add := func(kind Kind, resource, namespace, name string) {
			n := check.Name{Type: resource, Namespace: namespace, Name: name}
			if _, twice := kinds[n]; !twice && !immortal(kind, name) {
				kinds[n] = kind
				names = append(names, n)
			}
		}
		for resource, section := range map[string]string{
			"namespaces": "namespaces", "nodes": "nodes", "customresourcedefinitions.apiextensions.k8s.io": "crds",
		} {
			for _, name := range slices.Sorted(maps.Keys(child(doc, section))) {
				add(resources[resource], resource, "", name)
			}
		}
		unnamed := map[string]int{}
		for namespace, byFinalizer := range child(doc, "finalized") {
			named := map[string]map[string]bool{}
			for _, byResource := range whole(byFinalizer) {
				for resource, groups := range whole(byResource) {
					if named[resource] == nil {
						named[resource] = map[string]bool{}
					}
					for _, group := range whole(groups) {
						list, _ := whole(group)["names"].([]any)
						for _, name := range list {
							if name, is := name.(string); is {
								named[resource][name] = true
							}
						}
					}
				}
			}
			for resource, names := range named {
				group := schema.ParseGroupResource(resource).Group
				kind, wanted := kindOf(resource, group, true)
				if !wanted || kind == Namespaces || kind == Nodes || kind == Definitions { // all of those are on record
					continue
				}
				for _, name := range slices.Sorted(maps.Keys(names)) {
					add(kind, resource, namespace, name)
				}
				if more := number(child(child(doc, "counts"), namespace)[resource]) - len(names); more > 0 && kind != Custom {
					unnamed[resource] += more
				}
			}
		}
		for _, byResource := range child(doc, "terminating") {
			for resource, held := range whole(byResource) {
				objects, _ := whole(held)["objects"].([]any)
				for _, object := range objects {
					namespace, _ := whole(object)["namespace"].(string)
					name, _ := whole(object)["name"].(string)
					add(Terminating, resource, namespace, name)
				}
			}
		}
		for namespace, pods := range child(doc, "pods") {
			for name, pod := range whole(pods) {
				if whole(pod)["deletionTimestamp"] != nil {
					add(Terminating, "pods", namespace, name)
				}
			}
		}
		for _, resource := range slices.Sorted(maps.Keys(unnamed)) {
			p.unseen = append(p.unseen, fmt.Sprintf("%d of the %s are not named in the snapshot, and were not asked about", unnamed[resource], resource))
		}
		p.hidden(doc)
	})
	slices.SortFunc(names, func(a, b check.Name) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	subjects, missing, err := check.AllFromFacts(world, names)
	if err != nil {
		return nil, err
	}
	for _, s := range subjects {
		kind := kinds[check.Name{Type: s.Type.GroupResource().String(), Namespace: s.Namespace, Name: s.Name}]
		p.subjects = append(p.subjects, asked{kind, func() check.Subject { return s }})
	}
	for _, err := range missing {
		p.unseen = append(p.unseen, err.Error())
	}
	return p, nil
}

// hidden adds what could not be listed, whose objects were not asked about.
func (p *Place) hidden(doc map[string]any) {
	list, _ := doc["unseen"].([]any)
	for _, item := range list {
		u := whole(item)
		resource, _ := u["resource"].(string)
		reason, _ := u["reason"].(string)
		if reason == "elsewhere" {
			continue
		}
		text := resource + ": " + reason
		if namespace, is := u["namespace"].(string); is && namespace != "" {
			text += " in namespace " + namespace
		}
		if !slices.Contains(p.unseen, text) {
			p.unseen = append(p.unseen, text)
		}
	}
}

// whole is a section or a map of the facts as a map.
func whole(value any) map[string]any {
	m, _ := policies.Whole(value).(map[string]any)
	return m
}

func child(m map[string]any, key string) map[string]any { return whole(m[key]) }

// number reads a number of the facts: an int from a cluster, a float64 from a file.
func number(value any) int {
	switch n := value.(type) {
	case int:
		return n
	case float64:
		return int(n)
	}
	return 0
}
