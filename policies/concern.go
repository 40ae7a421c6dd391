package policies

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

type subject struct {
	input, cluster, params map[string]any

	resource   string // plural, or plural.group
	namespace  string // of the object, or itself
	name, uid  string
	finalizers bool // it has some, or known owners
	eviction   bool
	leaving    bool // DELETE of a Terminating object
}

func subjectOf(input, cluster, params map[string]any) *subject {
	request := child(input, "request")
	resource := child(request, "resource")
	metadata := child(child(request, "oldObject"), "metadata")
	s := &subject{input: input, cluster: cluster, params: params}
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

// Built-in groups are under k8s.io, or have no dot.
func (s *subject) custom() bool {
	_, group, _ := strings.Cut(s.resource, ".")
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}

func (s *subject) root(name string) map[string]any {
	switch name {
	case "cluster":
		return s.cluster
	case "params":
		return s.params
	}
	return s.input
}

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

func (s *subject) concerned(all []candidate) []Policy {
	var policies []Policy
	for i := range all {
		c := &all[i]
		if c.about(s) && (len(c.needs) == 0 || slices.ContainsFunc(c.needs, s.there)) {
			policies = append(policies, c.Policy)
		}
	}
	return policies
}

// need has documents needed together, joined by "and" in METADATA.
type need struct {
	documents []document
	resource  string // of the requests, "" for all
}

// document must exist and not be empty; a condition may follow PATH in METADATA.
type document struct {
	root      string
	path      []string
	condition string // one of conditions, "" for none
	values    []string
}

// conditions are conditions on values: none of these, one of these, containing one, or greater.
var conditions = []string{"unless", "is", "with", "over"}

func needOf(text string) need {
	var n need
	text, n.resource, _ = strings.Cut(text, " for ")
	for text := range strings.SplitSeq(text, " and ") {
		var d document
		for _, word := range conditions {
			if path, values, ok := strings.Cut(text, " "+word+" "); ok {
				text, d.condition, d.values = path, word, strings.Split(values, " or ")
			}
		}
		d.path = strings.Split(strings.TrimPrefix(text, "data."), ".")
		d.root, d.path = d.path[0], d.path[1:]
		n.documents = append(n.documents, d)
	}
	return n
}

const evictions = "pods/eviction"

// A policy for pods is also for evictions, but not vice versa.
func (p *Policy) about(s *subject) bool {
	return len(p.Resources) == 0 || slices.Contains(p.Resources, s.resource) || s.eviction && slices.Contains(p.Resources, evictions)
}

func (s *subject) there(n need) bool {
	if n.resource != "" && n.resource != s.resource {
		return false
	}
	for i := range n.documents {
		d := &n.documents[i]
		if !s.reaches(s.root(d.root), d.path, d) {
			return false
		}
	}
	return true
}

func (s *subject) reaches(from any, path []string, d *document) bool {
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
		from, path = under(from, s.expand(element)), below
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
	return d.condition == "" || s.fits(fmt.Sprint(from), d)
}

func (s *subject) expand(word string) string {
	switch word {
	case "$NAMESPACE":
		return s.namespace
	case "$NAME":
		return s.name
	case "$UID":
		return s.uid
	case "$CLUSTER":
		return "" // of cluster-scoped objects, which METADATA could not write
	}
	return word
}

func (s *subject) fits(value string, d *document) bool {
	switch d.condition {
	case "unless":
		return !slices.Contains(d.values, value)
	case "is":
		return slices.ContainsFunc(d.values, func(word string) bool { return value == s.expand(word) })
	case "with":
		return slices.ContainsFunc(d.values, func(text string) bool { return strings.Contains(value, text) })
	case "over":
		return slices.ContainsFunc(d.values, func(bound string) bool { return over(value, bound) })
	}
	return true
}

// over is true if either is no number.
func over(value, bound string) bool {
	v, err := strconv.ParseFloat(value, 64)
	b, bad := strconv.ParseFloat(bound, 64)
	return err != nil || bad != nil || v > b
}

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
