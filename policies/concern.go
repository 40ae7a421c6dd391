package policies

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// subject is what a request is about.
type subject struct {
	resource   string // plural, or plural.group
	namespace  string // the one that is deleted, or that the object is in
	name, uid  string // of the object itself
	finalizers bool   // it has some, or their owners are known
	eviction   bool
	leaving    bool // it is being deleted already, and a deletion is asked about
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
	s.leaving = request["operation"] == "DELETE" && metadata["deletionTimestamp"] != nil
	s.eviction = request["operation"] == "CREATE" && request["subResource"] == "eviction"
	return s
}

// custom tells whether its kind is not one of Kubernetes itself, whose groups are under
// k8s.io, or have no dot.
func (s subject) custom() bool {
	_, group, _ := strings.Cut(s.resource, ".")
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}

// documents are what a policy can read.
type documents struct{ input, cluster, params map[string]any }

func (d documents) root(name string) map[string]any {
	switch name {
	case "cluster":
		return d.cluster
	case "params":
		return d.params
	}
	return d.input
}

// candidate is a policy, and what it needs: of every policy that is asked on a
// trigger, each review looks at this first.
type candidate struct {
	Policy
	needs []need
}

func candidateOf(p Policy) candidate {
	c := candidate{Policy: p}
	for _, text := range p.Needs {
		c.needs = append(c.needs, needOf(text))
	}
	return c
}

// concerned are the policies that may have something to say of a request: most
// name the resources and the facts without which they do not.
func (s subject) concerned(all []candidate, read documents) []Policy {
	var found []Policy
	for i := range all {
		c := &all[i]
		if !c.about(s) {
			continue
		}
		if len(c.needs) > 0 && !slices.ContainsFunc(c.needs, func(n need) bool { return s.there(n, read) }) {
			continue
		}
		found = append(found, c.Policy)
	}
	return found
}

// need are documents that a policy needs together, joined by "and" in METADATA.
type need struct {
	documents []document
	resource  string // for requests about it only, "" for all
}

// document must exist and not be empty. What else of it is wanted follows PATH in
// METADATA.
type document struct {
	root   string // input, cluster or params
	path   []string
	wanted string // one of wants, "" for nothing
	values []string
}

// wants are what METADATA can want of a document, beside values: to be none of them, or
// one, to hold one as text, or to be more.
var wants = []string{"unless", "is", "with", "over"}

func needOf(text string) need {
	var n need
	text, n.resource, _ = strings.Cut(text, " for ")
	for text := range strings.SplitSeq(text, " and ") {
		var d document
		for _, word := range wants {
			if path, values, found := strings.Cut(text, " "+word+" "); found {
				text, d.wanted, d.values = path, word, strings.Split(values, " or ")
			}
		}
		d.path = strings.Split(strings.TrimPrefix(text, "data."), ".")
		d.root, d.path = d.path[0], d.path[1:]
		n.documents = append(n.documents, d)
	}
	return n
}

// evictions stand in METADATA for pods that are evicted.
const evictions = "pods/eviction"

// about tells whether the policy is one for the resource of a request. Pods are, too,
// what is evicted; evictions are that alone.
func (p *Policy) about(s subject) bool {
	return len(p.Resources) == 0 || slices.Contains(p.Resources, s.resource) || s.eviction && slices.Contains(p.Resources, evictions)
}

// there tells whether what is needed together is there.
func (s subject) there(n need, read documents) bool {
	if n.resource != "" && n.resource != s.resource {
		return false
	}
	for i := range n.documents {
		d := &n.documents[i]
		if !s.reaches(read.root(d.root), d.path, d) {
			return false
		}
	}
	return true
}

// reaches tells whether a document is there, from another on.
func (s subject) reaches(from any, path []string, d *document) bool {
	for len(path) > 0 {
		element, below := path[0], path[1:]
		switch element {
		case "**":
			if s.reaches(from, below, d) {
				return true
			}
			return anyOf(from, func(member any) bool { return s.reaches(member, path, d) })
		case "*":
			return anyOf(from, func(member any) bool { return s.reaches(member, below, d) })
		}
		from, path = under(from, s.named(element)), below
	}
	switch v := whole(from).(type) {
	case nil:
		return false
	case string:
		return v != "" && s.fits(v, d)
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return d.wanted == "" || s.fits(fmt.Sprint(from), d)
}

// named is what a word of METADATA stands for.
func (s subject) named(word string) string {
	switch word {
	case "$NAMESPACE":
		return s.namespace
	case "$NAME":
		return s.name
	case "$UID":
		return s.uid
	case "$CLUSTER":
		return "" // the namespace of what is in none, which METADATA could not write
	}
	return word
}

// fits tells whether a value is as a document is wanted.
func (s subject) fits(value string, d *document) bool {
	switch d.wanted {
	case "unless":
		return !slices.Contains(d.values, value)
	case "is":
		return slices.ContainsFunc(d.values, func(word string) bool { return value == s.named(word) })
	case "with":
		return slices.ContainsFunc(d.values, func(text string) bool { return strings.Contains(value, text) })
	case "over":
		return slices.ContainsFunc(d.values, func(bound string) bool { return over(value, bound) })
	}
	return true
}

// over tells whether a number is more than another. What is none may be.
func over(value, bound string) bool {
	v, err := strconv.ParseFloat(value, 64)
	b, bad := strconv.ParseFloat(bound, 64)
	return err != nil || bad != nil || v > b
}

// anyOf tells whether something is true of a member of an object or a list.
func anyOf(document any, is func(member any) bool) bool {
	switch d := whole(document).(type) {
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
