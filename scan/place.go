package scan

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/question"
)

// Place is a part of a cluster that was read at once: all of it, or a namespace.
type Place struct {
	World    *cluster.World
	subjects []candidate
	unseen   []string
	unlisted []Kind // kinds of which some objects could not be listed
	// interrupted says that not all of it was read.
	interrupted bool
}

// NotRead records that the read was interrupted before a namespace was read.
func (p *Place) NotRead(namespace string) {
	p.interrupted = true
	p.unseen = append(p.unseen, "namespace "+namespace+": not read yet")
}

// Subjects returns the objects that are evaluated as one object each, by kind.
func (p *Place) Subjects() iter.Seq2[Kind, check.Subject] {
	return func(yield func(Kind, check.Subject) bool) {
		for _, a := range p.subjects {
			if a.release == nil && !yield(a.kind, a.subject()) {
				return
			}
		}
	}
}

// Unlisted reports whether some objects of a kind could not be listed, and so were not evaluated.
func (p *Place) Unlisted(kind Kind) bool { return slices.Contains(p.unlisted, kind) }

// candidate is an object to evaluate. Its subject is made when it is needed: a cluster has many.
type candidate struct {
	kind    Kind
	subject func() check.Subject
	release *check.Release // nil for other kinds
}

// resources maps resources to their kind.
var resources = map[string]Kind{
	"namespaces": Namespaces, "nodes": Nodes, "persistentvolumes": Volumes, "persistentvolumeclaims": Claims,
	"customresourcedefinitions.apiextensions.k8s.io": Definitions,
}

// kindOf returns the kind of an object, false if it is evaluated only while Terminating.
func kindOf(resource string, group string, held bool) (Kind, bool) {
	if kind, known := resources[resource]; known {
		return kind, true
	}
	if !held || group == "" || slices.Contains(cluster.BuiltinGroups(), group) {
		return "", false
	}
	return Custom, true
}

// immortal reports whether the API server never deletes an object: its blockers say nothing.
func immortal(kind Kind, name string) bool {
	return kind == Namespaces && question.Immortal(name)
}

// questions returns the questions of some kinds.
func (p *Place) questions(only []Kind) []query {
	questions := make([]query, 0, len(p.subjects))
	for _, a := range p.subjects {
		if slices.Contains(only, a.kind) {
			questions = append(questions, query{a, p})
		}
	}
	return questions
}

// now returns the time of the facts, RFC 3339.
func (p *Place) now() (now string) {
	p.World.Read(func(f cluster.Facts) { now = f.Now().Format(time.RFC3339) })
	return now
}

// hidden adds the resources that could not be listed, whose objects were not evaluated.
func (p *Place) hidden(f cluster.Facts) {
	for _, u := range f.Unseen() {
		text := u.Resource + ": " + u.Reason
		switch u.Reason {
		case "elsewhere":
			continue
		case "syncing":
			text = u.Resource + ": not read yet"
		}
		_, group, _ := strings.Cut(u.Resource, ".")
		if kind, known := kindOf(u.Resource, group, true); known {
			p.unlisted = append(p.unlisted, kind)
		}
		if u.Namespace != "" {
			text += " in namespace " + u.Namespace
		}
		p.unseen = append(p.unseen, text)
	}
}
