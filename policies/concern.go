package policies

import (
	"fmt"
	"slices"
	"strings"
)

// subject is what a request is about.
type subject struct {
	resource   string // plural, or plural.group
	namespace  string // the one that is deleted, or that the object is in
	name, uid  string // of the object itself
	finalizers bool   // it has some, or their owners are known
	eviction   bool
}

func subjectOf(input map[string]any) subject {
	request := child(input, "request")
	resource := child(request, "resource")
	metadata := child(child(request, "oldObject"), "metadata")
	var s subject
	s.resource, _ = resource["resource"].(string)
	if group, _ := resource["group"].(string); group != "" {
		s.resource += "." + group
	}
	s.namespace, _ = request["namespace"].(string)
	if s.name, _ = request["name"].(string); s.name == "" { // an item of a deletecollection
		s.name, _ = metadata["name"].(string)
	}
	if s.resource == "namespaces" {
		s.namespace = s.name
	}
	s.uid, _ = metadata["uid"].(string)
	finalizers, _ := metadata["finalizers"].([]any)
	s.finalizers = len(finalizers) > 0 || len(child(input, "ownership")) > 0
	s.eviction = request["operation"] == "CREATE" && request["subResource"] == "eviction"
	return s
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}

// documents are what a policy can read.
type documents struct{ input, cluster, params map[string]any }

// concerned are the policies that may have something to say of a request: most
// name the resources and the facts without which they do not.
func (s subject) concerned(all []Policy, read documents) []Policy {
	var found []Policy
	for _, p := range all {
		if !p.about(s) {
			continue
		}
		if len(p.Needs) > 0 && !slices.ContainsFunc(p.Needs, func(need string) bool { return s.there(need, read) }) {
			continue
		}
		found = append(found, p)
	}
	return found
}

// evictions stand in METADATA for pods that are evicted.
const evictions = "pods/eviction"

// about tells whether the policy is one for the resource of a request. Pods are, too,
// what is evicted; evictions are that alone.
func (p Policy) about(s subject) bool {
	return len(p.Resources) == 0 || slices.Contains(p.Resources, s.resource) || s.eviction && slices.Contains(p.Resources, evictions)
}

// there tells whether all documents exist that a policy needs together, joined by "and".
func (s subject) there(need string, read documents) bool {
	need, resource, only := strings.Cut(need, " for ")
	if only && resource != s.resource {
		return false
	}
	for document := range strings.SplitSeq(need, " and ") {
		if !s.has(document, read) {
			return false
		}
	}
	return true
}

// has tells whether a document exists, is not empty, and is another than usual: PATH,
// or PATH unless VALUE.
func (s subject) has(document string, read documents) bool {
	path, usual, _ := strings.Cut(document, " unless ")
	root, path, _ := strings.Cut(path, ".")
	from := read.input
	if root == "data" {
		root, path, _ = strings.Cut(path, ".")
		if from = read.cluster; root == "params" {
			from = read.params
		}
	}
	return s.reaches(from, path, usual)
}

// reaches is has, from a document on.
func (s subject) reaches(document any, path, usual string) bool {
	for path != "" {
		element, below, _ := strings.Cut(path, ".")
		switch element {
		case "**":
			if s.reaches(document, below, usual) {
				return true
			}
			return anyOf(document, func(member any) bool { return s.reaches(member, path, usual) })
		case "*":
			return anyOf(document, func(member any) bool { return s.reaches(member, below, usual) })
		case "$NAMESPACE":
			element = s.namespace
		case "$NAME":
			element = s.name
		case "$UID":
			element = s.uid
		}
		document, path = under(document, element), below
	}
	switch d := Whole(document).(type) {
	case nil:
		return false
	case string:
		return d != "" && d != usual
	case map[string]any:
		return len(d) > 0
	case []any:
		return len(d) > 0
	}
	return usual == "" || fmt.Sprint(document) != usual
}

// anyOf tells whether something is true of a member of an object or a list.
func anyOf(document any, is func(member any) bool) bool {
	switch d := Whole(document).(type) {
	case map[string]any:
		for _, member := range d {
			if is(member) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(d, is)
	}
	return false
}
