package policies

import (
	"slices"
	"strings"
)

// concerned are the policies that may have something to say of a request: most
// name the resources and the facts without which they do not.
func concerned(all []Policy, input, facts map[string]any) []Policy {
	request, _ := input["request"].(map[string]any)
	resource := resourceOf(request)
	namespace, _ := request["namespace"].(string)
	old, _ := request["oldObject"].(map[string]any)
	metadata, _ := old["metadata"].(map[string]any)
	if resource == "namespaces" {
		namespace, _ = request["name"].(string)
		if namespace == "" { // an item of a deletecollection
			namespace, _ = metadata["name"].(string)
		}
	}
	uid, _ := metadata["uid"].(string)
	roots := map[string]any{"input": input, "data": map[string]any{"cluster": facts}}
	names := map[string]string{"$NAMESPACE": namespace, "$UID": uid}
	var found []Policy
	for _, p := range all {
		if len(p.Resources) > 0 && !slices.Contains(p.Resources, resource) {
			continue
		}
		if len(p.Needs) > 0 && !slices.ContainsFunc(p.Needs, func(path string) bool { return there(roots, path, names) }) {
			continue
		}
		found = append(found, p)
	}
	return found
}

// resourceOf is what a request is about, plural or plural.group.
func resourceOf(request map[string]any) string {
	about, _ := request["resource"].(map[string]any)
	resource, _ := about["resource"].(string)
	if group, _ := about["group"].(string); group != "" {
		return resource + "." + group
	}
	return resource
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
