package webhook

import (
	"fmt"
	"path"
	"slices"
)

// Trust says whose annotations count: AllowAnnotation, and the one that declares
// who removes finalizers. Those of objects in no namespace but Namespaces
// themselves always do: only who may edit what all share can set them.
type Trust struct {
	// Namespaces are those where annotations count, by name or as a pattern
	// ("team-*"). A Namespace is in itself.
	Namespaces []string `json:"namespaces,omitempty"`
	// Subjects are users and groups whose requests heed AllowAnnotation
	// everywhere.
	Subjects []string `json:"subjects,omitempty"`
}

// everybody is trusted where nothing is configured.
var everybody = Trust{Namespaces: []string{"*"}}

func (t Trust) check() error {
	for _, pattern := range t.Namespaces {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("trustAnnotations.namespaces: %q: %w", pattern, err)
		}
	}
	return nil
}

// Place tells whether annotations count on the objects of a namespace, "" for
// those in none.
func (t Trust) Place(namespace string) bool {
	return namespace == "" || slices.ContainsFunc(t.Namespaces, func(pattern string) bool {
		matches, _ := path.Match(pattern, namespace) // patterns were checked
		return matches
	})
}

// request tells whether annotations of the object of a request count.
func (t Trust) request(r request) bool {
	if r.resource == namespaces {
		return t.Place(r.name)
	}
	return t.Place(r.namespace)
}

// person tells whether whoever makes a request is among the subjects.
func (t Trust) person(r request) bool {
	user := child(r.raw, "userInfo")
	groups, _ := user["groups"].([]any)
	return slices.ContainsFunc(t.Subjects, func(subject string) bool {
		return subject == str(user, "username") || slices.Contains(groups, any(subject))
	})
}
