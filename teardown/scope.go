package teardown

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
	"github.com/termguard/termguard/scan"
)

// Scope is what is torn down.
type Scope struct {
	World    *cluster.World
	subjects []check.Subject
	// within are the namespaces that are named: what is in them may be added. All tells
	// that anything may.
	within map[string]bool
	all    bool
	notes  []string
	unseen []string
}

// Of is the teardown of what one command deletes, as a release of Helm.
func Of(world *cluster.World, subjects []check.Subject, notes, unseen []string) *Scope {
	return &Scope{World: world, subjects: subjects, notes: notes, unseen: unseen}
}

// Namespaces is the teardown of some namespaces of a place that was read, and of other
// objects that are named. The error names a namespace that is not there.
func Namespaces(place *scan.Place, namespaces []string, others ...check.Subject) (*Scope, error) {
	s := &Scope{World: place.World, within: map[string]bool{}, unseen: place.Unseen(), subjects: others}
	for _, name := range namespaces {
		if check.Immortal(policies.Object{Resource: "namespaces", Name: name}) {
			return nil, fmt.Errorf("namespace %s belongs to Kubernetes, which refuses its deletion: name what is in it", name)
		}
		s.within[name] = true
	}
	missing := maps.Clone(s.within)
	for _, subject := range place.Subjects() {
		home := subject.Namespace
		if subject.Type.GroupResource() == question.Namespaces {
			home = subject.Name
			delete(missing, home)
		}
		if home != "" && s.within[home] && !claim(subject) {
			s.subjects = append(s.subjects, subject)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("there is no namespace %s that you may read: see kubectl get namespaces", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	return s, s.hold(slices.Sorted(maps.Keys(s.within)))
}

// claim tells whether a subject is a claim: it goes with the namespace, after its pods.
func claim(s check.Subject) bool { return s.Type.GroupResource().String() == "persistentvolumeclaims" }

// recreated is a namespace that the API server creates again at once
// (pkg/controlplane/controller/systemnamespaces).
const recreated = "kube-node-lease"

// Everything is the teardown of all that a place holds.
func Everything(place *scan.Place) (*Scope, error) {
	s := &Scope{
		World: place.World, all: true, unseen: place.Unseen(),
		notes: []string{"the namespaces default, kube-system, kube-public and kube-node-lease stay, and what is in them, unless something of the order waits for it"},
	}
	for _, subject := range place.Subjects() {
		resource := subject.Type.GroupResource()
		if resource == question.Namespaces && subject.Name == recreated || claim(subject) {
			continue
		}
		s.subjects = append(s.subjects, subject)
	}
	var fronts []policies.Object
	var holding []string
	s.World.Read(func(f cluster.Facts) {
		for front := range f.Called() {
			if o := policies.Object(front); !slices.Contains(fronts, o) {
				fronts = append(fronts, o)
			}
		}
		holding = f.Holding()
	})
	for _, front := range fronts {
		subject, err := s.described(front)
		if err != nil {
			return nil, err
		}
		s.subjects = append(s.subjects, subject)
	}
	return s, s.hold(holding)
}

// hold adds what else in namespaces carries a finalizer that Kubernetes itself does not
// remove, as a Service with a load balancer.
func (s *Scope) hold(namespaces []string) error {
	var held []policies.Object
	s.World.Read(func(f cluster.Facts) {
		for _, namespace := range namespaces {
			for h := range f.Held(namespace, "") {
				if owner := h.Owner(); owner.State == cluster.Alive && len(owner.Runs) == 0 || h.Resource == "namespaces" {
					continue
				}
				if more := h.Count - len(h.Names); more > 0 {
					s.unseen = append(s.unseen, fmt.Sprintf("%d more %s in namespace %s with finalizer %s: the facts do not name them", more, h.Resource, namespace, h.Finalizer))
				}
				for _, name := range h.Names {
					held = append(held, policies.Object{Resource: h.Resource, Namespace: namespace, Name: name})
				}
			}
		}
	})
	have := map[policies.Object]bool{}
	for _, subject := range s.subjects {
		have[idOf(subject)] = true
	}
	for _, o := range held {
		if have[o] || o.Resource == "pods" { // which go with their namespace, first
			continue
		}
		have[o] = true
		subject, err := s.described(o)
		if err != nil {
			return err
		}
		s.subjects = append(s.subjects, subject)
	}
	return nil
}

// described is an object as the facts tell of it.
func (s *Scope) described(o policies.Object) (subject check.Subject, err error) {
	s.World.Read(func(f cluster.Facts) { subject, err = check.Described(f, o.Resource, o.Namespace, o.Name) })
	if err != nil && !check.Gone(err) {
		return subject, fmt.Errorf("describe %s: %w", scan.Shown(o), err)
	}
	return subject, nil
}

// mine tells whether an object may be added because something waits for it.
func (s *Scope) mine(o policies.Object) bool {
	if o.Namespace == "" {
		return s.all
	}
	return s.all || s.within[o.Namespace]
}

// finalizersOf are those in the metadata of an object.
func finalizersOf(s check.Subject) []string {
	found, _, _ := unstructured.NestedStringSlice(s.Object, "metadata", "finalizers")
	return found
}

var errTooMany = errors.New("more than 10,000 things would be added")
