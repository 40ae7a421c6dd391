package facts

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Reasons why a resource is unseen.
const (
	UnseenSyncing   = "syncing"   // not listed yet
	UnseenForbidden = "forbidden" // RBAC
	UnseenDiscovery = "discovery" // its API group cannot be read
	UnseenError     = "error"     // listing or watching it fails
	UnseenElsewhere = "elsewhere" // RBAC, except in the namespace in question
	UnseenTooMany   = "too-many"  // more in one namespace than is kept
	UnseenSnapshot  = "snapshot"  // a snapshot lacks it, or some of it
)

// Sight records the served API groups, and why resources are hidden.
type Sight struct {
	doc    Document
	unseen map[string]unseen // by "plural.group"
	cut    map[part]string   // messages of parts with more objects than are kept
	groups map[string]bool
}

type unseen struct {
	namespaced      bool
	reason, message string
}

type part struct{ resource, namespace string }

func NewSight(doc Document) *Sight {
	doc["unseen"] = []any{}
	return &Sight{doc: doc, unseen: map[string]unseen{}, cut: map[part]string{}, groups: map[string]bool{}}
}

// Hide records why a resource cannot be seen.
func (s *Sight) Hide(res Resource, reason, message string) {
	s.unseen[res.String()] = unseen{namespaced: res.Namespaced, reason: reason, message: message}
	s.publish()
}

func (s *Sight) Show(res Resource) {
	delete(s.unseen, res.String())
	s.publish()
}

// Reveal shows the resources that means selects, except those hidden by RBAC, until it is undone.
func (s *Sight) Reveal(means func(resource string) bool) (undo func()) {
	before := maps.Clone(s.unseen)
	maps.DeleteFunc(s.unseen, func(resource string, u unseen) bool { return u.reason != UnseenForbidden && means(resource) })
	s.publish()
	return func() {
		s.unseen = before
		s.publish()
	}
}

// Cut records that a namespace has more of a resource than is kept; "" withdraws it.
func (s *Sight) Cut(resource, namespace, message string) {
	at := part{resource, namespace}
	if s.cut[at] == message {
		return
	}
	if s.cut[at] = message; message == "" {
		delete(s.cut, at)
	}
	s.publish()
}

// Hidden returns why a resource, as "plural.group", cannot be seen; ok is false if it can.
func (s *Sight) Hidden(res string) (reason string, ok bool) {
	u, ok := s.unseen[res]
	return u.reason, ok
}

// Hidden is an unseen resource, or part of one, and the reason.
type Hidden struct {
	Resource   string
	Namespaced bool
	Namespace  string // "" for all
	Reason     string
}

func (s *Sight) Unseen() (all []Hidden) {
	for _, name := range slices.Sorted(maps.Keys(s.unseen)) {
		all = append(all, Hidden{Resource: name, Namespaced: s.unseen[name].namespaced, Reason: s.unseen[name].reason})
	}
	for _, at := range slices.SortedFunc(maps.Keys(s.cut), func(a, b part) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.namespace, b.namespace))
	}) {
		all = append(all, Hidden{at.resource, at.namespace != "", at.namespace, UnseenTooMany})
	}
	return all
}

func (s *Sight) publish() {
	list := []any{}
	for _, h := range s.Unseen() {
		record := map[string]any{"resource": h.Resource, "namespaced": h.Namespaced, "reason": h.Reason}
		if record["message"] = s.unseen[h.Resource].message; h.Reason == UnseenTooMany {
			record["namespace"], record["message"] = h.Namespace, s.cut[part{h.Resource, h.Namespace}]
		}
		list = append(list, record)
	}
	s.doc["unseen"] = list
}

// Serve replaces the served API groups.
func (s *Sight) Serve(groups []string) {
	s.groups = map[string]bool{}
	for _, group := range groups {
		s.groups[group] = true
	}
}

// Serves reports whether an API group, or one below it, is served: catalog entries may name a family
// ("azure.com").
func (s *Sight) Serves(group string) bool {
	return s.groups[group] || s.Below(group) > 0
}

// Below counts the served API groups below a domain.
func (s *Sight) Below(domain string) int {
	n := 0
	for g := range s.groups {
		if strings.HasSuffix(g, "."+domain) {
			n++
		}
	}
	return n
}

// ServesExactly reports whether this API group is served.
func (s *Sight) ServesExactly(group string) bool { return s.groups[group] }
