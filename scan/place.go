package scan

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

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
	unlisted []Kind          // of which some could not be listed
	leftOut  map[Kind]string // what cannot be asked about here at all, and why
	// interrupted tells that not all of it was read.
	interrupted bool
}

// NotRead says that the reading was interrupted before a namespace was read.
func (p *Place) NotRead(namespace string) {
	p.interrupted = true
	p.unseen = append(p.unseen, "namespace "+namespace+": not read yet")
}

// Subjects are the objects that are asked about as one object each, by their kind.
func (p *Place) Subjects() iter.Seq2[Kind, check.Subject] {
	return func(yield func(Kind, check.Subject) bool) {
		for _, a := range p.subjects {
			if a.release == nil && !yield(a.kind, a.subject()) {
				return
			}
		}
	}
}

// Unlisted tells whether some of a kind could not be listed, and so were not asked about.
func (p *Place) Unlisted(kind Kind) bool { return slices.Contains(p.unlisted, kind) }

// asked is an object that is asked about, made as it is needed: a cluster has many.
type asked struct {
	kind    Kind
	subject func() check.Subject
	release *check.Release // nil of other kinds
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
	p.World.Read(func(f cluster.Facts) { now = f.Now().Format(time.RFC3339) })
	return now
}

// FromFacts is what can be asked about facts that were read before, as a snapshot: of
// groups of objects they name the first few, and the others cannot be asked about. Where
// namespaces are named, it asks about those only, and what is in them.
func FromFacts(world *cluster.World, namespaces ...string) (*Place, error) {
	p := &Place{World: world, leftOut: map[Kind]string{Releases: "Helm releases: their records are Secrets, which these facts do not hold"}}
	elsewhere := func(namespace string) bool { return len(namespaces) > 0 && !slices.Contains(namespaces, namespace) }
	var names []check.Name
	kinds := map[check.Name]Kind{}
	world.Read(func(f cluster.Facts) {
		add := func(kind Kind, resource, namespace, name string) {
			home := namespace
			if kind == Namespaces {
				home = name
			}
			if elsewhere(home) {
				return
			}
			n := check.Name{Type: resource, Namespace: namespace, Name: name}
			if _, twice := kinds[n]; !twice && !immortal(kind, name) {
				kinds[n] = kind
				names = append(names, n)
			}
		}
		for _, resource := range []string{"namespaces", nodes, definitions} {
			for _, name := range f.Names(resource, "") {
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
				if !wanted || kind == Namespaces || kind == Nodes || kind == Definitions { // all of those are on record
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
		for o := range f.Waiting() {
			add(Terminating, o.Resource, o.Namespace, o.Name)
		}
		for pod := range f.AllPods() {
			if pod.Terminating {
				add(Terminating, "pods", pod.Namespace, pod.Name)
			}
		}
		for _, resource := range slices.Sorted(maps.Keys(unnamed)) {
			p.unseen = append(p.unseen, fmt.Sprintf("%d of the %s are not named in the snapshot, and were not asked about", unnamed[resource], resource))
		}
		p.hidden(f)
	})
	slices.SortFunc(names, func(a, b check.Name) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	subjects, missing, err := check.AllFromFacts(world, names)
	if err != nil {
		return nil, err
	}
	terminating := 0
	for _, s := range subjects {
		kind := kinds[check.Name{Type: s.Type.GroupResource().String(), Namespace: s.Namespace, Name: s.Name}]
		if kind == Terminating {
			if terminating++; terminating > maxTerminating {
				continue
			}
		}
		p.subjects = append(p.subjects, asked{kind: kind, subject: func() check.Subject { return s }})
	}
	if more := terminating - maxTerminating; more > 0 {
		p.unseen = append(p.unseen, moreTerminating(more))
	}
	for _, err := range missing {
		p.unseen = append(p.unseen, err.Error())
	}
	return p, nil
}

// hidden adds what could not be listed, whose objects were not asked about.
func (p *Place) hidden(f cluster.Facts) {
	var lacks []string
	for _, u := range f.Unseen() {
		text := u.Resource + ": " + u.Reason
		switch u.Reason {
		case "elsewhere":
			continue
		case "syncing":
			text = u.Resource + ": not read yet"
		case "version":
			lacks = append(lacks, u.Resource)
			continue
		}
		_, group, _ := strings.Cut(u.Resource, ".")
		if kind, known := kindOf(u.Resource, group, true); known {
			p.unlisted = append(p.unlisted, kind)
		}
		if u.Namespace != "" {
			text += " in namespace " + u.Namespace
		}
		if !slices.Contains(p.unseen, text) {
			p.unseen = append(p.unseen, text)
		}
	}
	if len(lacks) > 0 {
		p.unseen = append(p.unseen, policies.Lacking(lacks))
	}
}
