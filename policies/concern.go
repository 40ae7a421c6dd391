package policies

import (
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
	s.name, _ = metadata["name"].(string)
	if s.resource == "namespaces" {
		s.namespace, _ = request["name"].(string)
		if s.namespace == "" { // an item of a deletecollection
			s.namespace = s.name
		}
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

// concerned are the policies that may have something to say of a request: most
// name the resources and the facts without which they do not.
func (s subject) concerned(all []Policy, input, facts map[string]any) []Policy {
	roots := map[string]any{"input": input, "data": map[string]any{"cluster": facts}}
	names := map[string]string{"$NAMESPACE": s.namespace, "$UID": s.uid}
	var found []Policy
	for _, p := range all {
		if !p.about(s) {
			continue
		}
		if len(p.Needs) > 0 && !slices.ContainsFunc(p.Needs, func(path string) bool { return there(roots, path, names) }) {
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

// there tells whether the document at a path exists and is not empty.
func there(document any, path string, names map[string]string) bool {
	for element := range strings.SplitSeq(path, ".") {
		if name, placeholder := names[element]; placeholder {
			element = name
		}
		inner, _ := document.(map[string]any)
		document = inner[element]
	}
	switch d := document.(type) {
	case nil:
		return false
	case string:
		return d != ""
	case map[string]any:
		return len(d) > 0
	case []any:
		return len(d) > 0
	}
	return true
}
